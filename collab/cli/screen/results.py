"""The results of runs, probes, training runs, evaluations and studies, in lines and tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Any

from collab.cli.screen.episode import format_points
from collab.cli.screen.page import BAD, BOLD, DIM, GOOD, WARN, WARNING, Page, Piece
from collab.evaluation.results import Estimate, Results, result_tables
from collab.evaluation.table import ResultTable, TableCell, agents_table
from collab.evaluation.values import explain_results
from collab.probe.results import BestOf, TeamProbe
from collab.runs import metric_names as names
from collab.runtime.events import RunStarted
from collab.trainers.training.events import (
    Evaluation,
    StepFinished,
    TrainingFinished,
    largest_return,
    mean_return,
)
from collab.wording import counted

if TYPE_CHECKING:
    from collab.study.results import StudyResults
    from collab.study.spec import StudySpec
    from collab.trainers import Plan


def show_table(page: Page, table: ResultTable) -> None:
    """Show a table with its title and note. Each interval follows its mean in brackets."""
    page.line()
    page.line((table.title, BOLD))
    page.table(
        _align_numbers(table.columns), [[_cell_piece(cell) for cell in row] for row in table.rows]
    )
    if table.note:
        page.line((table.note, DIM))


def _align_numbers(titles: Sequence[str]) -> list[str]:
    """Return columns with titles. The columns from the second on contain numbers."""
    return [titles[0], *(f">{title}" for title in titles[1:])]


def _cell_piece(cell: TableCell) -> Piece:
    text = f"{cell.text} ({cell.interval})" if cell.interval else cell.text
    return (text, GOOD if cell.sign > 0 else BAD) if cell.sign else text


def show_summary(page: Page, summary: Mapping[str, Any], models: Mapping[str, str]) -> None:
    """Show the counts of a run, its speed, its warnings and a row per agent."""
    page.line(counts_text(summary))
    page.line(
        f"{summary['new_tokens']:,} new tokens in {summary['seconds']:.1f} s,"
        f" {summary['tokens_per_second']:,.0f} tokens/s"
    )
    for warning in summary["warnings"]:
        page.line(WARNING, warning)
    agents = summary["agents"]
    if agents:
        table = agents_table("", agents, {name: models.get(name, "") for name in agents})
        titles = [t.lower() if t in ("Agent", "Model") else f">{t.lower()}" for t in table.columns]
        page.table(titles, [[_cell_piece(cell) for cell in row] for row in table.rows])


def counts_text(summary: Mapping[str, Any]) -> str:
    """Return the number of episodes by outcome, and the mean return."""
    text = counted(summary["episodes"], "episode")
    if summary["solvable"]:
        solved, known = summary["solved"], summary["solvable"]
        text += f": {solved} solved, {known - solved} not solved"
    if summary["failed"]:
        types = ", ".join(f"{name} {count}" for name, count in summary["failures"].items())
        text += f", {summary['failed']} failed ({types})"
    if summary["mean_return"] is None and summary["failed"] < summary["episodes"]:
        text += ", not scored"
    elif summary["mean_return"] is not None:
        text += f"; mean return {format_points(summary['mean_return'], summary['largest_return'])}"
    if summary["flagged"]:
        text += f"; {summary['flagged']} flagged"
    return text


def best_of_line(best: BestOf) -> str:
    """Format the best combination of a problem's answers in a line."""
    made_of = ", ".join(f"{agent} of sample {n}" for agent, n in best.made_of.items())
    how = "from one sample" if best.played else "a new combination"
    return (
        f"{best.task}: best of {best.scored} combinations of {best.samples} samples: reward"
        f" {best.score.reward:.2f} of {best.score.maximum:.2f} by {made_of}, {how}; best"
        f" sample: {best.best_played:.2f}; an upper bound, because the reward itself chose"
    )


def opening_line(event: RunStarted) -> list[Piece]:
    """Return the team, its problems and its models, before a run or a training run."""
    models = ", ".join(sorted(set(event.models.values())))
    turns = f", {event.turns} turns" if event.turns > 1 else ""
    samples = f", {event.samples} samples" if event.samples > 1 else ""
    problems = event.tasks[0] if len(event.tasks) == 1 else counted(len(event.tasks), "problem")
    text = f" on {problems}{samples}{turns}, {models}"
    return [(event.team, BOLD), text, (f", seed {event.seed}", DIM)]


