"""The numbers of an evaluation, as in `eval.json`, at the end of `--json`, and in the tables.

Shares are from 0 to 1. docs/metrics.md explains the names of `metrics`. In a level without points,
the values of its parts count.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator

from collab.evaluation.table import (
    NO_VALUE,
    ResultTable,
    TableCell,
    TableRow,
    text_cell,
    with_whisker,
)
from collab.naming import FolderName
from collab.records import Failure, Record
from collab.records.former import former_keys
from collab.runs import metric_names as names
from collab.runs.log import to_pandas
from collab.runtime.events import Event
from collab.wording import counted, escape_controls, format_cost

if TYPE_CHECKING:
    import pandas


class Estimate(Record):
    """A mean over tasks with its interval."""

    mean: float
    low: float
    high: float
    tasks: int
    """Number of tasks with a value. Failed episodes reduce it."""

    @property
    def limits(self) -> tuple[float, float]:
        return self.low, self.high


def _with_current_names(metrics: dict[str, Estimate]) -> dict[str, Estimate]:
    return {names.current_name(name): estimate for name, estimate in metrics.items()}


Estimates = Annotated[dict[str, Estimate], AfterValidator(_with_current_names)]
"""Estimates by metric. Former names become current ones."""


class Speed(Record):
    """Speed of all agents together, while episodes were in progress."""

    seconds: float
    """Wall time during which at least one episode was in progress."""
    tokens_per_second: float
    """New tokens of all agents."""
    seconds_per_response: float
    """Seconds per joint response, that is, per turn of the whole team."""


class TeamResult(Record):
    """One team's numbers."""

    label: FolderName
    """The team's name in the tables."""
    folder: FolderName | None
    """Name of the team's folder within the evaluation's folder, or None if there is no record."""
    team: str
    protocol: str
    turns: int
    models: dict[str, str]
    """Model of each agent."""
    identity: str
    """Digest of everything that an episode depends on, except its task and sample."""
    planned: int
    episodes: int
    """Number of finished episodes, including failed ones."""
    failed: int
    failures: dict[str, int]
    """Failed episodes by their error's type."""
    failure: Failure | None
    """The first failure."""
    maximum: float | None
    """The largest possible reward of a turn."""
    most: float | None = None
    """Largest return of a game, in which not every turn pays the maximum."""
    metrics: Estimates
    speed: Speed | None
    concurrency: int
    """Largest number of episodes in progress at the same time, which affects the speed."""
    agents: dict[str, dict[str, Any]]
    """Responses and tokens of episodes that count, and all money, by agent and by feedback source
    that asks a model."""

    _former_keys = former_keys({"schemes": None})

    @property
    def total_failure(self) -> str | None:
        """The count and the first failure of a team that finished no episode, otherwise None."""
        if self.failure is None or self.failed < self.episodes:
            return None
        failed = f"every episode of {self.label} failed ({self.failed} of {self.episodes})"
        return f"{failed}; first failure: {self.failure.type}: {self.failure.message}"

    @property
    def largest_return(self) -> float | None:
        """Turns x maximum, or a game's largest return, or None if nothing was scored."""
        if self.most is not None:
            return self.most
        return None if self.maximum is None else self.turns * self.maximum


class Difference(Record):
    """The difference between a team and the first one, paired by task."""

    team: str
    baseline: str
    metrics: Estimates


class OverSeeds(Record):
    """A mean over seeds, or over pairs of runs, with its interval."""

    mean: float
    low: float | None
    """Lower limit. Both limits are None if all values are equal: the spread is unknown."""
    high: float | None
    tasks: int
    """The number of values."""

    @property
    def limits(self) -> tuple[float, float] | None:
        return None if self.low is None or self.high is None else (self.low, self.high)

    @property
    def interval_note(self) -> str:
        """Note in place of an interval that cannot be computed, otherwise ""."""
        if self.limits:
            return ""
        return f"all {self.tasks} equal" if self.tasks > 1 else "only 1"


