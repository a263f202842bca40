"""Results as rows of text: a row for a metric, a cell for a team."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from collab.evaluation.numbers import Estimate, Numbers, TeamResult
from collab.runs import metric_names as names
from collab.wording import counted

NONE = "-"


@dataclass(frozen=True)
class Cell:
    text: str
    sign: int = 0
    """1 and -1 where an interval lies wholly above or below 0."""


@dataclass(frozen=True)
class Row:
    title: str
    cells: tuple[Cell, ...]


def team_rows(results: Numbers) -> list[Row]:
    """Every metric of every team, and what it took."""
    return [*_metric_rows(results), *_scheme_rows(results.teams), *_cost_rows(results.teams)]


def difference_rows(results: Numbers) -> list[Row]:
    """Every team but the first less the first one; parts of the reward are left out."""
    metrics = [difference.metrics for difference in results.differences]
    return [
        Row(title_of(name), tuple(change_cell(name, found.get(name)) for found in metrics))
        for name in _names(results)
        if names.matched(names.VALUE_OF_PART, name) is None
        and any(name in found for found in metrics)
    ]


def headline(results: Numbers) -> str:
    """What was evaluated, in a line."""
    models = dict.fromkeys(model for team in results.teams for model in team.models.values())
    problems = counted(len(results.tasks), "problem")
    samples = counted(results.samples, "sample")
    told = f"{results.suite}: {problems}, {samples}"
    return f"{told}, {', '.join(models)}, seed {results.seed}"


@dataclass(frozen=True)
class Section:
    """One table of an evaluation, with its title."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    def as_lines(self) -> Iterator[str]:
        """The table as lines of text, every column as wide as its widest cell."""
        table = self._texts()
        first, *others = (max(map(len, column)) for column in zip(*table, strict=True))
        yield self.title
        for title, *cells in table:
            padded = (f"{text:>{width}}" for text, width in zip(cells, others, strict=True))
            yield "  ".join((f"{title:<{first}}", *padded)).rstrip()

    def as_html(self) -> str:
        """The table as HTML."""
        rows = "".join(map(_html_row, self._texts()))
        return f"<p>{escape(self.title)}</p><table>{rows}</table>"

    def _texts(self) -> list[tuple[str, ...]]:
        """The head, then a row per metric."""
        rows = ((row.title, *(cell.text for cell in row.cells)) for row in self.rows)
        return [("", *self.columns), *rows]


def sections(results: Numbers) -> list[Section]:
    """The table of the teams, and that of the differences if there are any."""
    teams = tuple(team.label for team in results.teams)
    status = "" if results.status == "done" else f" ({results.status})"
    found = [Section(headline(results) + status, teams, tuple(team_rows(results)))]
    if rows := difference_rows(results):
        others = tuple(difference.team for difference in results.differences)
        found.append(Section(difference_title(results), others, tuple(rows)))
    return found


def difference_title(results: Numbers) -> str:
    return f"difference to {results.differences[0].baseline}, on the same problems"


