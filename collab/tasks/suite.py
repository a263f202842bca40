"""A suite of problems, and addresses into it.

humaneval/12             a task id, the last part of one, or a row number
humaneval/0-19           rows 0 to 19
humaneval/test           a split that the suite names
humaneval/3,7,20-25      several of these
humaneval                all of it
./mine.jsonl/3           the same for a file of your own
reasoning_gym/maze/3     a set of reasoning-gym is a suite
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from collab.errors import TaskError, Unfit, nearest_name
from collab.recipe import SourceSpec, TaskSpec
from collab.recipe.library import ORIGINS, is_member
from collab.recipe.task import TABLE_ENDINGS
from collab.records import Problem
from collab.tasks.checks import check_rows, id_of
from collab.tasks.formats import converter_for
from collab.tasks.hub import pin_revision
from collab.tasks.origins import PlacedRow, SuiteRow, published_rows
from collab.wording import counted

_TABLES = "|".join(map(re.escape, TABLE_ENDINGS))
_FILE_ADDRESS = re.compile(rf"^(.*(?:\.jsonl?(?:\.gz)?|\.ya?ml|{_TABLES}))(?:/(.*))?$")
_ROW_RANGE = re.compile(r"(\d{1,15})(?:-(\d{1,15}))?")
"""A row's number, or the first and the last of several."""
MAX_SELECTED_ROWS = 10_000_000
"""Maximum number of rows that a selection names, with repetitions."""


def split_address(address: str) -> tuple[str, str]:
    """Return the suite of an address, and the selection within it ("" for all)."""
    file = _FILE_ADDRESS.match(address)
    if file:
        return file.group(1), file.group(2) or ""
    suite, _, selection = address.partition("/")
    member, _, rest = selection.partition("/")
    if is_member(f"{suite}/{member}"):  # of a family, such as reasoning_gym/maze
        return f"{suite}/{member}", rest
    return suite, selection


def open_suite(spec: TaskSpec) -> Suite:
    """Return the suite with its problems, read from the source in `spec`.

    For a dataset on the hub, the result's `spec` has the commit that was read.

    Raises:
        TaskError: the data cannot be read or is empty; a row lacks a required field; two rows share
            an id; the suite uses a missing field or range of rows.
    """
    spec = spec.model_copy(update={"source": pin_revision(spec.source)})
    rows, unfit = read_rows(spec.source)
    if not rows:
        origin = next(filter(None, (getattr(spec.source, key) for key in ORIGINS)))
        no_row = f"{origin} has no row" + " that leave_out keeps" * bool(spec.source.leave_out)
        why = Suite(spec, (), unfit).left_out or no_row
        raise TaskError(f"the suite '{spec.name}' is empty: {why}")
    check_rows(spec, rows)
    suite = Suite(spec, tuple(row.fields for row in rows), unfit)
    suite.check_splits()
    return suite


