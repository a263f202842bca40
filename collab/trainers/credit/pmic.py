"""PMIC: joint actions are paid for being like those of good episodes, and unlike those of bad."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from collab.errors import RecipeError, TrainingError
from collab.recipe import Recipe, TrainerSpec
from collab.runs.metric_names import INFORMATION, named
from collab.stats import deviation, mean
from collab.trainers.credit.base import Algorithm, FrozenModel, TeamModels
from collab.trainers.credit.checks import check_no_opponents
from collab.trainers.credit.critics import Place, joint_history
from collab.trainers.credit.group import Group, Node, Weights, with_rewards
from collab.trainers.credit.magrpo import marloo

if TYPE_CHECKING:
    from torch import Tensor

    from collab.trainers.credit.networks import Lower, Memory, Upper

LENGTH = 16
"""The length of a history's vector, and of each agent's response's."""


async def read(
    groups: Sequence[Group], places: Sequence[Place], models: TeamModels, other: str | None
) -> tuple[Tensor, Tensor]:
    """The joint history before each joint action, and what the trained agents said in it.

    Of shape [places, LENGTH] and [places, agents x LENGTH]. A response is read without its prompt,
    which would tell the history; of an agent that did not act it is 0.
    """
    import torch

    agents = groups[0].agents
    by_agent = {agent: models.other(other) if other else models.base(agent) for agent in agents}
    first = by_agent[agents[0]]
    texts = [first.encode(joint_history(groups[number], node)) for number, node in places]
    vectors = []
    for agent, model in by_agent.items():
        responses = [_response(groups[number], node, agent) for number, node in places]
        vectors.append(await _vectors(model, responses))
    return await _vectors(first, texts), torch.cat(vectors, dim=1)


async def _vectors(model: FrozenModel, sequences: Sequence[Sequence[int]]) -> Tensor:
    """Hidden states in a fixed random projection: [sequences, LENGTH]."""
    import torch
    from torch.nn.functional import layer_norm

    size = model.hidden_size
    directions = torch.randn(size, LENGTH, generator=torch.Generator().manual_seed(0))
    vectors = torch.zeros(len(sequences), LENGTH)
    there = [row for row, sequence in enumerate(sequences) if sequence]
    if there:
        states = await model.features([sequences[row] for row in there])
        vectors[there] = layer_norm(states.float().cpu(), (size,)) @ directions / size**0.5
    return vectors


def whole_returns(group: Group) -> dict[Node, float]:
    """The mean over agents of the return of all turns of each joint action's episodes."""
    by_agent = [_whole_returns(group, agent) for agent in group.agents]
    return {node: mean([returns[node] for returns in by_agent]) for node in by_agent[0]}


def _whole_returns(group: Group, agent: str) -> dict[Node, float]:
    before: dict[Node, float] = {}
    for node in sorted(group.children, key=lambda node: node[1]):
        earned = group.discount ** node[1] * group.rewards[node][agent]
        before.setdefault(node, 0.0)
        before |= dict.fromkeys(group.children[node], before[node] + earned)
    return {
        node: start + group.discount ** node[1] * group.returns[node][agent]
        for node, start in before.items()
    }


def _response(group: Group, node: Node, agent: str) -> tuple[int, ...]:
    """The tokens of an agent's last response of a turn; none where it did not act."""
    episode, turn = node
    decisions = group.episodes[episode].turns[turn].decisions
    responses = [d.action.token_ids for d in decisions if d.agent == agent]
    return responses[-1] if responses else ()


