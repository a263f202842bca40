"""CCPO: those who think first are paid for what the last agent could not have done alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from collab.errors import RecipeError, TrainingError
from collab.recipe import Recipe, TrainerSpec
from collab.records import Episode, Score
from collab.runs.metric_names import SOLO, named
from collab.runtime.rehearsal import rehearsed
from collab.stats import mean
from collab.trainers.credit.checks import acting_order
from collab.trainers.credit.group import FurtherEpisode, Group, Node, Weights
from collab.trainers.credit.magrpo import marloo
from collab.trainers.credit.shape import Further

Bonus = Literal["solved", "difference"]


class CCPO:
    """A_i = leave-one-out of R_i: R_solver = R, R_thinker = R + weight x bonus.

    arXiv 2603.21563: the last agent of a sequential team, the solver, also answers alone, in G
    further episodes in which the others say nothing. With S the reward alone and M the largest,
    the bonus is M/2 (1[solved, alone not] - 1[not solved, alone solved]), or (R - S)/2; with
    rewards of -1 and 1 that is the paper's. As the solver's answers alone do not depend on a
    thinker's, they drop out of its gradient's mean: it follows J + weight M/2 P(solved), or (1 +
    weight/2) J, and S adds noise. What they are good for is to tell whether thinking helps
    (`solo/helped`, `solo/hurt`). Right for one turn of agents that act one after the other. It
    costs G further answers of the solver, and G more joint actions to be scored.

    Args:
        weight: of the bonus, the paper's lambda.
        bonus: whether it is of the task's being `solved`, or of the `difference` of rewards.
    """

    compares = True
    goes_by_rewards = False

    def __init__(self, *, weight: float = 0.2, bonus: Bonus = "solved") -> None:
        if bonus not in ("solved", "difference"):
            raise RecipeError(f"algorithm 'ccpo': bonus '{bonus}' must be 'solved' or 'difference'")
        self._weight, self._bonus = weight, bonus
        self._told: dict[str, float] = {}

    def further(self, recipe: Recipe) -> Further:
        """Those in which all agents but the last one are silent."""
        return Further(silent=tuple(_order(recipe)[:-1]))

    async def credit(self, groups: Sequence[Group]) -> list[Weights]:
        """As `Algorithm.credit`."""
        self._told = dict(_measures(groups))
        return [marloo(self._paid(group)) for group in groups]

    def measures(self) -> Mapping[str, float]:
        """`solo/reward`: of the solver alone; and of the pairs of an episode and one alone, where
        the reward says what is solved: `solo/helped`, the share that only the team solved;
        `solo/hurt`, the share that only the solver alone did."""
        return self._told

    def state(self) -> Mapping[str, Any]:
        """Nothing is kept."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Nothing was kept."""

    def check(self, recipe: Recipe, spec: TrainerSpec) -> None:
        """Raise RecipeError where nobody thinks before the last agent, or not as it was played."""
        order = acting_order("ccpo", recipe, spec)
        if len(order) == 1:
            raise RecipeError(
                "algorithm 'ccpo' compares a team with its last agent alone, and this team has one"
                " agent; set algorithm to 'marloo'"
            )
        plain = {"turn_structure": "chains", "joint_mode": "aligned"}
        for key, value in plain.items():
            if getattr(spec, key) != value:
                raise RecipeError(
                    f"algorithm 'ccpo' compares episodes as they were played, and {key} is"
                    f" '{getattr(spec, key)}'; set {key} to '{value}'"
                )

    def describe(self, recipe: Recipe, spec: TrainerSpec) -> list[str]:
        """What is played beside the group."""
        *thinkers, solver = _order(recipe)
        return [
            f"credit: {solver} also answers alone, {spec.group_size} times a task, and"
            f" {', '.join(thinkers)} get a bonus for what the team does better"
        ]

    def _paid(self, group: Group) -> Group:
        """The group with the thinkers' bonus in their rewards."""
        alone = {further.of[0]: further for further in group.further}
        returns = dict(group.returns)
        for node in group.returns:
            if node[0] in alone:
                returns[node] = self._with_bonus(group, node, alone[node[0]])
        return replace(group, rewards=returns, returns=returns)

    def _with_bonus(self, group: Group, node: Node, alone: FurtherEpisode) -> Mapping[str, float]:
        solver = group.episodes[node[0]].turns[0].decisions[-1].agent
        return {
            agent: earned
            if agent == solver
            else earned + self._weight * self._bonus_of(group, node, agent, alone)
            for agent, earned in group.returns[node].items()
        }

    def _bonus_of(self, group: Group, node: Node, agent: str, alone: FurtherEpisode) -> float:
        if self._bonus == "difference":
            return (group.returns[node][agent] - alone.earned(agent, group.discount)) / 2
        score = _score(group.episodes[node[0]])
        return score.maximum / 2 * (_solved(score) - _solved(_score(alone.episode)))


def _order(recipe: Recipe) -> list[str]:
    return [agent for round_ in rehearsed(recipe).rounds for agent in round_.agents]


def _score(episode: Episode) -> Score:
    assert episode.score is not None, "episodes without a score are not whole"
    return episode.score


def _solved(score: Score) -> bool:
    if score.solved is None:
        raise TrainingError(
            "algorithm 'ccpo' has a bonus for what is solved, and a reward did not say whether its"
            " task is; set its option bonus to 'difference'"
        )
    return score.solved


def _measures(groups: Sequence[Group]) -> Iterator[tuple[str, float]]:
    pairs = [
        (_score(group.episodes[further.of[0]]), _score(further.episode))
        for group in groups
        for further in group.further
    ]
    if not pairs:
        return
    yield named(SOLO, "reward"), mean([alone.reward for _, alone in pairs])
    if all(score.solved is not None for pair in pairs for score in pair):
        yield named(SOLO, "helped"), mean([bool(t.solved and not a.solved) for t, a in pairs])
        yield named(SOLO, "hurt"), mean([bool(a.solved and not t.solved) for t, a in pairs])
