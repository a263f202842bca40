"""MADPO: makes the better of two responses likelier than the worse, relative to a reference."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import exp, fsum, log1p, tanh

from collab.errors import RecipeError, TrainingError
from collab.recipe import Recipe, TrainerSpec
from collab.runs.metric_names import PREFERENCES, named
from collab.stats import mean
from collab.trainers.credit.base import Algorithm, TeamModels
from collab.trainers.credit.counterfactual.algorithms import FEW
from collab.trainers.credit.counterfactual.forms import forms, planned_forms
from collab.trainers.credit.counterfactual.rule import check_cost, scored_at_most
from collab.trainers.credit.counterfactual.table import Shifts, make_table
from collab.trainers.credit.group import Group, Key, Node, Weights
from collab.trainers.credit.joint_actions import joined

TIE = 1e-9
"""Largest gap that counts as a tie, since it may be rounding error."""


@dataclass(frozen=True)
class Preference:
    """Two joint actions of a group, one better than the other."""

    win: Node
    lose: Node
    gap: float
    """Difference of their values."""


def best_pairs(nodes: Sequence[Node], values: Sequence[float], most: int) -> list[Preference]:
    """Return the pairs of `nodes` whose values differ most, up to a number of pairs, without ties.

    Among equal gaps, the pair that was sampled first comes first.
    """
    pairs = []
    for (node, value), (other, its_value) in combinations(zip(nodes, values, strict=True), 2):
        gap = value - its_value
        if abs(gap) > TIE:
            win, lose = (node, other) if gap > 0 else (other, node)
            pairs.append(Preference(win, lose, abs(gap)))
    return sorted(pairs, key=lambda pair: -pair.gap)[:most]


def chance_of_losing(margin: float) -> float:
    """Return sigmoid(-margin), the probability that the Bradley-Terry model gives the worse
    response."""
    return 0.5 * (1 - tanh(margin / 2))


def loss_of(margin: float) -> float:
    """Return -log sigmoid(margin), in nats."""
    return max(-margin, 0.0) + log1p(exp(-abs(margin)))


@dataclass(frozen=True)
class Comparison:
    """A pair of joint actions that an agent learns from."""

    number: int
    """Position of the group in its step."""
    agent: str
    pair: Preference
    parties: tuple[str, ...]
    """Agents whose responses make the margin: all, or the agent alone."""
    share: float
    """Share of one pair among those that the agent learns from in this group."""


async def comparisons(
    number: int, group: Group, agent: str, *, most: int, shifts: Shifts | None
) -> list[Comparison]:
    """Return the pairs that an agent learns from in a group.

    If its answer depends on no teammate's and no teammate's on it, its own responses are compared,
    by their mean reward over the teammates' samples. Otherwise joint actions are compared, by their
    rewards.

    Args:
        number: the group's number in its step.
        most: maximum number of pairs from each set of compared joint actions; those with the
            largest gaps in reward are used.
        shifts: the teammates' samples that a response is scored with, as in `cross`.
    """
    pairs: list[tuple[Preference, tuple[str, ...]]] = []
    for nodes in group.baselines_over:
        crossed = forms(group, nodes)[agent] == "crossed"
        values: Sequence[float] = [group.rewards[node][agent] for node in nodes]
        if crossed:
            values = await _crossed(group, nodes, agent, shifts)
        parties = (agent,) if crossed else group.agents
        pairs += [(pair, parties) for pair in best_pairs(nodes, values, most)]
    return [Comparison(number, agent, pair, names, 1 / len(pairs)) for pair, names in pairs]


def shifts_for(n_agents: int, given: Shifts | None) -> Shifts:
    """Return the shifts to use: those given, else all samples for two agents and 3 for more."""
    return given or ("samples" if n_agents <= 2 else FEW)


async def _crossed(
    group: Group, nodes: Sequence[Node], agent: str, shifts: Shifts | None
) -> list[float]:
    episode, turn = nodes[0]
    team = list(joined(group.episodes[episode].turns[turn]))
    table = await make_table(group, nodes, team, agent, shifts_for(len(team), shifts))
    values: list[float] = table.crossed().tolist()
    return values


Response = tuple[int, Node, str]
"""Number of a group in the step, a joint action of it, and an agent."""


class MADPO(Algorithm):
    """Credit by pairs: A_i(win) = G/P beta sigmoid(-beta m) and A_i(lose) = -A_i(win).

    P is the number of pairs, and m = sum of d_j.

    d_j = log pi_j(win) - log pi_j(lose), minus the same under the reference, the policy from before
    training. With these weights a step follows the gradient of -log sigmoid(beta m). That is DPO
    (arXiv 2305.18290) for a team, averaged over a group's pairs, with the teammates' d held fixed.
    It is CoMLRL's MADPO on new samples at each step, and with a reference, which CoMLRL does not
    keep.

    An agent whose answer depends on no teammate's, and no teammate's on it, has its own pairs. Its
    responses are compared by their mean reward over the teammates' samples, and m = d_i. With pairs
    of whole joint answers, the agent would be pushed toward the worse of its two responses whenever
    its teammates had won the pair. Other agents have pairs of joint answers as they were played,
    and m is the sum over all agents. The rule is valid for every protocol of one turn. It scores as
    many joint actions as `cross`, and needs two forward passes over the responses in pairs.

    Args:
        beta: strength of the pull toward the reference.
        pairs: maximum number of pairs per agent and group; those with the largest gaps are used.
        shifts: see `cross`.
    """

    pays_as_played = False
    goes_by_rewards = False

    def __init__(self, *, beta: float = 0.1, pairs: int = 4, shifts: Shifts | None = None) -> None:
        if beta <= 0 or pairs < 1:
            raise RecipeError(
                f"algorithm 'madpo' needs beta above 0 and at least one pair, not beta {beta:g} and"
                f" pairs {pairs}"
            )
        self._beta, self._pairs, self._shifts = beta, pairs, shifts
        self._models: TeamModels | None = None
        self._margins: dict[str, list[tuple[Comparison, float]]] = {}

    async def open(self, models: TeamModels) -> None:
        self._models = models

    async def prepare(self, group: Group) -> None:
        """Score all joint actions that `credit` will need."""
        for agent in group.agents:
            await comparisons(0, group, agent, most=self._pairs, shifts=self._shifts)

    async def credit(self, groups: Sequence[Group]) -> list[Weights]:
        items = [
            comparison
            for number, group in enumerate(groups)
            for agent in group.agents
            for comparison in await comparisons(
                number, group, agent, most=self._pairs, shifts=self._shifts
            )
        ]
        ratios = await self._ratios(groups, items)
        weights: list[dict[Key, float]] = [
            {(*node, agent): 0.0 for node in group.children for agent in group.agents}
            for group in groups
        ]
        self._margins = {agent: [] for group in groups for agent in group.agents}
        for item in items:
            group = groups[item.number]
            margin = self._beta * fsum(
                ratios[item.number, item.pair.win, name] - ratios[item.number, item.pair.lose, name]
                for name in item.parties
            )
            strength = self._beta * chance_of_losing(margin) * item.share
            for node, sign in ((item.pair.win, 1), (item.pair.lose, -1)):
                weights[item.number][*node, item.agent] += sign * strength / group.visit_share[node]
            self._margins[item.agent].append((item, margin))
        return list(weights)

    def measures(self) -> Mapping[str, float]:
        """Return metrics for each agent, named `preferences/AGENT/...`.

        `pairs` is the number of its pairs. `crossed` is the share of pairs that compare its
        responses alone, and `gap` is the mean gap in reward. `loss` is in nats, `margin` is beta m,
        and `ordered` is the share with a margin above 0.
        """
        return dict(self._measures())

    def check(self, recipe: Recipe, spec: TrainerSpec) -> None:
        """Raise RecipeError if the step would not follow the gradient of the loss."""
        _check_turns(recipe, spec)
        _check_options(spec)
        n_agents = len(recipe.team.roles.contributors)
        shifts = shifts_for(n_agents, self._shifts)
        check_cost("madpo", spec, scored_at_most(spec.group_size, n_agents, shifts))

    def describe(self, recipe: Recipe, spec: TrainerSpec) -> list[str]:  # noqa: ARG002
        """Describe the pairs that each agent learns from."""
        return [
            f"pairs of {agent}: "
            + (
                "by its responses' mean reward with its teammates' samples"
                if form == "crossed"
                else "joint actions as they were played, with the joint margin"
            )
            for agent, form in planned_forms(recipe, shared=True).items()
        ]

    async def _ratios(
        self, groups: Sequence[Group], items: Sequence[Comparison]
    ) -> dict[Response, float]:
        """Return log pi - log reference of all responses in pairs, in nats."""
        if self._models is None:
            raise TrainingError("madpo was used before it was opened")
        needed = dict.fromkeys(
            (item.number, node, name)
            for item in items
            for node in (item.pair.win, item.pair.lose)
            for name in item.parties
        )
        ratios = dict.fromkeys(needed, 0.0)
        for agent in dict.fromkeys(name for *_, name in needed):
            responses = [
                (place, decision.action)
                for place in needed
                if place[2] == agent
                for decision in groups[place[0]].episodes[place[1][0]].turns[place[1][1]].decisions
                if decision.agent == agent and decision.action.token_ids
            ]
            actions = [action for _, action in responses]
            now = await self._models.logprobs(agent, actions)
            before = await self._models.logprobs(agent, actions, reference=True)
            for (place, _), current, reference in zip(responses, now, before, strict=True):
                ratios[place] += fsum(current) - fsum(reference)
        return ratios

    def _measures(self) -> Iterator[tuple[str, float]]:
        for agent, margins in self._margins.items():
            name = named(PREFERENCES, agent)
            yield named(name, "pairs"), len(margins)
            if not margins:
                continue
            yield named(name, "crossed"), mean([item.parties == (agent,) for item, _ in margins])
            yield named(name, "gap"), mean([item.pair.gap for item, _ in margins])
            yield named(name, "loss"), mean([loss_of(margin) for _, margin in margins])
            yield named(name, "margin"), mean([margin for _, margin in margins])
            yield named(name, "ordered"), mean([margin > 0 for _, margin in margins])


def _check_turns(recipe: Recipe, spec: TrainerSpec) -> None:
    turns = max([recipe.team.turns, *(phase.turns for phase in spec.curriculum)])
    if turns > 1:
        raise RecipeError(
            f"algorithm 'madpo' compares responses to one prompt, but this team plays {turns}"
            " turns with different prompts; set team.turns to 1, or algorithm to 'cross'"
        )


def _check_options(spec: TrainerSpec) -> None:
    wrong = {
        "group_size": (spec.group_size == 1, "2 or more, because a pair needs two samples"),
        "inner_epochs": (
            spec.inner_epochs > 1,
            "1, because the weights hold for the first step only",
        ),
        "normalise": (
            spec.normalise != "none",
            "'none', because the weights are the gradient of a loss",
        ),
        "token_weighting": (
            spec.token_weighting != "sum",
            "'sum', because log pi is that of a whole response",
        ),
    }
    for name, (is_wrong, remedy) in wrong.items():
        if is_wrong:
            raise RecipeError(
                f"{name} {getattr(spec, name)!r} does not work with algorithm 'madpo'; set {name}"
                f" to {remedy}"
            )