class SeedGroup(Record):
    """Teams named `NAME-seed-N`: runs that differ only in the seed."""

    name: str
    seeds: tuple[int, ...]
    metrics: dict[str, OverSeeds]
    """Means of the metrics that every team of the group has."""
    baseline: str = ""
    """The first group, or "" for itself and for a group without its seeds."""
    differences: dict[str, OverSeeds] = {}
    """Differences to the baseline, paired by seed."""


class Results(Record):
    """The numbers of an evaluation. Printing them shows the tables of `collab eval`.

    `teams` holds a `TeamResult` per team, and its `metrics` an `Estimate` per metric.
    `differences` compares every other team with the first one.
    """

    evaluation: str
    status: Literal["running", "done", "interrupted", "failed", "killed"]
    suite: str
    tasks: tuple[str, ...]
    samples: int
    k: tuple[int, ...]
    seed: int
    levels: dict[str, tuple[str, ...]]
    """The reward's parts by level."""
    best_levels: dict[str, str] = {}
    """Maps names of best-of-k metrics to the levels whose shares they read."""
    confidence: float
    """The confidence of all intervals."""
    notes: tuple[str, ...]
    """Notes on missing numbers, with the reasons."""
    command: tuple[str, ...]
    versions: dict[str, str]
    teams: tuple[TeamResult, ...]
    """The teams evaluated so far, in the given order."""
    differences: tuple[Difference, ...]
    over_seeds: tuple[SeedGroup, ...] = ()
    """Means of teams that differ only in the seed, by their names."""

    def __repr__(self) -> str:
        """Return the tables that `collab eval` prints, and the notes on them."""
        tables = ["\n".join(table.as_lines()) for table in result_tables(self)]
        notes = "\n".join(f"note: {note}" for note in self.notes)
        return escape_controls("\n\n".join(filter(None, [*tables, notes])))

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        """Return the tables and notes as HTML for notebooks."""
        tables = "".join(table.as_html() for table in result_tables(self))
        notes = "".join(f"<p>note: {escape(note)}</p>" for note in self.notes)
        return escape_controls(tables + notes)

    def to_pandas(self) -> pandas.DataFrame:
        """Return a data frame with a row per team and metric: `mean`, `low`, `high` and `tasks`. A
        row of a difference names the subtracted team in `minus`.

        Raises:
            CollabError: pandas is not installed.
        """
        columns = [(team.label, "", team.metrics) for team in self.teams]
        columns += [(each.team, each.baseline, each.metrics) for each in self.differences]
        return to_pandas(
            {"team": team, "minus": minus, "metric": name, **estimate.model_dump()}
            for team, minus, metrics in columns
            for name, estimate in metrics.items()
        )


class EvaluationStarted(Record):
    """An evaluation has started: the first event."""

    type: Literal["eval.started"] = "eval.started"
    evaluation: str
    folder: str | None
    teams: tuple[str, ...]
    """Labels of the teams."""
    models: tuple[str, ...]
    suite: str
    tasks: tuple[str, ...]
    samples: int
    k: tuple[int, ...]
    seed: int
    isolation: str
    versions: dict[str, str]


class TeamStarted(Record):
    """The evaluation of a team has started."""

    type: Literal["team.started"] = "team.started"
    label: str
    planned: int
    recorded: int
    """Number of episodes from an earlier call, which are not run again."""


class TeamFinished(Record):
    """The evaluation of a team has ended, with its results."""

    type: Literal["team.finished"] = "team.finished"
    result: TeamResult


class EvaluationFinished(Record):
    """An evaluation has ended: the last event, with all results."""

    type: Literal["eval.finished"] = "eval.finished"
    results: Results


EvaluationEvent = EvaluationStarted | TeamStarted | Event | TeamFinished | EvaluationFinished


