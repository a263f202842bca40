"""`collab probe`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from collab.cli.options import (
    JSON,
    MODEL,
    RUN_OUT,
    SANDBOX,
    SETTINGS,
    TEAM,
    TRUST,
    consent,
    option,
    suite_of,
    with_sandbox,
)
from collab.cli.screen.page import DIM, NAME, Page, Piece, open_page

if TYPE_CHECKING:
    from collab.evaluation.results import Estimate
    from collab.probe.results import Best, GameProbe, TeamProbe
    from collab.recipe import Recipe
    from collab.records import Problem


def command(
    team: str = TEAM,
    *,
    task: list[str] | None = option(
        "--task, -t",
        "ADDRESS",
        "A suite, to play tasks of its training split, or problems. Repeatable.",
    ),
    model: str | None = MODEL,
    settings: list[str] | None = SETTINGS,
    samples: int | None = option(
        "--samples, -n", "G", "Episodes per task. Default: the trainer's group_size, or 8.", min=2
    ),
    tasks: int = option("--tasks", "N", "Largest number of tasks.", min=1, default=10),
    seed: int | None = option(
        "--seed", "N", "Random seed; the same seed draws the same tasks.", min=0
    ),
    sandbox: str | None = SANDBOX,
    trust: bool = TRUST,
    json: bool = JSON,
    out: Path | None = RUN_OUT,
) -> None:
    """Check, before training, whether a team has anything to learn from.

    The command plays some tasks and scores all combinations of the agents'
    independent answers. It prints returns, dead groups, each agent's share of
    the reward, truncated and empty answers, and the best of G samples and of
    G^n combinations. Then it suggests changes.

    Examples:
      collab probe coding --task humaneval
      collab probe coding --task humaneval --samples 4 --tasks 20 --json
      collab probe examples/recipes/game.yaml --out runs/probe
      collab report runs/probe

    The result is an ordinary run's folder, with an extra file probe.json.

    Exit status: 0 done, 1 the run or every episode failed, 2 bad usage or
    something is missing, 130 interrupted.
    """
    from collab.cli.plan import check
    from collab.probe.probe import draw, training_addresses
    from collab.recipe import load_recipe

    recipe = load_recipe(
        team,
        task=suite_of(task),
        settings=with_sandbox(settings, sandbox),
        trust=consent(trust),
        model=model,
        seed=seed,
    )
    planned = recipe.trainer.group_size if recipe.trainer and recipe.trainer.group_size > 1 else 8
    recipe = recipe.model_copy(update={"samples": samples or planned})
    recipe, problems = check(recipe, training_addresses(recipe, task or []))
    raise typer.Exit(_probe(recipe, draw(problems, tasks, recipe.seed), out, json=json))


def _probe(recipe: Recipe, problems: Sequence[Problem], out: Path | None, *, json: bool) -> int:
    import asyncio
    import time

    from collab.cli.live.playing import exit_status, play
    from collab.cli.live.view import JsonView, open_view
    from collab.probe.probe import probe
    from collab.runs.about import new_run_id
    from collab.runs.atomic import write_atomically, writing
    from collab.runs.layout import PROBE

    folder = out or Path("runs") / new_run_id(recipe.team.name)
    view = open_view(json=json)
    began = time.perf_counter()
    played = play(recipe, problems, out=folder, view=view)
    status = exit_status(played, require_solved=False)
    if played.status != "done" or all(episode.failure for episode in played.episodes):
        return status
    outcome = asyncio.run(probe(recipe, problems, played.episodes, time.perf_counter() - began))
    with writing(folder / PROBE):
        write_atomically(folder / PROBE, outcome.model_dump_json(indent=2))
    if isinstance(view, JsonView):
        view.see(outcome)
    else:
        show_probe(open_page(), outcome)
    return status


def show_probe(page: Page, probe: TeamProbe) -> None:
    """Numbers of the team, numbers of its agents, and advice."""
    page.line()
    page.table(["before training", ">", "95 % interval"], list(_rows(probe)))
    page.line()
    names = ("tokens", "limit", "cut off", "empty", "own", "influence")
    page.table(["agent", *(f">{name}" for name in names)], _agents(probe))
    page.line()
    for text in probe.advice:
        page.line(("· ", NAME), text)


def _rows(probe: TeamProbe) -> Iterator[list[Piece]]:
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
    text = f"{probe.seconds:.0f} s"
    if probe.crossed:
        text += f", and {probe.judging_seconds:.1f} s to judge {probe.crossed.scored:,} more"
    yield ["generated tokens", f"{probe.tokens:,}", text]


def _game_rows(game: GameProbe) -> Iterator[list[Piece]]:
    for name, value in game.returns.items():
        text = f"{value.low:.2f} to {value.high:.2f}"
        yield [f"mean return of {name}", f"{value.mean:.2f}", (text, DIM)]
    for name, value in game.at_end.items():
        yield _row(f"{name}, at the end", value)


def _best_rows(probe: TeamProbe, best: Best) -> Iterator[list[Piece]]:
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
    """A share, or points and their maximum, with the interval."""
    if most is None:
        return [name, f"{value.mean:.0%}", (f"{value.low:.0%} to {value.high:.0%}", DIM)]
    text = f"{value.low:.2f} to {value.high:.2f}"
    return [name, f"{value.mean:.2f} of {most:.2f}", (text, DIM)]


def _agents(probe: TeamProbe) -> list[list[Piece]]:
    crossed = probe.crossed
    owns, influence = (crossed.own, crossed.influence) if crossed else ({}, {})
    return [
        [
            (name, NAME),
            f"{agent.tokens:.0f}",
            str(agent.limit),
            f"{agent.truncated.mean:.0%}",
            f"{agent.empty.mean:.0%}",
            _share(owns.get(name)),
            _share(influence.get(name)),
        ]
        for name, agent in probe.agents.items()
    ]


def _share(value: float | None) -> str:
    return "-" if value is None else f"{value:.0%}"
