"""Reads runs, makes a report, and writes its page."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from collab.errors import RecordError
from collab.evaluation.table import ResultTable, agents_table
from collab.recipe.differences import reward_in
from collab.report import DEFAULT_MAX_EPISODES
from collab.report.episodes import ShownEpisode, choose_shown_episodes, episode_data
from collab.report.held_out import change_table, held_out_panels, task_table, training_tables
from collab.report.page import SCRIPTS, STYLES, Texts, Updates, fill_page, pack_data
from collab.report.panels import Panel, training_panels
from collab.report.results import evaluation_tables, run_tables
from collab.report.runs import Reading, Run, cohorts_of, read_runs, value_at
from collab.rewards.declared import score_columns
from collab.rewards.library import language_of
from collab.runs.atomic import explain_disk_errors, write_atomically
from collab.runtime.summary import usage_by_agent
from collab.trainers.training.alarms import Alarms, can_compare_turns
from collab.wording import counted, format_duration

TRAINER_FACTS = {
    "algorithm": "algorithm",
    "group size": "group_size",
    "groups per step": "tasks_per_step",
    "turn structure": "turn_structure",
    "discount": "discount",
    "normalize": "normalize",
    "objective": "objective",
    "token weighting": "token_weighting",
    "policies": "policies",
    "rank": "lora.rank",
    "learning rate": "learning_rate",
    "KL weight": "kl_coef",
    "clip ratio": "clip_ratio",
    "held out": "evaluation.tasks",
}


@dataclass(frozen=True)
class RunFacts:
    """The facts that a report shows about a run: status, settings, agents, recipe and command."""

    name: str
    status: str
    facts: dict[str, str]
    trainer: dict[str, str]
    """The settings of its training, empty for a run without training."""
    agents: ResultTable
    recipe: str
    command: str

    @property
    def summary(self) -> str:
        """The team, task and algorithm in one line, for the folded view."""
        parts = [self.facts.get(label, "") for label in ("team", "task")]
        parts.append(self.trainer.get("algorithm", ""))
        return " · ".join(text for text in parts if text)


def run_facts(run: Run) -> RunFacts:
    """Return the facts that the report shows about a run."""
    words = run.about.get("command", [])
    return RunFacts(
        name=run.name,
        status=run.status,
        facts=_facts(run),
        trainer=_drop_unknown(
            {k: value_at(run.recipe, f"trainer.{v}") for k, v in TRAINER_FACTS.items()}
        )
        if run.is_training
        else {},
        agents=agents_table(
            f"Agents of {run.name}", usage_by_agent(run.episodes), run.about.get("models", {})
        ),
        recipe=run.recipe_text,
        command=shlex.join(["collab", *words[1:]]) if words else "",
    )


def shared_facts(runs: Sequence[RunFacts]) -> dict[str, str]:
    """Return the facts, by label, that are equal in all runs; none for a single run."""
    if len(runs) < 2:
        return {}
    first = {**runs[0].facts, **runs[0].trainer}
    return {
        label: value
        for label, value in first.items()
        if all({**run.facts, **run.trainer}.get(label) == value for run in runs)
    }


def _facts(run: Run) -> dict[str, str]:
    about, recipe, versions = run.about, run.recipe, run.about.get("versions", {})
    teams = sorted({episode.team for episode in run.episodes})
    failed = sum(episode.failure is not None for episode in run.episodes)
    seconds = value_at(about, "summary.seconds")
    return _drop_unknown(
        {
            "team": about.get("team") or ", ".join(teams),
            "protocol": value_at(recipe, "team.protocol"),
            "task": _task(run),
            "episodes": f"{len(run.episodes):,}" + (f", {failed:,} failed" if failed else ""),
            "steps": _steps(run),
            "turns": about.get("turns"),
            "feedback": _feedback(value_at(recipe, "team.feedback")),
            "seed": about.get("seed"),
            "isolation": about.get("isolation"),
            "began": str(about.get("started", ""))[:16].replace("T", " "),
            "took": None if seconds is None else format_duration(seconds),
            "versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
        }
    )


def _drop_unknown(facts: Mapping[str, object]) -> dict[str, str]:
    return {
        label: f"{value:g}" if isinstance(value, float) else str(value)
        for label, value in facts.items()
        if value not in (None, "", [], ())
    }


def _task(run: Run) -> str | None:
    name = value_at(run.recipe, "task.name")
    tasks = run.about.get("tasks") or sorted({e.task for e in run.episodes})
    if len(tasks) == 1:
        return str(tasks[0])
    name = name or (str(tasks[0]).partition("/")[0] if tasks else None)
    return f"{name}, {counted(len(tasks), 'problem')}" if tasks else name


def _steps(run: Run) -> str | None:
    if not run.is_training:
        return None
    planned = run.about.get("steps")
    done = int(run.steps[-1]["step"]) if run.steps else 0
    return f"{done:,} of {planned:,}" if planned is not None else f"{done:,}"


def _feedback(sources: object) -> str | None:
    if not isinstance(sources, Sequence) or isinstance(sources, str):
        return None
    names = [s.get("source", "") if isinstance(s, Mapping) else str(s) for s in sources]
    return ", ".join(str(name) for name in names)


MAX_BYTES_PER_EPISODE = 5_000
"""Size limit of the page per episode. At least a thousand episodes are counted."""

TEXT_LIMITS = (20_000, 6_000, 2_000, 600)
"""Lengths at which strings are truncated. The first one that fits is used."""


@dataclass(frozen=True)
class Alarm:
    """A warning of a training run, with the step that raised it."""

    run: str
    step: int
    text: str


@dataclass(frozen=True)
class HtmlReport:
    """The contents of a report page. Its script draws curves and episodes from the data."""

    title: str
    lead: str
    results: list[ResultTable]
    """The tables at the top."""
    runs: list[RunFacts]
    shared: dict[str, str]
    """Facts that all of several runs share."""
    notes: list[str]
    tables: list[ResultTable]
    cohorts: list[str]
    """Labels of the curves' colors, empty for one recipe."""
    panels: list[Panel]
    constants: list[str]
    """Metrics that were the same at every step, in words."""
    alarms: list[Alarm]
    shown: list[ShownEpisode] = field(default_factory=list)