def _html_row(cells: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _metric_rows(results: Numbers) -> Iterator[Row]:
    for name in _names(results):
        found = [team.metrics.get(name) for team in results.teams]
        if any(found):
            yield Row(title_of(name), tuple(Cell(estimate_text(name, e)) for e in found))
        if any(found) and name == names.JOINT_RETURN:
            largest = (team.largest_return for team in results.teams)
            yield _row(
                "return at most", [None if most is None else f"{most:.2f}" for most in largest]
            )


def _names(results: Numbers) -> Iterator[str]:
    """The metrics in the order of the table; those that say the same twice once."""
    yield from (names.named(names.PASS_AT, k) for k in results.k)
    told = (names.what_is_best_in(name) for team in results.teams for name in team.metrics)
    for name in dict.fromkeys(name for name in told if name):
        found = (key for team in results.teams for key in team.metrics)
        yield from dict.fromkeys(key for key in found if names.what_is_best_in(key) == name)
    if 1 not in results.k:
        yield names.SOLVED
    by_turn = (name for team in results.teams for name in team.metrics)
    yield from sorted({n for n in by_turn if names.matched(names.SOLVED_AFTER_TURN, n)})
    for level, parts in results.levels.items():
        yield names.named(names.LEVEL, level)
        if len(parts) > 1:
            yield from (names.named(names.VALUE_OF_PART, part) for part in parts)
    yield from (names.JOINT_RETURN, names.RETURN_SHARE, names.LAST_REWARD_SHARE)
    tokens = (name for team in results.teams for name in team.metrics)
    yield from dict.fromkeys(n for n in tokens if names.matched(names.TOKENS_OF_TRIES, n))


def title_of(name: str) -> str:
    """What a table calls a metric."""
    if name == names.JOINT_RETURN:
        return "return"
    part, level = (names.matched(p, name) for p in (names.VALUE_OF_PART, names.LEVEL))
    if part is not None:
        return f"  {part} %"
    if (tries := names.matched(names.TOKENS_OF_TRIES, name)) is not None:
        return f"tokens of {tries} samples" if tries.isdecimal() else f"tokens of at most {tries}"
    if (turn := names.matched(names.SOLVED_AFTER_TURN, name)) is not None:
        return f"solved after turn {turn} %"
    shown = {names.RETURN_SHARE: "return", names.LAST_REWARD_SHARE: "last turn's reward"}
    return f"{shown.get(name, level or name)} %"


def estimate_text(name: str, found: Estimate | None) -> str:
    """A mean with its interval in brackets."""
    if found is None:
        return NONE
    mean, low, high = (_number(name, n) for n in (found.mean, found.low, found.high))
    return f"{mean} [{low}, {high}]"


def change_cell(name: str, found: Estimate | None) -> Cell:
    """A difference with its interval, and whether that lies wholly on one side of 0."""
    if found is None:
        return Cell(NONE)
    mean, low, high = (_number(name, n, "+") for n in (found.mean, found.low, found.high))
    return Cell(f"{mean} [{low}, {high}]", (found.low > 0) - (found.high < 0))


def _number(name: str, value: float, sign: str = "") -> str:
    if names.matched(names.TOKENS_OF_TRIES, name) is not None:
        return f"{value:{sign}.0f}"
    text = f"{value:{sign}.2f}" if name == names.JOINT_RETURN else f"{100 * value:{sign}.1f}"
    return text.removeprefix("-") if not float(text) and not sign else text


def _scheme_rows(teams: Sequence[TeamResult]) -> Iterator[Row]:
    for name in dict.fromkeys(scheme for team in teams for scheme in team.schemes):
        shares = [team.schemes.get(name, 0.0) if team.schemes else None for team in teams]
        cells = (NONE if share is None else f"{100 * share:.1f}" for share in shares)
        yield Row(f"scheme {name} %", tuple(map(Cell, cells)))


def _cost_rows(teams: Sequence[TeamResult]) -> Iterator[Row]:
    speeds = [team.speed for team in teams]
    yield _row("tokens/s", [f"{s.tokens_per_second:,.0f}" if s else None for s in speeds])
    yield _row("s per response", [f"{s.seconds_per_response:.2f}" if s else None for s in speeds])
    agents = list(dict.fromkeys(name for team in teams for name in team.agents))
    for name in agents:
        yield _row(f"tokens of {name}", [_tokens(team, name) for team in teams])
    for name in agents:
        costs = [team.agents.get(name, {}).get("cost") for team in teams]
        if any(cost is not None for cost in costs):
            yield _row(f"cost of {name}", [c if c is None else f"${c:.4f}" for c in costs])
    if any(team.failed for team in teams):
        yield _row("failed", [f"{team.failed} of {team.episodes}" for team in teams])


def _row(title: str, texts: Sequence[str | None]) -> Row:
    return Row(title, tuple(Cell(text or NONE) for text in texts))


def _tokens(team: TeamResult, name: str) -> str | None:
    """New tokens an episode."""
    agent = team.agents.get(name)
    return f"{agent['new_tokens'] / team.episodes:.1f}" if agent else None