@dataclass(frozen=True)
class Suite:
    """The problems of a suite, and the settings it was read with."""

    spec: TaskSpec
    rows: tuple[SuiteRow, ...]
    unfit: Mapping[str, str] = field(default_factory=dict)
    """Reasons why rows of the source were skipped, by id."""

    @property
    def left_out(self) -> str:
        """A sentence about the skipped rows, or "" if there are none."""
        if not self.unfit:
            return ""
        reasons = Counter(self.unfit.values()).most_common()
        counts = "; ".join(f"{count} because {reason}" for reason, count in reasons)
        return f"{self.spec.name} leaves out {counted(len(self.unfit), 'row')}: {counts}"

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def ids(self) -> list[str]:
        """The short id of each row: the last part of its task id, if that is unique."""
        full = [id_of(self.spec, row) or str(number) for number, row in enumerate(self.rows)]
        short = [name.rpartition("/")[2] for name in full]
        counts = Counter(short)
        return [s if s and counts[s] == 1 else f for s, f in zip(short, full, strict=True)]

    def check_splits(self) -> None:
        """Check that the rows of every split exist.

        Raises:
            TaskError: a split contains a missing row.
        """
        for name in self.spec.splits:
            try:
                list(self._split_rows(name))
            except TaskError as error:
                raise TaskError(f"the split '{name}': {error}; set task.splits.{name}") from error

    def select(self, selection: str) -> list[Problem]:
        """Return the problems of a selection, in order, each once.

        Raises:
            TaskError: nothing in the suite matches.
        """
        numbers = self._select_rows(selection) if selection else range(len(self.rows))
        return [self.problem(number) for number in numbers]

    def problem(self, number: int) -> Problem:
        row = self.rows[number]
        address = f"{self.spec.name}/{self.ids[number]}"
        hidden = {key: value for key, value in row.items() if key in self.spec.hidden}
        public = {key: value for key, value in row.items() if key not in self.spec.hidden}
        return Problem(address=address, public=public, hidden=hidden)

    def _select_rows(self, selection: str) -> Collection[int]:
        """Return the rows that a selection names, in order, each once."""
        numbers: dict[int, None] = {}
        for count, number in enumerate(self._find_rows(selection)):
            if count == MAX_SELECTED_ROWS:
                raise TaskError(
                    f"a selection from the suite '{self.spec.name}' names more than"
                    f" {MAX_SELECTED_ROWS:,} rows; name each row once"
                )
            numbers[number] = None
        return numbers

    def _find_rows(self, selection: str) -> Iterator[int]:
        pieces = [selection] if selection in self._rows_by_name else selection.split(",")
        for piece in map(str.strip, pieces):
            if piece in self.spec.splits:
                yield from self._split_rows(piece)
            elif piece in self._rows_by_name:
                yield self._rows_by_name[piece]
            else:
                yield from self._parse_range(piece)

    def _split_rows(self, name: str) -> Iterator[int]:
        for piece in self.spec.splits[name].split(","):
            yield from self._parse_range(piece.strip())

    @cached_property
    def _rows_by_name(self) -> dict[str, int]:
        """Row numbers by task id and by short id."""
        full = {id_of(self.spec, row): number for number, row in enumerate(self.rows)}
        full.pop("", None)  # rows without an id
        return {name: number for number, name in enumerate(self.ids)} | full

    def _parse_range(self, piece: str) -> range:
        matched = _ROW_RANGE.fullmatch(piece)
        if not matched:
            raise TaskError(self._unknown_message(piece))
        first, last = int(matched[1]), int(matched[2] or matched[1])
        if first > last:
            raise TaskError(
                f"'{piece}' is an empty range; write the smaller row first: {last}-{first} (the"
                f" suite '{self.spec.name}' has rows 0-{len(self.rows) - 1})"
            )
        if last >= len(self.rows):
            raise TaskError(
                f"'{piece}' is outside the suite '{self.spec.name}';"
                f" choose from rows 0-{len(self.rows) - 1}"
            )
        return range(first, last + 1)

    def _unknown_message(self, piece: str) -> str:
        close = nearest_name(piece, [*self.spec.splits, *self.ids])
        remedy = f"did you mean '{close}'?" if close else f"rows: 0-{len(self.rows) - 1}"
        if not close and self.spec.splits:
            remedy += f"; splits: {', '.join(self.spec.splits)}"
        return f"the suite '{self.spec.name}' has no problem '{piece}'; {remedy}"


def read_rows(source: SourceSpec) -> tuple[list[PlacedRow], dict[str, str]]:
    """Return all rows of a source, in order, in collab's form, and the reasons for skipped rows by
    id.

    Rows are skipped only with `source.skip_unfit`.

    Raises:
        TaskError: the source cannot be found or read, or a row is not a mapping, or does not have
            the form that the source names.
        RecipeError: there is no such form, or it does not take these options.
    """
    rows = [row for row in published_rows(source) if _published_id(row) not in source.leave_out]
    if source.adapt is None:
        return rows, {}
    adapt, unfit, converted = converter_for(source.adapt), dict[str, str](), []
    for row in rows:
        try:
            converted.append(row._replace(fields=adapt(f"{row.source}, {row.place}", row.fields)))
        except Unfit as error:
            unfit[_published_id(row) or row.place] = str(error)
    if unfit and not source.skip_unfit:
        raise TaskError(_unfit_message(unfit, len(rows)))
    return converted, unfit


def _published_id(row: PlacedRow) -> str:
    """Return a row's published id, in `task_id` or `id`, or "" if it has none."""
    return str(row.fields.get("task_id", row.fields.get("id", "")))


def _unfit_message(unfit: dict[str, str], total: int) -> str:
    """List the unfit problems with their reasons, one per line."""
    listed = "".join(f"\n  {name}: {reason}" for name, reason in unfit.items())
    return (
        f"{len(unfit)} of {total} problems cannot be run; to leave them out, set"
        f" task.source.skip_unfit=true:{listed}"
    )