def write_report(
    paths: Sequence[Path], out: Path, *, max_episodes: int = DEFAULT_MAX_EPISODES
) -> HtmlReport:
    """Write one HTML file about some runs, and return the report.

    Raises:
        RecordError: there is nothing to show, or `out` cannot be written, or is a file that is not
            a report.
    """
    reading = read_runs(paths)
    report = make_report(reading, max_episodes)
    page = make_page(report, reading.runs)
    remedy = "choose another file with --out"
    with explain_disk_errors(out, remedy):
        exists = out.exists() and not out.is_dir()
        if exists and not (_is_report(out) or _is_link_to_file(out)):
            raise RecordError(f"{out} exists and is not a report; {remedy}")
        out.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(out, page, remedy)
    return report


def _is_report(path: Path) -> bool:
    """Return True if an earlier call wrote the file, so that it may be replaced."""
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return b'<meta name="generator" content="collab ' in stream.read(4096)


def _is_link_to_file(path: Path) -> bool:
    """Return True for a link to a file, which a report may replace, but not for /dev/stdout."""
    return path.is_symlink() and path.is_file() and not str(path.readlink()).startswith("/proc/")


def make_report(reading: Reading, max_episodes: int = DEFAULT_MAX_EPISODES) -> HtmlReport:
    """Return the report of some runs, with up to `max_episodes` episodes."""
    runs = reading.runs
    trained = [run for run in runs if run.is_training]
    played = [
        run for run in runs if not run.is_training and run.path not in reading.evaluated_folders
    ]
    cohorts = cohorts_of(trained)
    changing, constants = _split_constant_panels(
        [*held_out_panels(cohorts), *training_panels(cohorts)]
    )
    shown, total = choose_shown_episodes(runs, max_episodes)
    tables = [t for t in (change_table(runs, shown), task_table(runs, shown)) if t is not None]
    evaluated = [table for results in reading.results for table in evaluation_tables(results)]
    facts = [run_facts(run) for run in runs]
    return HtmlReport(
        title=_title(reading),
        lead=_lead(runs),
        results=[*training_tables(cohorts), *evaluated, *run_tables(played)],
        runs=facts,
        shared=shared_facts(facts),
        notes=list(_notes(reading, len(shown), total)),
        tables=tables,
        cohorts=[cohort.label for cohort in cohorts] if len(cohorts) > 1 else [],
        panels=changing,
        constants=constants,
        alarms=[alarm for run in trained for alarm in _alarms(run)],
        shown=shown,
    )


