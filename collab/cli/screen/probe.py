"""A probe on the terminal: its numbers with their intervals, then what to change."""

from __future__ import annotations

from collections.abc import Iterator

from collab.cli.screen.page import DIM, NAME, Column, Page, Piece
from collab.evaluation.results import Estimate
from collab.probe.results import Best
from collab.probe.results import GameProbe as Game
from collab.probe.results import TeamProbe as Probe


def show_probe(page: Page, probe: Probe) -> None:
    """All that was found."""
    page.line()
    rows = list(_rows(probe))
    columns = [Column("before training"), Column("", right=True), Column("95 % interval")]
    page.table(columns, rows)
    page.line()
    page.table(*_agents(probe))
    page.line()
    for text in probe.advice:
        page.line(("· ", NAME), text)


def _rows(probe: Probe) -> Iterator[list[Piece]]:
    groups = len(probe.tasks)
    if probe.game is None or not probe.game.zero_sum:
        yield _row("mean return", probe.mean, probe.maximum)
    if probe.solved:
        yield _row("solved", probe.solved)
    if probe.game:
        yield from _game_rows(probe.game)
    yield ["dead groups, as played", f"{probe.dead} of {groups}", ""]
    if probe.crossed:
        yield ["dead groups, crossed", f"{probe.crossed.dead} of {groups}", ""]
    if probe.best:
        yield from _best_rows(probe, probe.best)
    if probe.crossed and probe.crossed.interaction is not None:
        yield ["decided only together", f"{probe.crossed.interaction:.0%}", "of the variance"]
    told = f"{probe.seconds:.0f} s"
    if probe.crossed:
        told += f", and {probe.judging_seconds:.1f} s to judge {probe.crossed.scored:,} more"
    yield ["generated tokens", f"{probe.tokens:,}", told]


def _game_rows(game: Game) -> Iterator[list[Piece]]:
    for name, value in game.returns.items():
        told = f"{value.low:.2f} to {value.high:.2f}"
        yield [f"mean return of {name}", f"{value.mean:.2f}", (told, DIM)]
    for name, value in game.at_end.items():
        yield _row(f"{name}, at the end", value)


def _best_rows(probe: Probe, best: Best) -> Iterator[list[Piece]]:
    if best.whole_games:
        yield _row(f"best of {best.samples} games, return", best.reward, probe.maximum)
        if best.solved:
            yield _row(f"best of {best.samples} games, solved", best.solved)
        return
    where = " in turn 1" if probe.turns > 1 else ""
    of = f"best of {best.samples}{where}"
    yield _row(f"{of}, reward", best.reward, probe.reward_maximum)
    if best.solved:
        yield _row(f"{of}, solved", best.solved)
    if best.reward_combined:
        of = f"best of {best.combinations:,} combinations{where}"
        yield _row(f"{of}, reward", best.reward_combined, probe.reward_maximum)
        if best.solved_combined:
            yield _row(f"{of}, solved", best.solved_combined)


def _row(name: str, value: Estimate, most: float | None = None) -> list[Piece]:
    """A share, or points of the most that there are."""
    if most is None:
        return [name, f"{value.mean:.0%}", (f"{value.low:.0%} to {value.high:.0%}", DIM)]
    told = f"{value.low:.2f} to {value.high:.2f}"
    return [name, f"{value.mean:.2f} of {most:.2f}", (told, DIM)]


def _agents(probe: Probe) -> tuple[list[Column], list[list[Piece]]]:
    names = ("agent", "tokens", "limit", "cut off", "empty", "own", "influence")
    columns = [Column(name, right=position > 0) for position, name in enumerate(names)]
    crossed = probe.crossed
    own, influence = (crossed.own, crossed.influence) if crossed else ({}, {})
    rows: list[list[Piece]] = [
        [
            (name, NAME),
            f"{agent.tokens:.0f}",
            str(agent.limit),
            f"{agent.truncated.mean:.0%}",
            f"{agent.empty.mean:.0%}",
            _share(own.get(name)),
            _share(influence.get(name)),
        ]
        for name, agent in probe.agents.items()
    ]
    return columns, rows


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
