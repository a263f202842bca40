"""Reads runs, makes a report, and writes its page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from collab.evaluation.table import ResultTable
from collab.report.cohorts import cohorts_of
from collab.report.episodes import (
    ShownEpisode,
    as_text,
    choose_episodes,
    episode_data,
    is_recorded,
    problems_of,
)
from collab.report.facts import RunFacts, facts_of, shared_facts
from collab.report.held_out import (
    change_table,
    held_out_panels,
    opening_of_training,
)
from collab.report.opening import Opening, evaluation_opening, evaluation_table, joined, run_opening
from collab.report.page import Follows, Texts, pack, render
from collab.report.panels import Panel, training_panels
from collab.report.problems import task_table
from collab.report.runs import Reading, Run, read_all, reward_of, value_at
from collab.rewards.declared import language_of
from collab.rewards.declared import shown as listed
from collab.runs.atomic import writing
from collab.trainers.training.alarms import Alarms
from collab.wording import counted

MOST_EPISODES = 2000
"""Episodes of a report by default."""

BYTES_FOR_EACH = 5_000
"""Size of the page for each of its episodes, but at least for a thousand."""

TEXT_LIMITS = (20_000, 6_000, 2_000, 600)
"""Lengths at which texts are cut, the first that fits."""


@dataclass(frozen=True)
class Alarm:
    run: str
    step: int
    text: str


@dataclass(frozen=True)
class HtmlReport:
    """The page's contents; the script draws curves and episodes from the data."""

    title: str
    lead: str
    opening: Opening
    """The result, at the top."""
    runs: list[RunFacts]
    shared: dict[str, str]
    """Facts that all of several runs share."""
    notes: list[str]
    tables: list[ResultTable]
    cohorts: list[str]
    """Labels of the curves' colours; empty for one recipe."""
    panels: list[Panel]
    constants: list[str]
    """Metrics that were the same at every step, in words."""
    alarms: list[Alarm]
    shown: list[ShownEpisode] = field(default_factory=list)

    @property
    def learning(self) -> bool:
        return bool(self.panels or self.constants)


def write_report(paths: Sequence[Path], out: Path, *, most: int = MOST_EPISODES) -> HtmlReport:
    """Write one HTML file about some runs.

    Raises:
        RecordError: there is nothing to be shown, or the file cannot be written.
    """
    reading = read_all(paths)
    report = make_report(reading, most)
    page = make_page(report, reading.runs)
    with writing(out, "give another file with --out"):
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page, encoding="utf-8")
    return report


def make_report(reading: Reading, most: int = MOST_EPISODES) -> HtmlReport:
    """The report of some runs."""
    runs = reading.runs
    trained = [run for run in runs if run.is_training]
    played = [run for run in runs if not run.is_training and run.path not in reading.entrants]
    cohorts = cohorts_of(trained)
    moving, constants = _constants([*held_out_panels(cohorts), *training_panels(cohorts)])
    shown, total = choose_episodes(runs, most)
    tables = [
        table
        for table in (
            *(evaluation_table(results) for results in reading.results),
            change_table(runs, shown),
            task_table(runs, shown),
        )
        if table is not None
    ]
    openings = [opening_of_training(cohorts), *map(evaluation_opening, reading.results)]
    facts = [facts_of(run) for run in runs]
    return HtmlReport(
        title=_title(reading),
        lead=_lead(runs),
        opening=joined([*openings, run_opening(played)]),
        runs=facts,
        shared=shared_facts(facts),
        notes=list(_notes(reading, len(shown), total)),
        tables=tables,
        cohorts=[cohort.label for cohort in cohorts] if len(cohorts) > 1 else [],
        panels=moving,
        constants=constants,
        alarms=[alarm for run in trained for alarm in _alarms(run)],
        shown=shown,
    )


def make_page(report: HtmlReport, runs: Sequence[Run], follows: Follows | None = None) -> str:
    """The HTML, with texts cut where it would become too large, and a word on what was cut.

    `follows` is of a page that is served.
    """
    largest = BYTES_FOR_EACH * max(1000, len(report.shown))
    page = ""
    for limit in TEXT_LIMITS:
        texts = Texts(limit)
        data = pack(_data(report, runs, texts))
        cut_notes = [_cut_note(texts)] if texts.shortened else []
        page = render(replace(report, notes=[*report.notes, *cut_notes]), data, follows)
        if len(page) <= largest:
            break
    return page


def _data(report: HtmlReport, runs: Sequence[Run], texts: Texts) -> dict[str, Any]:
    columns = [listed(reward_of(run)) for run in runs]
    episodes = [episode_data(shown, texts, columns[shown.run]) for shown in report.shown]
    known = [problems_of(run) for run in runs]
    for data, shown in zip(episodes, report.shown, strict=True):
        fields = known[shown.run].get(shown.episode.task, {})
        fields = fields if is_recorded(fields, shown.episode) else {}
        data["problem"] = [[name, texts(as_text(value))] for name, value in fields.items()]
    return {
        "cohorts": report.cohorts,
        "panels": [asdict(panel) for panel in report.panels],
        "runs": [{"name": facts.name, "language": _language(run)}
                 for facts, run in zip(report.runs, runs, strict=True)],
        "episodes": episodes,
        "texts": list(texts),
    }  # fmt: skip


def _cut_note(texts: Texts) -> str:
    return (
        f"{texts.shortened:,} texts are truncated at {texts.limit:,} characters to keep this file"
        " small; the run's folder has the full texts."
    )


def _language(run: Run) -> str | None:
    """The language of the joint artefacts; None for plain text."""
    languages = (language_of(e.score) for e in run.episodes if e.score is not None)
    return next((language for language in languages if language), None)


def _notes(reading: Reading, shown: int, total: int) -> Iterator[str]:
    for run in reading.runs:
        yield from run.complaints
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
    if len(reading.results) == 1 and all(run.path in reading.entrants for run in runs):
        return f"{', '.join(run.name for run in runs)} on {reading.results[0].suite}"
    teams = dict.fromkeys(str(run.about.get("team") or run.name) for run in runs)
    return f"{', '.join(teams)}: {counted(len(runs), 'run')}"


def _lead(runs: Sequence[Run]) -> str:
    leads = {value_at(run.recipe, "description") or value_at(run.recipe, "team.description")
            for run in runs}  # fmt: skip
    return str(leads.pop() or "") if len(leads) == 1 else ""


def _constants(panels: Sequence[Panel]) -> tuple[list[Panel], list[str]]:
    """Return panels whose values change, and describe the others in words."""
    moving, constants = [], []
    for panel in panels:
        values = {value for series in panel.series for value in series.y}
        steps = max((len(series.x) for series in panel.series), default=0)
        if len(values) == 1 and steps > 1 and not panel.stacked:
            [value] = values
            shown = f"{100 * value:g} %" if panel.unit == "share" else f"{value:g}"
            constants.append(f"{panel.title[0].lower()}{panel.title[1:]} {shown}")
        else:
            moving.append(panel)
    return moving, constants


def _alarms(run: Run) -> Iterator[Alarm]:
    alarms = Alarms(reward_of(run))
    for row in run.steps:
        for text in alarms.read(row):
            yield Alarm(run.name, int(row["step"]), text)
