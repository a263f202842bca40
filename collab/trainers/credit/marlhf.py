"""MARLHF: a reward model learns which joint answer is better, and pays the team."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from collab.errors import RecipeError
from collab.recipe import Recipe, TrainerSpec
from collab.runs.metric_names import REWARD_MODEL, named
from collab.trainers.credit.base import Algorithm, TeamModels
from collab.trainers.credit.checks import check_one_reward, one_reward
from collab.trainers.credit.critics import Critics, joint_history
from collab.trainers.credit.group import (
    Group,
    Node,
    Rewards,
    Tree,
    Weights,
    make_group,
    solved_before,
)
from collab.trainers.credit.joint_actions import joined
from collab.trainers.credit.madpo import best_pairs
from collab.trainers.credit.magrpo import marloo

if TYPE_CHECKING:
    from torch import Tensor

NAME = "reward"


class RewardModel:
    """Bradley-Terry model: the better of two texts wins with probability sigmoid(r(better) -
    r(worse)).

    r is a head on a frozen model, at the last token of the text. The features of a text are kept
    until `forget`.
    """

    def __init__(self, *, rate: float, width: int, steps: int, model: str | None) -> None:
        self._heads = Critics(rate=rate, width=width, steps=steps, model=model)
        self._steps, self._reads = steps, ""
        self._features: dict[str, Tensor] = {}

    def open(self, models: TeamModels) -> None:
        """Receive the team's models."""
        self._heads.open(models)

    def reads_model_of(self, agent: str) -> None:
        """Read the base model of `agent`, unless another model was named."""
        self._reads = agent

    async def scores(self, texts: Sequence[str]) -> list[float]:
        """Return r of each text."""
        head = self._heads.of(NAME, self._reads).head
        return head.predict(await self._read(texts)) if texts else []

    async def learn(self, pairs: Sequence[tuple[str, str]]) -> tuple[float, float]:
        """Take steps down -log sigmoid(r(better) - r(worse)).

        The results are the loss, in nats, and the share of pairs in the right order, before the
        steps.
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
        """Drop the features of all texts."""
        self._features.clear()

    def state(self) -> dict[str, Any]:
        """Return the state of the head."""
        return self._heads.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from an earlier `state`."""
        self._heads.restore(state)

    async def _read(self, texts: Sequence[str]) -> Tensor:
        import torch

        new = [text for text in dict.fromkeys(texts) if text not in self._features]
        if new:
            model = self._heads.of(NAME, self._reads).model
            features = await model.features([model.encode(text) for text in new])
            self._features |= zip(new, features, strict=True)
        return torch.stack([self._features[text] for text in texts])


def joint_text(group: Group, answers: Mapping[str, str]) -> str:
    """Return the task as agents see it, followed by a joint answer."""
    task = joint_history(group, (0, 0))
    return "\n\n".join([task, *(f"{agent}:\n{text}" for agent, text in answers.items())])