def step_line(event: StepFinished) -> list[Piece]:
    """Return a line about a training step: its number and its metrics."""
    row = event.metrics
    reward = row.get(names.RETURN_MEAN)
    cells = {
        "return": "" if reward is None else format_points(reward, row.get(names.RETURN_MAXIMUM)),
        "spread": _format(row.get(names.RETURN_SPREAD), ".3f"),
        "solved": _format(row.get(names.SOLVED), ".0%"),
        "dead": _format(row.get(names.DEAD_GROUPS), ".0%"),
        "dropped": _format(row.get(names.DROPPED), ".0%"),
        "entropy": "/".join(_format(value, ".2f") for value in _agent_values(row, names.ENTROPY)),
        "kl": "/".join(_format(value, ".3f") for value in _agent_values(row, names.KL)),
        "tok/s": _format(row.get(names.TOKENS_PER_SECOND), ".0f"),
        "s": _format(row.get(names.SECONDS), ".1f"),
    }
    metrics = "  ".join(f"{name} {text}" for name, text in cells.items() if text)
    return [(f"step {step_text(event)}  ", BOLD), metrics]


def step_text(event: StepFinished) -> str:
    """Return the step and the number of steps, or the share of the tokens that end the run."""
    if event.of_tokens is None or event.tokens is None:
        return f"{event.step}/{event.steps}"
    return f"{event.step} ({event.tokens / event.of_tokens:.0%})"


def _agent_values(row: Mapping[str, float], pattern: str) -> list[float]:
    return [value for key, value in row.items() if names.match_pattern(pattern, key) is not None]


