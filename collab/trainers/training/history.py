"""What a training run remembers of the steps that it has done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from collab.recipe import Recipe, TrainerSpec
from collab.runs import metric_names as names
from collab.trainers.training.alarms import Alarms
from collab.trainers.training.skipping import STEP, Skipping


class History:
    """The steps of a run so far: how many, what they generated, and what went wrong in them."""

    def __init__(self, recipe: Recipe, spec: TrainerSpec, total_steps: int) -> None:
        self.step = 0
        """Steps that are done."""
        self.tokens = 0
        """Tokens that were generated in them."""
        self.unlearned = 0
        """Steps in which nothing was learned."""
        self._alarms = Alarms(recipe.task.reward if recipe.task else None)
        self._skipping = Skipping(spec.max_skipped_steps, total_steps)

    def restore(self, step: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Take up `step` steps by the rows of `metrics.jsonl`."""
        steps = [row for row in rows if row["type"] == "step.finished"]
        self.step = step
        self.tokens = sum(int(row.get(names.TOKENS, 0)) for row in steps)
        self.unlearned = sum(map(_is_unlearned, steps))
        self._skipping.restore(steps)
        for row in steps:
            self._alarms.read({k: v for k, v in row.items() if isinstance(v, int | float)})

    def add(self, metrics: Mapping[str, float]) -> tuple[str, ...]:
        """Take up the step that was done; the alarms that its metrics raise, in plain words."""
        self.step += 1
        self.tokens += int(metrics[names.TOKENS])
        self.unlearned += _is_unlearned(metrics)
        return self._alarms.read(metrics)

    def check_skipped(self, skipped: Mapping[str, str]) -> None:
        """Count what the step that was done has skipped.

        Raises:
            TrainingError: it was skipped for more steps in a row than may be, or in all.
        """
        self._skipping.see(skipped)


def _is_unlearned(row: Mapping[str, Any]) -> bool:
    """Whether a step was skipped, or none of its responses had a weight."""
    return names.named(names.SKIPPED, STEP) in row or row.get(names.DEAD_GROUPS) == 1.0