class MARLHF(Algorithm):
    """Credit by a learned reward: A_i = leave-one-out of rho(task, joint answer), learned from
    pairs.

    Christiano et al., arXiv 1706.03741, for a team, as CoMLRL's MARLHF, with new samples each step.
    rho is a head on the base model of the first agent, adapters off. It learns from pairs of a
    task's samples with different rewards, with the loss -log sigmoid(rho(win) - rho(lose)), so only
    the order of rewards counts. A step's responses are scored before rho learns from their pairs,
    so no baseline depends on the response. The gradient is that of rho, not of the reward. The rule
    is valid for every protocol. It needs one forward pass over the joint answers, and no additional
    scores.

    Args:
        pairs: maximum number of pairs per turn to learn from; those with the largest gaps are used.
        warmup: number of steps with pairs before responses get weights; until then, all weights are
            0.
        rate: the reward model's learning rate.
        width: width of a hidden layer, 0 for none.
        steps: updates per batch of pairs.
        model: a local model to read instead of the base.
    """

    def __init__(
        self,
        *,
        pairs: int = 16,
        warmup: int = 4,
        rate: float = 1e-3,
        width: int = 0,
        steps: int = 4,
        model: str | None = None,
    ) -> None:
        self._pairs, self._warmup, self._learned = pairs, warmup, 0
        self._model = RewardModel(rate=rate, width=width, steps=steps, model=model)
        self._metrics: dict[str, float] = {}

    goes_by_rewards = False

    async def open(self, models: TeamModels) -> None:
        self._model.open(models)

    async def credit(self, groups: Sequence[Group]) -> list[Weights]:
        self._metrics = {named(REWARD_MODEL, "steps"): self._learned}
        if not groups:
            return []
        self._model.reads_model_of(groups[0].agents[0])
        texts = [_texts(group) for group in groups]
        weights = list(map(_nothing, groups))
        if self._learned >= self._warmup:
            paid = [
                await self._paid(g, group_texts)
                for g, group_texts in zip(groups, texts, strict=True)
            ]
            weights = [marloo(group) for group in paid]
        await self._learn(groups, texts)
        self._model.forget()
        return weights

    def measures(self) -> dict[str, float]:
        """Return metrics of the reward model, named `reward_model/...`.

        `steps` is the number of earlier steps with pairs. `pairs`, `loss` in nats and `ordered`,
        the share of pairs in the right order, are of this step, before its pairs were learned from.
        """
        return self._metrics

    def state(self) -> Mapping[str, Any]:
        """Return the state of the reward model, and its number of steps."""
        return {"model": self._model.state(), "learned": self._learned}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Continue from an earlier `state`."""
        self._model.restore(state["model"])
        self._learned = state["learned"]

    def check(self, recipe: Recipe, spec: TrainerSpec) -> None:
        """Raise RecipeError if there are no pairs, or no single reward to learn."""
        if recipe.team.when_solved == "stop" and recipe.team.turns > 1:
            raise RecipeError(
                "algorithm 'marlhf' learns rewards up to a constant, so it cannot compare"
                " episodes of different length; set team.when_solved to 'absorb' or 'continue'"
            )
        check_one_reward("marlhf", recipe, spec)
        wrong = {
            "group_size": (spec.group_size == 1, "2 or more, because a pair needs two samples"),
            "turn_structure": (
                spec.turn_structure not in ("chains", "tree"),
                "'chains' or 'tree', because the others compare the true reward",
            ),
        }
        for name, (is_wrong, remedy) in wrong.items():
            if is_wrong:
                raise RecipeError(
                    f"{name} {getattr(spec, name)!r} does not work with algorithm 'marlhf'; set"
                    f" {name} to {remedy}"
                )

    async def _paid(self, group: Group, texts: Mapping[Node, str]) -> Group:
        scores = await self._model.scores(list(texts.values()))
        rewards = {
            node: dict.fromkeys(group.agents, score)
            for node, score in zip(texts, scores, strict=True)
        }
        return with_rewards(group, rewards)

    async def _learn(self, groups: Sequence[Group], texts: Sequence[Mapping[Node, str]]) -> None:
        pairs = [
            (group_texts[pair.win], group_texts[pair.lose])
            for group, group_texts in zip(groups, texts, strict=True)
            for nodes in group.baselines_over
            for pair in best_pairs(nodes, _rewards(group, nodes), self._pairs)
        ]
        self._metrics[named(REWARD_MODEL, "pairs")] = len(pairs)
        if pairs:
            loss, ordered = await self._model.learn(pairs)
            self._metrics |= {
                named(REWARD_MODEL, "loss"): loss,
                named(REWARD_MODEL, "ordered"): ordered,
            }
            self._learned += 1


def _texts(group: Group) -> dict[Node, str]:
    return {
        node: joint_text(group, joined(group.episodes[node[0]].turns[node[1]]))
        for node in group.children
    }


def _rewards(group: Group, nodes: Sequence[Node]) -> list[float]:
    return [one_reward(group, group.rewards, node) for node in nodes]


def _nothing(group: Group) -> Weights:
    return {(*node, agent): 0.0 for node in group.children for agent in group.agents}


def with_rewards(group: Group, rewards: Rewards) -> Group:
    """Return a group whose joint actions earned other rewards, with the resulting returns."""
    solved = {turn: solved_before(group.episodes, turn) for turn in group.absorbed}
    tree = Tree(
        tuple(group.children), group.children, group.baselines_over, group.visit_share, solved
    )
    return make_group(group.episodes, group.agents, rewards, tree, group.discount)
