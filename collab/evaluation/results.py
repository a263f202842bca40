"""The results of an evaluation: its numbers, which print as tables."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from collab.evaluation.numbers import Difference, Estimate, Numbers, Speed, TeamResult
from collab.evaluation.table import sections
from collab.runs.frame import to_pandas

if TYPE_CHECKING:
    import pandas

__all__ = ["Difference", "Estimate", "Results", "Speed", "TeamResult"]


class Results(Numbers):
    """The numbers of an evaluation; printed, they are the tables of `collab eval`.

    `teams` holds a `TeamResult` per team, and its `metrics` an `Estimate` per metric.
    `differences` compares every other team with the first one.
    """

    def __repr__(self) -> str:
        """The tables that `collab eval` prints, and the notes on them."""
        tables = ["\n".join(section.as_lines()) for section in sections(self)]
        notes = "\n".join(f"note: {note}" for note in self.notes)
        return "\n\n".join(filter(None, [*tables, notes]))

    def __str__(self) -> str:
        return repr(self)

    def _repr_html_(self) -> str:
        """The same for notebooks."""
        tables = "".join(section.as_html() for section in sections(self))
        return tables + "".join(f"<p>note: {escape(note)}</p>" for note in self.notes)

    def to_pandas(self) -> pandas.DataFrame:
        """A data frame with a row per team and metric: `mean`, `low`, `high` and `tasks`.

        Raises:
            CollabError: pandas is not installed.
        """
        return to_pandas(
            {"team": team.label, "metric": name, **found.model_dump()}
            for team in self.teams
            for name, found in team.metrics.items()
        )