def make_page(report: HtmlReport, runs: Sequence[Run], updates: Updates | None = None) -> str:
    """Return the HTML. If it would be too large, strings are truncated, and a note says so.

    `updates` is only for served pages.
    """
    size_limit = MAX_BYTES_PER_EPISODE * max(1000, len(report.shown))
    page = ""
    for limit in TEXT_LIMITS:
        texts = Texts(limit)
        data = pack_data(_page_data(report, runs, texts))
        notes = [*report.notes]
        if texts.shortened:
            notes.append(
                f"{texts.shortened:,} strings are truncated at {texts.limit:,} characters to keep"
                " this file small; the run's folder has them in full."
            )
        shown = replace(report, notes=notes)
        page = fill_page("report", STYLES, SCRIPTS, updates=updates, report=shown, data=data)
        if len(page) <= size_limit:
            break
    return page


def _page_data(report: HtmlReport, runs: Sequence[Run], texts: Texts) -> dict[str, Any]:
    columns = [score_columns(reward_in(run.recipe)) for run in runs]
    episodes = [episode_data(shown, texts, columns[shown.run]) for shown in report.shown]
    return {
        "cohorts": report.cohorts,
        "panels": [asdict(panel) for panel in report.panels],
        "runs": [{"name": facts.name, "language": _language(run)}
                 for facts, run in zip(report.runs, runs, strict=True)],
        "episodes": episodes,
        "texts": list(texts),
    }  # fmt: skip


def _language(run: Run) -> str | None:
    """Return the language of the joint artifacts, or None for plain text."""
    languages = (language_of(e.score) for e in run.episodes if e.score is not None)
    return next((language for language in languages if language), None)


def _notes(reading: Reading, shown: int, total: int) -> Iterator[str]:
    for run in reading.runs:
        name = f"{run.name}: " if len(reading.runs) > 1 else ""
        yield from (f"{name}{complaint}" for complaint in run.complaints)
    yield from reading.complaints
    if shown < total:
        yield (
            f"{shown:,} of {total:,} episodes are in this report, evenly from each run; its numbers"
            " cover all episodes. For more, use --episodes N."
        )


def _title(reading: Reading) -> str:
    runs = reading.runs
    if len(runs) == 1:
        return runs[0].name
    if len(reading.results) == 1 and all(run.path in reading.evaluated_folders for run in runs):
        return f"{', '.join(run.name for run in runs)} on {reading.results[0].suite}"
    teams = dict.fromkeys(str(run.about.get("team") or run.name) for run in runs)
    return f"{', '.join(teams)}: {counted(len(runs), 'run')}"


def _lead(runs: Sequence[Run]) -> str:
    leads = {
        str(value_at(run.recipe, "description") or value_at(run.recipe, "team.description") or "")
        for run in runs
    }
    return leads.pop() if len(leads) == 1 else ""


def _split_constant_panels(panels: Sequence[Panel]) -> tuple[list[Panel], list[str]]:
    """Return panels whose values change, and describe the others in words."""
    changing, constants = [], []
    for panel in panels:
        values = {value for series in panel.series for value in series.y}
        steps = max((len(series.x) for series in panel.series), default=0)
        if len(values) == 1 and steps > 1 and not panel.stacked:
            [value] = values
            shown = f"{100 * value:g} %" if panel.unit == "share" else f"{value:g}"
            constants.append(f"{panel.title[0].lower()}{panel.title[1:]} {shown}")
        else:
            changing.append(panel)
    return changing, constants


def _alarms(run: Run) -> Iterator[Alarm]:
    keys = ("task.environment", "team.when_solved", "trainer.turn_structure")
    compare = can_compare_turns(*(value_at(run.recipe, key) for key in keys))
    alarms = Alarms(reward_in(run.recipe), turns_compare=compare)
    for row in run.steps:
        for text in alarms.read(row):
            yield Alarm(run.name, int(row["step"]), text)
    for evaluation in run.evaluations:
        for text in evaluation.warnings:
            yield Alarm(run.name, evaluation.step, text)
