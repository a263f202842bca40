"""C3: each answer of a sequential team against others to the same answers before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from collab.errors import RecipeError
from collab.recipe import Recipe, TrainerSpec
from collab.runtime.rehearsal import rehearsed
from collab.stats import mean
from collab.trainers.credit.base import TeamModels
from collab.trainers.credit.checks import acting_order
from collab.trainers.credit.critics.critic import Critics
from collab.trainers.credit.factored.rule import own_response
from collab.trainers.credit.group import Group, Key, Weights
from collab.trainers.credit.shape import Shape

Branch = tuple[int, ...]
"""An answer, by the numbers of the answers on the way to it, its own last."""


class C3:
    """A_i^(k) = Q^(k) - mean over k' != k of Q^(k'), among the K answers to one frozen context.

    arXiv 2603.06859: Q is the mean return of the episodes that go on from an answer. The first
    agent answers K_1 times, the next one K_2 times to each of these, and so on: `fan_out` holds
    K_1, K_2, .. and their product is G. It is right for one turn whose agents act one after the
    other, and unbiased there; on a parallel team use `cross`. It saves generating: [4, 2] takes 4
    answers of the first agent and 8 of the second one for 8 episodes. Precision moves from the
    first agent, of whom there are fewer answers, to the last.

    With `value` the siblings' Q is mixed with what a head q on the agent's base model says of them,
    from their own prompts and answers: A = Q - (1 - value) mean of Q - value mean of q, over the
    other siblings. No baseline depends on the answer, so that is unbiased too; q learns from a
    step's answers after they were paid. It may help where there are few siblings, and costs a
    forward pass over the answers.

    Args:
        fan_out: by agent, in the order in which they act.
        value: the share of q in the baseline, from 0 to 1; the paper's variant takes 1.
        rate: the heads' learning rate. width: of a hidden layer, 0 for none.
        steps: how often they learn from a step's answers.
        model: a local model that is read in place of the bases.
    """

    pays_as_played = False
    goes_by_rewards = False

    def __init__(
        self,
        *,
        fan_out: list[int],
        value: float = 0.0,
        rate: float = 1e-3,
        width: int = 0,
        steps: int = 4,
        model: str | None = None,
    ) -> None:
        if not fan_out or min(fan_out) < 1:
            raise RecipeError(
                f"algorithm 'c3': fan_out {fan_out} must name for each agent how often it answers,"
                " e.g. [4, 2]"
            )
        if not 0 <= value <= 1:
            raise RecipeError(
                f"algorithm 'c3': value {value:g} is the share of learned values in the baseline;"
                " set it to 0 or more, and 1 at most"
            )
        self.fan_out = tuple(fan_out)
        self._value = value
        self._critics = Critics(rate=rate, width=width, steps=steps, model=model)

    async def open(self, models: TeamModels) -> None:
        """As `UsesModels.open`."""
        self._critics.open(models)

    async def credit(self, groups: Sequence[Group]) -> list[Weights]:
        """As `Algorithm.credit`."""
        weights: list[dict[Key, float]] = [{} for _ in groups]
        order = _order(groups[0]) if groups else []
        for place, agent in enumerate(order):
            if agent in groups[0].agents:
                await self._pay(groups, place, agent, weights)
        return list(weights)

    def measures(self) -> Mapping[str, float]:
        """With `value`: `critic/AGENT/loss` and `/explained`, as those of `iac`."""
        return self._critics.measures()

    def state(self) -> Mapping[str, Any]:
        """The heads; none without `value`."""
        return self._critics.state()

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""
        self._critics.restore(state)

    def check(self, recipe: Recipe, spec: TrainerSpec) -> None:
        """Raise RecipeError where answers are not given one after the other, or not compared."""
        order = acting_order("c3", recipe, spec)
        if len(self.fan_out) != len(order) or prod(self.fan_out) != spec.group_size:
            raise RecipeError(
                f"fan_out {list(self.fan_out)} of algorithm 'c3' must hold a number for each of"
                f" {', '.join(order)}, whose product is group_size, {spec.group_size}"
            )
        for agent, size in zip(order, self.fan_out, strict=True):
            if size == 1 and recipe.team.agents[agent].trainable:
                raise RecipeError(
                    f"fan_out {list(self.fan_out)} of algorithm 'c3' has agent '{agent}' answer"
                    " once, which leaves nothing to compare its answer with; give it 2 or more, or"
                    f" set agents.{agent}.trainable=false"
                )
        odd = {"turn_structure": "chains", "joint_mode": "aligned", "normalise": "none"}
        for key, value in odd.items():
            if getattr(spec, key) != value:
                raise RecipeError(
                    f"algorithm 'c3' has a tree of its own, whose agents have unequal numbers of"
                    f" answers, and {key} is '{getattr(spec, key)}'; set {key} to '{value}'"
                )

    def describe(self, recipe: Recipe, spec: TrainerSpec) -> list[str]:  # noqa: ARG002
        """How many answers of each agent are drawn for a task."""
        order = [agent for round_ in rehearsed(recipe).rounds for agent in round_.agents]
        drawn = [prod(self.fan_out[: n + 1]) for n in range(len(order))]
        told = ", ".join(f"{n} of {agent}" for n, agent in zip(drawn, order, strict=True))
        return [f"credit: answers to the same answers are compared; a task has {told}"]

    async def _pay(
        self,
        groups: Sequence[Group],
        place: int,
        agent: str,
        weights: Sequence[dict[Key, float]],
    ) -> None:
        """Add the weights of an agent, the one that acts at this place in the order."""
        shape = Shape("chains", prod(self.fan_out), 1, self.fan_out)
        answers = [_answers(group, shape, place, agent) for group in groups]
        learned = await self._learned(groups, answers, agent)
        for number, (group, found) in enumerate(zip(groups, answers, strict=True)):
            drawn_by = {answer.episode: branch for branch, answer in found.items()}
            for episode in range(len(group.episodes)):
                weight = 0.0
                if episode in drawn_by and found[drawn_by[episode]].drawn:
                    weight = self._advantage(found, learned[number], drawn_by[episode])
                # visit_share is an episode's; of this agent's answers there are fewer
                weights[number][episode, 0, agent] = weight * len(group.episodes) / len(found)

    async def _learned(
        self, groups: Sequence[Group], answers: Sequence[Mapping[Branch, _Answer]], agent: str
    ) -> list[dict[Branch, float]]:
        """q of every answer, from before this step's answers were learned from."""
        if not self._value:
            return [{} for _ in groups]
        flat = [(n, b, answer) for n, found in enumerate(answers) for b, answer in found.items()]
        critic = self._critics.of(agent, agent)
        read = [own_response(groups[n], (a.episode, 0), agent) or () for n, _, a in flat]
        values = await critic.values(read)
        critic.learn([answer.worth for _, _, answer in flat])
        found: list[dict[Branch, float]] = [{} for _ in groups]
        for (number, branch, _), value in zip(flat, values, strict=True):
            found[number][branch] = value
        return found

    def _advantage(
        self, answers: Mapping[Branch, _Answer], learned: Mapping[Branch, float], own: Branch
    ) -> float:
        others = [branch for branch in answers if branch[:-1] == own[:-1] and branch != own]
        if not others:
            return 0.0
        baseline = (1 - self._value) * mean([answers[branch].worth for branch in others])
        if self._value:
            baseline += self._value * mean([learned[branch] for branch in others])
        return answers[own].worth - baseline


@dataclass(frozen=True)
class _Answer:
    """One answer of an agent, which several episodes may share."""

    episode: int
    """The first one that has it."""
    drawn: bool
    """Whether it was drawn there; not where that episode was lost."""
    worth: float
    """The mean return of the episodes that go on from it."""


def _answers(group: Group, shape: Shape, place: int, agent: str) -> dict[Branch, _Answer]:
    paths = [shape.branches(episode.sample) for episode in group.episodes]
    found: dict[Branch, list[int]] = {}
    for number, path in enumerate(paths):
        found.setdefault(path[: place + 1], []).append(number)
    return {
        branch: _Answer(
            numbers[0],
            not any(paths[numbers[0]][place + 1 :]),
            mean([group.returns[number, 0][agent] for number in numbers]),
        )
        for branch, numbers in found.items()
    }


def _order(group: Group) -> list[str]:
    return list(dict.fromkeys(d.agent for d in group.episodes[0].turns[0].decisions))
