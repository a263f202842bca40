"""Checks of a suite's rows before any of them is used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from collab.errors import MAX_LISTED_NAMES, TaskError
from collab.recipe import TaskSpec
from collab.recipe.in_python import source_name
from collab.recipe.task import ALWAYS_HIDDEN, SEED_FIELD
from collab.recipe.team import HELPER_NAME_FIELD
from collab.tasks.formats.fields import suggest_field
from collab.tasks.origins import PlacedRow, SuiteRow

_DEFAULT_ID = "task_id"
_CODE_FIELDS = ("prompt", "entry_point", "test")


def id_of(spec: TaskSpec, row: SuiteRow) -> str:
    """Return a row's id as text, or "" if it has none."""
    identifier = row.get(spec.id_field) if spec.id_field else None
    return "" if identifier is None else str(identifier).strip()


def check_rows(spec: TaskSpec, rows: Sequence[PlacedRow]) -> None:
    """Check the rows' fields and ids, and that the suite names existing fields.

    Raises:
        TaskError: a row lacks a field, the suite uses a field that no row has, or two rows share
            an id. The message gives the line of the row.
    """
    for row in rows:
        for field in row.fields:
            if not isinstance(field, str):
                raise _row_error(row, f"the field name {field!r:.80} is not text")
    known = dict.fromkeys(field for row in rows for field in row.fields)
    _check_names(spec, list(known), rows[0].source)
    if spec.kind == "code":
        _check_has_code(list(known), rows[0].source)
    needed = [field for field in ("prompt", *spec.hidden) if field in known]
    faults = [(row, fault) for row in rows if (fault := _field_fault(spec, row, needed))]
    if faults:
        places = [row.place for row, _ in faults[1 : 1 + MAX_LISTED_NAMES]]
        more = f"; faults in {len(faults) - 1} more, e.g. {', '.join(places)}" if places else ""
        raise _row_error(faults[0][0], faults[0][1] + more)
    if spec.id_field in known:
        _check_ids(spec, rows)


def _check_has_code(known: Sequence[str], source: str) -> None:
    if known and not {"entry_point", "test"} & {*known}:
        raise TaskError(
            f"{source_name(source)}: without 'entry_point' and 'test', these rows are not code"
            f" problems (fields: {', '.join(known)}); use a suite file with `kind: text` and a"
            " reward (in Python: rows with rewards=[...])"
        )


def _check_names(spec: TaskSpec, known: Sequence[str], source: str) -> None:
    """Check that the fields named by the suite are fields of its rows."""
    named = [("hidden", name) for name in _listed_hidden(spec)]
    if spec.id_field and spec.id_field != _DEFAULT_ID:
        named.append(("id_field", spec.id_field))
    for key, name in named:
        if name not in known:
            place, advice = source_name(source), suggest_field(name, known, known)
            if place != source:
                advice += "; add the field, or use rewards that do not need it, with hidden=[]"
            raise TaskError(
                f"the suite '{spec.name}': `{key}` names '{name}', which no row of {place} has;"
                f" {advice}"
            )


def _listed_hidden(spec: TaskSpec) -> Sequence[str]:
    """Return the hidden fields that the suite itself lists, without the default ones."""
    if spec.kind == "environment":
        return [name for name in spec.hidden if name not in (SEED_FIELD, *ALWAYS_HIDDEN)]
    if spec.kind == "code" or set(spec.hidden) == set(ALWAYS_HIDDEN):
        return [name for name in spec.hidden if name not in ALWAYS_HIDDEN]
    return spec.hidden


def _field_fault(spec: TaskSpec, row: PlacedRow, needed: Sequence[str]) -> str:
    """Return why the row lacks a field that agents or tests need, or "" if it has all.

    If a row lacks a hidden field, it may have it under a misspelled name, which agents would see.
    """
    texts = _CODE_FIELDS if spec.kind == "code" else ()
    if spec.kind == "code" and HELPER_NAME_FIELD in row.fields:
        texts = (*texts, HELPER_NAME_FIELD)
    if not row.fields:
        return "the row has no fields"
    for field in (*texts, *needed):
        if field not in row.fields:
            others = [name for name in row.fields if name not in needed]
            advice = suggest_field(field, others, row.fields)
            return f"the field '{field}' is missing; {advice}"
        value = row.fields[field]
        if field in texts and not isinstance(value, str):
            return f"the field '{field}' is {_type_name(value)}, not text"
        blank = value is None or (isinstance(value, str) and not value.strip())
        if field in (*texts, "prompt") and blank:
            return f"the field '{field}' is empty"
    return ""


def _check_ids(spec: TaskSpec, rows: Sequence[PlacedRow]) -> None:
    """Check that every row has an id, and that ids differ as text."""
    first: dict[str, PlacedRow] = {}
    for row in rows:
        value = row.fields.get(spec.id_field)
        if isinstance(value, bool | list | dict):
            kind = _type_name(value)
            raise _row_error(row, f"the id '{spec.id_field}' is {kind}, not text or a number")
        name = id_of(spec, row.fields)
        if not name:
            state = "empty" if spec.id_field in row.fields else "missing"
            raise _row_error(row, f"the id '{spec.id_field}' is {state}; other rows have one")
        if name in first:
            others = sum(id_of(spec, other.fields) == name for other in rows) - 2
            more = f" (and {others} more)" * (others > 0)
            raise TaskError(
                f"{source_name(row.source)}: {first[name].place} and {row.place}{more}"
                f" have the same {spec.id_field}, '{name:.80}'; give every row its own, or set"
                " task.id_field to another field, or to '' to name problems by their row numbers"
            )
        first[name] = row


def _type_name(value: Any) -> str:
    return "null" if value is None else f"of type {type(value).__name__}"


def _row_error(row: PlacedRow, message: str) -> TaskError:
    return TaskError(f"{source_name(row.source)}, {row.place}: {message}")