class PMIC(Algorithm):
    """A_i = leave-one-out of returns of r + alpha I_lower(s; u) - beta I_upper(s; u).

    Progressive mutual information collaboration (arXiv 2203.08553). s is the joint history before a
    turn and u what the agents said in the turn, both as hidden states of frozen models. Two
    networks estimate how much u depends on s. I_lower is a lower bound of their mutual
    information, fitted to the joint actions of the best episodes of the last steps; I_upper is an
    upper bound, fitted to those of the worst. Each bound is a mean over joint actions, and a joint
    action's bonus is made of its own term of either. alpha and beta are in points of the reward.

    The bonus of a step is worked out before the networks learn from it. So the gradient is that of
    the reward with the bonus, which is **not** that of the reward alone. With a single history
    there is no mutual information, and the terms tell no more than how usual a joint action is:
    train on several tasks or turns. Right for every protocol. It costs a forward pass over
    responses and histories.

    Args:
        alpha: of the lower bound. beta: of the upper bound.
        share: of the joint actions that are kept, how many are the best, and how many the worst.
        keep: joint actions that are kept. steps: how often the bounds learn from them in a step.
        warmup: steps of learning before there is a bonus.
        model: a local model that is read instead of the bases.
    """

    compares = True
    goes_by_rewards = False

    def __init__(
        self,
        *,
        alpha: float = 0.1,
        beta: float = 0.1,
        share: float = 0.3,
        keep: int = 256,
        steps: int = 8,
        warmup: int = 8,
        model: str | None = None,
    ) -> None:
        if not 0 < share <= 0.5 or alpha < 0 or beta < 0:
            raise RecipeError(
                "algorithm 'pmic' needs a share above 0 and up to 0.5, and alpha and beta of at"
                f" least 0; it got share {share:g}, alpha {alpha:g} and beta {beta:g}"
            )
        self._alpha, self._beta, self._share, self._keep = alpha, beta, share, keep
        self._steps, self._warmup, self._model = steps, warmup, model
        self._learned = 0
        self._models: TeamModels | None = None
        self._parts: tuple[Memory, Lower, Upper] | None = None
        self._saved: list[Any] | None = None
        self._told: dict[str, float] = {}

    async def open(self, models: TeamModels) -> None:
        self._models = models

    async def credit(self, groups: Sequence[Group]) -> list[Weights]:
        if self._models is None:
            raise TrainingError("pmic was asked for weights before it was opened")
        if not groups:
            return []
        places = [(number, node) for number, group in enumerate(groups) for node in group.children]
        histories, actions = await read(groups, places, self._models, self._model)
        whole = list(map(whole_returns, groups))
        returns = [whole[number][node] for number, node in places]
        bonuses = self._bonuses(histories, actions)
        self._told = {
            named(INFORMATION, "steps"): self._learned,
            named(INFORMATION, "bonus_std"): deviation(bonuses),
        }
        self._learn(histories, actions, returns)
        by_place = dict(zip(places, bonuses, strict=True))
        return [marloo(_paid(number, group, by_place)) for number, group in enumerate(groups)]

    def measures(self) -> dict[str, float]:
        """`pmic/steps`, those learned from before; `/bonus_std`, the deviation of this step's
        bonuses; `/lower` and `/upper`, the bounds of the best and the worst, the upper one in nats
        for each number of a vector; `/best` and `/worst`, how many those are."""
        return self._told

    def state(self) -> Mapping[str, Any]:
        """The memory and both networks."""
        if self._parts is None:
            return {"learned": self._learned, "parts": self._saved}
        return {"learned": self._learned, "parts": [part.state() for part in self._parts]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self._learned, self._saved, self._parts = state["learned"], state["parts"], None

    def check(self, recipe: Recipe, spec: TrainerSpec) -> None:
        """Raise RecipeError where no episode is good for all, or rewards are not those played."""
        check_no_opponents("pmic", recipe)
        if spec.turn_structure not in ("chains", "tree"):
            raise RecipeError(
                f"turn_structure '{spec.turn_structure}' goes by the reward itself, and algorithm"
                " 'pmic' adds to it; set turn_structure to 'chains' or 'tree'"
            )

    def _bonuses(self, histories: Tensor, actions: Tensor) -> list[float]:
        import torch

        memory, lower, upper = self._made(actions.shape[1])
        _, others = memory.worst(self._share)
        if self._learned < self._warmup:
            return [0.0] * len(actions)
        with torch.no_grad():
            terms = self._alpha * lower.each(histories, actions)
            if len(others):
                terms -= self._beta * upper.each(histories, actions, others)
        bonuses: list[float] = terms.tolist()
        return bonuses

    def _learn(self, histories: Tensor, actions: Tensor, returns: Sequence[float]) -> None:
        import torch

        memory, lower, upper = self._made(actions.shape[1])
        memory.add(histories, actions, returns)
        best, worst = memory.best(self._share), memory.worst(self._share)
        self._told |= {
            named(INFORMATION, "best"): len(best[0]),
            named(INFORMATION, "worst"): len(worst[0]),
        }
        with torch.no_grad():
            if len(best[0]) > 1:
                self._told[named(INFORMATION, "lower")] = -float(lower.loss(*best))
            if len(worst[0]):
                self._told[named(INFORMATION, "upper")] = float(upper.each(*worst, worst[1]).mean())
        fitted = lower.fit(*best, self._steps), upper.fit(*worst, self._steps)
        self._learned += all(fitted)

    def _made(self, length: int) -> tuple[Memory, Lower, Upper]:
        from collab.trainers.credit.networks import Lower, Memory, Upper

        if self._parts is None:
            self._parts = Memory(self._keep), Lower(LENGTH, length), Upper(LENGTH, length)
            memory, *bounds = self._parts
            if self._saved is not None:
                memory.restore(self._saved[0])
                for bound, saved in zip(bounds, self._saved[1:], strict=True):
                    bound.restore(saved)
        return self._parts


def _paid(number: int, group: Group, bonuses: Mapping[Place, float]) -> Group:
    rewards = {
        node: {agent: value + bonuses[number, node] for agent, value in earned.items()}
        for node, earned in group.rewards.items()
    }
    return with_rewards(group, rewards)
