"""A reward model: from a task and the team's joint answer to a number, learned from pairs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from collab.trainers.credit.critics.critic import Critics
from collab.trainers.credit.critics.history import joint_history
from collab.trainers.credit.group import Group
from collab.trainers.credit.models import TeamModels

if TYPE_CHECKING:
    from torch import Tensor

NAME = "reward"


class RewardModel:
    """Bradley-Terry: the better of two texts is so with chance sigmoid(r(better) - r(worse)).

    r is a head on a frozen model, at the last token of the text. The features of a text are kept
    until `forget`.
    """

    def __init__(self, *, rate: float, width: int, steps: int, model: str | None) -> None:
        self._heads = Critics(rate=rate, width=width, steps=steps, model=model)
        self._steps, self._reads = steps, ""
        self._features: dict[str, Tensor] = {}

    def open(self, models: TeamModels) -> None:
        """Take the team's models."""
        self._heads.open(models)

    def reads_model_of(self, agent: str) -> None:
        """Read the base model of `agent`, unless a model was named."""
        self._reads = agent

    async def scores(self, texts: Sequence[str]) -> list[float]:
        """r of each text."""
        head = self._heads.of(NAME, self._reads).head
        return head.predict(await self._read(texts)) if texts else []

    async def learn(self, pairs: Sequence[tuple[str, str]]) -> tuple[float, float]:
        """Take steps down -log sigmoid(r(better) - r(worse)).

        Returns that loss, in nats, and the share of pairs in the right order, before the steps.
        """
        from torch.nn.functional import logsigmoid

        head = self._heads.of(NAME, self._reads).head
        better = await self._read([text for text, _ in pairs])
        worse = await self._read([text for _, text in pairs])
        right = zip(head.predict(better), head.predict(worse), strict=True)
        ordered = sum(one > other for one, other in right) / len(pairs)
        loss = head.descend(lambda: -logsigmoid(head(better) - head(worse)).mean(), self._steps)
        return loss, ordered

    def forget(self) -> None:
        """Let the features of all texts go."""
        self._features.clear()

    def state(self) -> dict[str, Any]:
        """The head."""
        return self._heads.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self._heads.restore(state)

    async def _read(self, texts: Sequence[str]) -> Tensor:
        import torch

        new = [text for text in dict.fromkeys(texts) if text not in self._features]
        if new:
            model = self._heads.of(NAME, self._reads).model
            found = await model.features([model.encode(text) for text in new])
            self._features |= zip(new, found, strict=True)
        return torch.stack([self._features[text] for text in texts])


def joint_text(group: Group, answers: Mapping[str, str]) -> str:
    """The task as the agents are given it, and a joint answer to it."""
    task = joint_history(group, (0, 0))
    return "\n\n".join([task, *(f"{agent}:\n{text}" for agent, text in answers.items())])
