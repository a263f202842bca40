"""The rows of a suite, in our own form."""

from __future__ import annotations

from collab.errors import TaskError, Unfit
from collab.recipe import SourceSpec
from collab.tasks.formats import adapted
from collab.tasks.origins import PlacedRow, published_rows


def read_rows(source: SourceSpec) -> tuple[list[PlacedRow], dict[str, str]]:
    """All rows of a source, in order, in our own form; and by id why others are left out.

    Rows are left out only with `source.skip_unfit`.

    Raises:
        TaskError: the source cannot be found or read, or a row is not a mapping, or is not of the
            form that the source names.
        RecipeError: there is no such form, or it does not take these options.
    """
    rows = [row for row in published_rows(source) if _id(row) not in source.leave_out]
    if source.adapt is None:
        return rows, {}
    adapt, unfit, fit = adapted(source.adapt), dict[str, str](), []
    for row in rows:
        try:
            fit.append(row._replace(fields=adapt(f"{row.source}, {row.place}", row.fields)))
        except Unfit as error:
            unfit[_id(row) or row.place] = str(error)
    if unfit and not source.skip_unfit:
        raise TaskError(_unfit(source, unfit, len(rows)))
    return fit, unfit


def _id(row: PlacedRow) -> str:
    """A row's id as it was published, in `task_id` or `id`; "" if it has none."""
    return str(row.fields.get("task_id", row.fields.get("id", "")))


def _unfit(source: SourceSpec, unfit: dict[str, str], total: int) -> str:
    """List the unfit problems with their reasons, one per line."""
    listed = "".join(f"\n  {name}: {told}" for name, told in unfit.items())
    every = ",".join([*source.leave_out, *unfit])
    return (
        f"{len(unfit)} of {total} problems cannot be run; leave them out with"
        f" --set 'task.source.leave_out=[{every}]':{listed}"
    )