def result_tables(results: Results) -> list[ResultTable]:
    """Return the table of the teams, then differences and means over seeds if there are any."""
    teams, status = results.teams, "" if results.status == "done" else f" ({results.status})"
    sizes = f"{counted(len(results.tasks), 'problem')}, {counted(results.samples, 'sample')}"
    models = ", ".join(dict.fromkeys(m for team in teams for m in team.models.values()))
    title = f"{results.suite}: {sizes}, {models}, seed {results.seed}{status}"
    columns = {team.label: (team.metrics, team.largest_return) for team in teams}
    shown = ordered_metrics([team.metrics for team in teams], results.k, results.levels)
    repeated = {
        names.best_of_metric(name, 1)
        for name, level in results.best_levels.items()
        if names.fill_pattern(names.LEVEL, level) in shown
    }
    shown = [name for name in shown if name not in repeated]
    rows = [*metric_rows(shown, [*columns.values()]), *_cost_rows(teams)]
    tables = [ResultTable(title, ["", *columns], rows)]
    changes = [name for name in shown if names.match_pattern(names.VALUE, name) is None]
    if results.differences:
        title = f"difference to {results.differences[0].baseline}, on the same problems"
        by_team = {each.team: each.metrics for each in results.differences}
        tables.append(_table(title, changes, by_team, change=True))
    if groups := results.over_seeds:
        means = _table("means over seeds", shown, {each.name: each.metrics for each in groups})
        seeds = [", ".join(map(str, each.seeds)) for each in groups]
        tables.append(replace(means, rows=[_text_row("seeds", seeds), *means.rows]))
    if paired := {each.name: each.differences for each in groups if each.differences}:
        title = f"difference to {groups[0].name}, paired by seed"
        tables.append(_table(title, changes, paired, change=True))
    return [table for table in tables if table.rows]


def _table(
    title: str,
    shown: Sequence[str],
    columns: Mapping[str, Mapping[str, Estimate | OverSeeds]],
    *,
    change: bool = False,
) -> ResultTable:
    """Return a table with a row for each metric that a column has."""
    known = [name for name in shown if any(name in metrics for metrics in columns.values())]
    rows = [
        [
            text_cell(metric_title(name)),
            *(estimate_cell(name, each.get(name), change=change) for each in columns.values()),
        ]
        for name in known
    ]
    return ResultTable(title, ["", *columns], rows)


def metric_rows(
    shown: Sequence[str], columns: Sequence[tuple[Estimates, float | None]]
) -> Iterator[TableRow]:
    """Yield a row per metric. A column holds a team's metrics, and its largest return."""
    for name in shown:
        cells = [estimate_cell(name, metrics.get(name), most) for metrics, most in columns]
        if any(name in metrics for metrics, _ in columns):
            yield [text_cell(metric_title(name)), *cells]
            if name == names.RETURN:
                largest = [None if most is None else f"{most:.2f}" for _, most in columns]
                yield _text_row("return at most", largest)


def ordered_metrics(
    metrics: Sequence[Estimates], ks: Sequence[int] = (), levels: Mapping[str, Sequence[str]] = {}
) -> list[str]:
    """Return the metrics in the order of the table, each of them once."""
    known = list(dict.fromkeys(name for each in metrics for name in each))
    best = dict.fromkeys(filter(None, map(names.base_metric, known)))
    shown = [names.fill_pattern(names.PASS_AT, k) for k in ks]
    shown += [n for n in known if names.match_pattern(names.PASS_AT, n) and n not in shown]
    shown += [key for name in best for key in known if names.base_metric(key) == name]
    shown += [] if 1 in ks else [names.SOLVED]
    shown += [n for n in known if names.match_pattern(names.SOLVED_AFTER_TURN, n)]
    for level, parts in levels.items():
        shown.append(names.fill_pattern(names.LEVEL, level))
        if len(parts) > 1:
            shown += [names.fill_pattern(names.VALUE, part) for part in parts]
    shown += [names.RETURN, names.RETURN_SHARE, names.LAST_REWARD_SHARE]
    shown += [n for n in known if names.match_pattern(names.TOKENS_OF_TRIES, n)]
    return [*shown, names.TOKENS_IN_SEQUENCE]


