"""Easy tasks first: which level a run is at, and when it moves on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from collab.recipe.training.curriculum import LevelsSpec
from collab.records import Episode, Problem
from collab.stats import mean
from collab.trainers.training.data import TaskOrder, by_level
from collab.trainers.training.lessons.measured import measured


class Levels:
    """The tasks of a run's steps: all of them, or with a `spec` those of the level that it is at.

    The last level is trained on to the end.
    """

    def __init__(self, tasks: TaskOrder, spec: LevelsSpec | None) -> None:
        """Raises RecipeError for a task without a level."""
        self.tasks, self._spec = tasks, spec
        self._orders: list[TaskOrder] = []
        self._names: list[float] = []
        self._at = 0
        self._since = 0
        self._shares: list[float] = []
        self.only(tasks.training)

    def only(self, problems: Sequence[Problem]) -> None:
        """Take these problems alone; before the first step. Raises as the constructor does."""
        levels: list[Sequence[Problem]] = [problems]
        if self._spec is not None:
            found = by_level(problems, self._spec.field)
            self._names, levels = list(found), list(found.values())
        self._orders = [replace(self.tasks, training=tuple(own)) for own in levels]

    @property
    def level(self) -> float | None:
        """The level that the run is at; None in a run without levels."""
        return self._names[self._at] if self._names else None

    def batch(self, step: int) -> list[Problem]:
        """The problems of a step, counted from 0, which is the next one or was just played."""
        return self._orders[self._at].batch(step - self._since)

    def share(self, groups: Sequence[Sequence[Episode]]) -> float | None:
        """How good the team was at what was played; None where nobody asks, or all of it failed.

        Raises:
            TrainingError: nothing says what is solved, and that is what is asked for.
        """
        if self._spec is None:
            return None
        episodes = [episode for group in groups for episode in group]
        return measured(episodes, self._spec.by, "trainer.levels")

    def add(self, step: int, share: float | None) -> None:
        """Take up the `share` of a step that was done, and move on where the level is learned."""
        if self._spec is None or share is None:
            return
        if self.stays(share):
            self._shares = [*self._shares, share][-self._spec.steps :]
        else:
            self._at, self._since, self._shares = self._at + 1, step + 1, []

    def stays(self, share: float | None) -> bool:
        """Whether the level stays as it is after a step with this `share`."""
        if self._spec is None or share is None or self._at == len(self._orders) - 1:
            return True
        shares = [*self._shares, share][-self._spec.steps :]
        return len(shares) < self._spec.steps or mean(shares) <= self._spec.above

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"level": self.level, "since": self._since, "shares": self._shares}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave.

        Where that level is there no more, or it was of a run without levels, go on from the next
        one.
        """
        if not self._names or state.get("level") is None:
            return
        later = [n for n, name in enumerate(self._names) if name >= state["level"]]
        self._at = later[0] if later else len(self._names) - 1
        self._since = int(state["since"])
        self._shares = list(state["shares"]) if self.level == state["level"] else []