def _format(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def held_out_title(step: int) -> str:
    """Say when a held-out evaluation took place, by the number of training steps before it."""
    return f"held out, after step {step}" if step else "held out, before training"


def held_out_text(event: Evaluation) -> str:
    """Return the mean returns of a held-out evaluation, its failures and its time."""
    parts = []
    for mode, results in (("sampled", event.sampled), ("greedy", event.greedy)):
        if results:
            points = format_points(mean_return(results), largest_return(results))
            parts.append(f"{mode} return {points}")
    if event.failed:
        parts.append(f"{counted(event.failed, 'episode')} failed")
    return f"{', '.join(parts)} ({event.seconds:.0f} s)"


def show_training(page: Page, event: TrainingFinished, folder: str) -> None:
    """Show the result of a training run: steps, time, and held-out results before and after."""
    summary = event.summary
    steps = counted(summary["steps"], "step")
    page.line(f"{steps} in {summary['seconds']:.0f} s")
    if summary.get("unlearned"):
        page.line(WARNING, f"training skipped {summary['unlearned']} of {steps}")
    if gains := summary.get("gains"):
        page.line()
        show_gains(page, gains)
    page.line("team: ", (join(["collab", "run", folder]), BOLD))


def show_gains(page: Page, gains: Mapping[str, Mapping[str, Any]]) -> None:
    """Print held-out results before and after training, with a row per sampling mode."""
    titles = (
        *("held out", "tasks", "return before", "after"),
        *("gain ± s.e.", "solved before", "after"),
    )
    rows: list[list[Piece]] = []
    for mode, gain in gains.items():
        error = "" if gain["error"] is None else f" ± {gain['error']:.2f}"
        row: list[Piece] = [mode, str(gain["tasks"])]
        row += [format_points(gain[end], gain["maximum"]) for end in ("before", "after")]
        row.append((f"{gain['gain']:+.2f}{error}", GOOD if gain["gain"] > 0 else BAD))
        row += [_format(gain[f"solved_{end}"], ".0%") or "-" for end in ("before", "after")]
        rows.append(row)
    page.table(_align_numbers(titles), rows)


def show_evaluation(page: Page, results: Results) -> None:
    """Show the tables of an evaluation, how to read them, and notes on their gaps."""
    for table in result_tables(results):
        show_table(page, table)
    if results.teams:
        page.line((explain_results(results), DIM))
    for note in results.notes:
        page.line(("note: ", WARN), note)


def show_study(page: Page, results: StudyResults) -> None:
    """Show the tables of a study, and the runs that they leave out."""
    from collab.study.page import study_tables

    for cell in results.cells:
        if cell.gap:
            page.line(("note: ", WARN), cell.gap)
    for table in study_tables(results):
        show_table(page, table)


def show_study_plan(
    page: Page, spec: StudySpec, plans: Mapping[str, Plan], jobs: int, folder: Path
) -> None:
    """Show every training run of a study, with its memory."""
    page.line(
        (folder.name, BOLD),
        f": {counted(len(plans), 'run')} of {spec.tokens:,} generated tokens, {jobs} at once,"
        f" evaluated {spec.evaluations + 1} times each",
    )
    rows: Sequence[Sequence[Piece]] = [
        [name, f"{plan.total / 1e9:.2f} GB", f"{plan.steps:,}"] for name, plan in plans.items()
    ]
    page.table(["run", ">memory", ">steps or more"], rows)
    page.line("folder: ", (str(folder), BOLD))


def show_probe(page: Page, probe: TeamProbe) -> None:
    """Print a probe's numbers for the team and each agent, and its advice."""
    from collab.evaluation.intervals import CONFIDENCE

    page.line()
    heads = ["before training", ">", f"{100 * CONFIDENCE:g} % interval"]
    page.table(heads, list(_probe_rows(probe)))
    page.line()
    names = ("tokens", "limit", "truncated", "empty", "own", "influence")
    page.table(["agent", *(f">{name}" for name in names)], _probe_agent_rows(probe))
    page.line()
    for text in probe.advice:
        page.line(("· ", BOLD), text)


def _probe_rows(probe: TeamProbe) -> Iterator[list[Piece]]:
    groups, game, best, crossed = len(probe.tasks), probe.game, probe.best, probe.crossed
    if game is None or not game.zero_sum:
        yield from _rows("mean return", probe.mean, probe.maximum)
    yield from _rows("solved", probe.solved)
    for name, value in game.returns.items() if game else ():
        yield from _rows(f"mean return of {name}", value, 0.0)
    for name, value in game.at_end.items() if game else ():
        yield from _rows(f"{name}, at the end", value)
    yield ["dead groups, as played", f"{probe.dead} of {groups}", ""]
    if crossed:
        yield ["dead groups, crossed", f"{crossed.dead} of {groups}", ""]
    if best:
        where = " in turn 1" if probe.turns > 1 and not best.whole_games else ""
        of = f"best of {best.samples}{' games' if best.whole_games else where}"
        largest = probe.maximum if best.whole_games else probe.reward_maximum
        yield from _rows(
            f"{of}, {'return' if best.whole_games else 'reward'}", best.reward, largest
        )
        yield from _rows(f"{of}, solved", best.solved)
        of = f"best of {best.combinations or 0:,} combinations{where}"
        yield from _rows(f"{of}, reward", best.reward_combined, largest)
        yield from _rows(f"{of}, solved", best.solved_combined)
    if crossed and crossed.interaction is not None:
        yield ["decided only together", f"{crossed.interaction:.0%}", "of the variance"]
    scored = ""
    if crossed:
        scored = f", and {probe.scoring_seconds:.1f} s to score {crossed.scored:,} more"
    yield ["generated tokens", f"{probe.tokens:,}", f"{probe.seconds:.0f} s{scored}"]


def _rows(name: str, value: Estimate | None, largest: float | None = None) -> Iterator[list[Piece]]:
    """Yield a share, or points with their maximum, and the interval, or nothing without a value."""
    if value is None:
        return
    if largest is None:
        yield [name, f"{value.mean:.0%}", (f"{value.low:.0%} to {value.high:.0%}", DIM)]
    else:
        text = f"{value.low:.2f} to {value.high:.2f}"
        yield [name, format_points(value.mean, largest), (text, DIM)]


def _probe_agent_rows(probe: TeamProbe) -> list[list[Piece]]:
    crossed = probe.crossed
    shares = (crossed.own, crossed.influence) if crossed else ({}, {})
    return [
        [
            (name, BOLD),
            f"{agent.tokens:.0f}",
            str(agent.limit),
            f"{agent.truncated.mean:.0%}",
            f"{agent.empty.mean:.0%}",
            *(_format(share.get(name), ".0%") or "-" for share in shares),
        ]
        for name, agent in probe.agents.items()
    ]