_TITLES = {
    names.VALUE: "  {}",
    names.LEVEL: "{}",
    names.SOLVED_AFTER_TURN: "solved after turn {}",
    names.RETURN_SHARE: "return",
    names.LAST_REWARD_SHARE: "last turn's reward",
    names.TOKENS_IN_SEQUENCE: "tokens in sequence",
}
"""Titles by metric, with the text that `*` matches. Other metrics are shown by their names."""


def metric_title(name: str) -> str:
    """Return the title of a metric's row in a table, e.g. `tokens of 4 samples`."""
    if (tries := names.match_pattern(names.TOKENS_OF_TRIES, name)) is not None:
        which = counted(int(tries), "sample") if tries.isdecimal() else f"samples within {tries}"
        return f"tokens of {which}"
    matches = ((title, names.match_pattern(pattern, name)) for pattern, title in _TITLES.items())
    title = next((title.format(text) for title, text in matches if text is not None), name)
    return f"{title} %" if _is_share(name) else title


def _is_share(name: str) -> bool:
    return name != names.RETURN and not names.is_count(name)


def estimate_cell(
    name: str,
    value: Estimate | OverSeeds | None,
    largest: float | None = None,
    *,
    change: bool = False,
) -> TableCell:
    """Return a mean with its interval in brackets. `largest` is the largest return.

    A `change` has a sign, and a color if the interval excludes 0.
    """
    if value is None:
        return TableCell(NO_VALUE)
    sign = "+" if change else ""
    mean = _format_number(name, value.mean, sign)
    if value.limits is None:
        return TableCell(f"{mean} ({value.interval_note})")
    low, high = (_format_number(name, limit, sign) for limit in value.limits)
    most = 1.0 if _is_share(name) else largest if name == names.RETURN else None
    cell = TableCell(f"{mean} [{low}, {high}]")
    return with_whisker(cell, value.mean, value.limits, most, change=change)


def _format_number(name: str, value: float, sign: str) -> str:
    if names.is_count(name):
        return f"{value:{sign}.0f}"
    text = f"{value:{sign}.2f}" if name == names.RETURN else f"{100 * value:{sign}.1f}"
    return text.removeprefix("-") if not float(text) and not sign else text


def _cost_rows(teams: Sequence[TeamResult]) -> Iterator[TableRow]:
    speeds = [team.speed for team in teams]
    yield _text_row("tokens/s", [f"{s.tokens_per_second:,.0f}" if s else None for s in speeds])
    yield _text_row(
        "s per response", [f"{s.seconds_per_response:.2f}" if s else None for s in speeds]
    )
    agents = list(dict.fromkeys(name for team in teams for name in team.agents))
    for name in agents:
        yield _text_row(f"tokens of {name}", [_tokens_per_episode(team, name) for team in teams])
    for name in agents:
        costs = [team.agents.get(name, {}).get("cost") for team in teams]
        if any(cost is not None for cost in costs):
            yield _text_row(f"cost of {name}", [*map(format_cost, costs)])
    if any(team.failed for team in teams):
        yield _text_row("failed", [f"{team.failed} of {team.episodes}" for team in teams])


def _text_row(title: str, texts: Sequence[str | None]) -> TableRow:
    return [text_cell(title), *(text_cell(text or NO_VALUE) for text in texts)]


def _tokens_per_episode(team: TeamResult, name: str) -> str | None:
    """Return new tokens per episode that counts."""
    agent, finished = team.agents.get(name), team.episodes - team.failed
    return f"{agent['new_tokens'] / finished:.1f}" if agent and finished else None
