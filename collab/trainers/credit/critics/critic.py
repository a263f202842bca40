"""Critics: the values of histories, learned from the returns that followed them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from collab.errors import TrainingError
from collab.runs.metric_names import CRITIC, named
from collab.stats import deviation
from collab.trainers.credit.base import FrozenModel, TeamModels

if TYPE_CHECKING:
    from torch import Tensor

    from collab.trainers.credit.critics.head import Head


class Critic:
    """A head on a model that is frozen, and what its last step was like."""

    def __init__(self, model: FrozenModel, *, rate: float, width: int, steps: int) -> None:
        from collab.trainers.credit.critics.head import Head

        self.model, self._steps = model, steps
        self.head: Head = Head(model.hidden_size, rate=rate, width=width)
        self._features: Tensor | None = None
        self.measured: dict[str, float] = {}
        """Of the last step: `loss`, the mean squared error; `explained`, the share of the targets'
        variance that the values told."""

    async def values(self, histories: Sequence[Sequence[int]]) -> list[float]:
        """The values of histories, which the next `learn` is about."""
        self._features = await self.model.features(histories) if histories else None
        return [] if self._features is None else self.head.predict(self._features)

    def learn(self, targets: Sequence[float]) -> None:
        """Move the values of the histories last read towards `targets`."""
        if self._features is None:
            return
        loss = self.head.fit(self._features, targets, self._steps)
        spread = deviation(targets) ** 2
        self.measured = {"loss": loss, "explained": 1 - loss / spread if spread else 0.0}

    def state(self) -> dict[str, Any]:
        """What the next step depends on."""
        return self.head.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self.head.restore(state)


class Critics:
    """The critics of a rule, by name. Each is made when it is first asked for.

    Args:
        rate: the learning rate of the heads. width: of a hidden layer, 0 for none.
        steps: how often a critic learns from a batch.
        model: a local model that all of them read; None for the base of the agent's own.
    """

    def __init__(self, *, rate: float, width: int, steps: int, model: str | None) -> None:
        self._rate, self._width, self._steps, self._model = rate, width, steps, model
        self._models: TeamModels | None = None
        self._made: dict[str, Critic] = {}
        self._saved: Mapping[str, Any] = {}

    def open(self, models: TeamModels) -> None:
        """Take the team's models."""
        self._models = models

    def of(self, name: str, agent: str) -> Critic:
        """The critic of that name, which reads the base model of `agent`."""
        if name not in self._made:
            if self._models is None:
                raise TrainingError("a critic was asked before its algorithm was opened")
            model = self._models.other(self._model) if self._model else self._models.base(agent)
            made = Critic(model, rate=self._rate, width=self._width, steps=self._steps)
            if name in self._saved:
                made.restore(self._saved[name])
            self._made[name] = made
        return self._made[name]

    def measures(self) -> dict[str, float]:
        """What each critic's last step was like, as metrics."""
        return {
            named(named(CRITIC, name), what): value
            for name, critic in self._made.items()
            for what, value in critic.measured.items()
        }

    def state(self) -> dict[str, Any]:
        """What the next step depends on, by critic."""
        return {**self._saved, **{name: critic.state() for name, critic in self._made.items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self._made, self._saved = {}, dict(state)
