"""A recorded training run as one object."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collab.api.reading import read_metrics, read_rows_of_type
from collab.runs import metric_names
from collab.runs.about import read_about, status_of
from collab.runs.log import to_pandas
from collab.runs.metrics import EVALUATION_FINISHED
from collab.runtime import Team, load
from collab.trainers.training.events import Evaluation
from collab.wording import counted, escape_controls

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, repr=False)
class Training:
    """A training run. Its properties read the folder on each access, also during the run. It is
    accepted wherever its folder is."""

    folder: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder))

    @property
    def about(self) -> dict[str, Any]:
        """The content of `run.json`: the team that was trained, the versions, and the outcome."""
        return read_about(self.folder)

    @property
    def summary(self) -> dict[str, Any]:
        """Outcome of the run (steps, tokens, seconds, gains), or an empty mapping while it is
        running."""
        return dict(self.about.get("summary", {}))

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """Metrics as one mapping per step. docs/metrics.md describes each metric."""
        return read_metrics(self.folder)

    @property
    def evaluations(self) -> list[Evaluation]:
        """Results on held-out tasks, before the first step and later."""
        rows = read_rows_of_type(self.folder, EVALUATION_FINISHED)
        return [Evaluation.model_validate({"type": EVALUATION_FINISHED, **row}) for row in rows]

    def __fspath__(self) -> str:
        return str(self.folder)

    def team(self, **changes: Any) -> Team:
        """Return the trained team. `changes` are keyword arguments of `collab.load`."""
        return load(self.folder, **changes)

    def to_pandas(self) -> pandas.DataFrame:
        """Return the metrics as a data frame, one row per step.

        Raises:
            CollabError: pandas is not installed.
        """
        return to_pandas(self.metrics)

    def __repr__(self) -> str:
        return escape_controls(f"<Training {self.folder}: {', '.join(self._summary_lines())}>")

    def _repr_html_(self) -> str:
        head, *rest = self._summary_lines()
        items = "".join(f"<li>{escape(line)}</li>" for line in rest)
        return escape_controls(f"<b>{escape(str(self.folder))}</b>: {escape(head)}<ul>{items}</ul>")

    def _summary_lines(self) -> list[str]:
        about, metrics = self.about, self.metrics
        steps = counted(len(metrics), "step")
        lines = [f"{status_of(about)} after {steps}"]
        if unlearned := self.summary.get("unlearned"):
            lines.append(f"nothing was learned in {unlearned} of {steps}")
        if metrics:
            first, last = (row.get(metric_names.RETURN_MEAN) for row in (metrics[0], metrics[-1]))
            largest = metrics[-1].get(metric_names.RETURN_MAXIMUM)
            of = "" if largest is None else f" of {largest:.2f}"
            lines.append(f"return {_number(first)} at first, {_number(last)} at last{of}")
        for name, gain in self.summary.get("gains", {}).items():
            lines.append(
                f"held out ({name}) {gain['before']:.2f} before, {gain['after']:.2f} after"
            )
        return lines


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"
