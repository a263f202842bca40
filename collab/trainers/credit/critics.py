"""Critics: values of histories on frozen models, and the actor-critic algorithms IAC and MAAC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from collab.errors import RecipeError, TrainingError
from collab.recipe import Recipe, TrainerSpec
from collab.records import Episode
from collab.runs.metric_names import CRITIC, fill_pattern
from collab.stats import mean
from collab.trainers.credit.base import Algorithm, TeamModels
from collab.trainers.credit.checks import REMEDY, check_no_opponents
from collab.trainers.credit.group import Group, Node, ResponseKey, Weights

if TYPE_CHECKING:
    from collab.trainers.credit.head import Critic


def own_history(group: Group, node: Node, agent: str) -> tuple[int, ...] | None:
    """Return the prompt of an agent's first response in a turn, or None if it did not act."""
    for decision in group.turn(node).decisions:
        if decision.agent == agent and decision.action.prompt_ids:
            return decision.action.prompt_ids
    return None


def joint_history(group: Group, node: Node) -> str:
    """Return one string with each agent's observations and responses before a turn.

    Observations that show other agents' answers of the same turn are omitted. A value that depended
    on these would not be a valid baseline for their authors.
    """
    episode, turn = node
    played = group.episodes[episode]
    names = dict.fromkeys(decision.agent for decision in played.decisions())
    return "\n\n".join(f"{name}:\n{_history_of(played, turn, name)}" for name in names)


def _history_of(episode: Episode, turn: int, agent: str) -> str:
    texts: list[str] = []
    for earlier in episode.turns[:turn]:
        for decision in earlier.decisions:
            if decision.agent == agent:
                texts += [message.content for message in decision.observation]
                texts.append(decision.action.text)
    for decision in episode.turns[turn].decisions:
        first = decision.round == 0 and decision.step == 0 and not decision.saw
        if decision.agent == agent and first:
            texts += [message.content for message in decision.observation]
    return "\n".join(texts)


StepNode = tuple[int, Node]
"""Number of a group in the step, and a joint action of it."""


def advantages(
    group: Group, agent: str, values: Mapping[Node, float], *, trace: float
) -> dict[Node, float]:
    """Compute GAE (arXiv 1506.02438) over the turns of each episode, on an agent's rewards.

    delta_t = r_t + gamma V_t+1 - V_t and A_t = delta_t + gamma lambda A_t+1. `trace` is lambda: 0
    gives the one-step error of IAC and MAAC (arXiv 2601.21972), 1 the return minus V_t. In a tree,
    V_t+1 and A_t+1 are means over the following joint actions. The value after the last turn
    is the remaining reward of a solved state, and otherwise 0. A turn without a value, in which the
    agent did not act, is skipped.
    """
    by_node: dict[Node, float] = {}
    node_values = dict(values)
    for node in sorted(group.children, key=lambda node: -node[1]):
        following = group.children[node]
        next_value = group.returns[node][agent] - group.rewards[node][agent]
        if following:
            next_value = group.discount * mean([node_values[child] for child in following])
        target = group.rewards[node][agent] + next_value
        later_advantage = group.discount * trace * mean([by_node[child] for child in following])
        by_node[node] = target - node_values.setdefault(node, target) + later_advantage
    return {node: by_node[node] for node in values}


class ActorCritic(Algorithm):
    """An algorithm whose weights are generalized advantage estimates of its critics' values.

    Each critic is a linear head on the base model of an agent, made on first use.

    Args:
        trace: lambda of GAE. 0 is the paper's one-step error; 1 is unbiased for any critic.
        rate: the critics' learning rate.
    """

    is_centered = False
    _models: TeamModels

    def __init__(self, *, trace: float = 0.95, rate: float = 1e-3) -> None:
        self._trace, self._rate = trace, rate
        self._critics: dict[str, Critic] = {}
        self._saved: Mapping[str, Any] = {}

    async def open(self, models: TeamModels) -> None:
        self._models = models

    def critic(self, name: str, agent: str) -> Critic:
        """Return the critic called `name`, made on first use on the base model of `agent`."""
        if name not in self._critics:
            from collab.trainers.credit.head import Critic

            critic = self._critics[name] = Critic(self._models.base(agent), self._rate)
            if name in self._saved:
                critic.restore(self._saved[name])
        return self._critics[name]

    def measures(self) -> dict[str, float]:
        """Return the metrics `critic/NAME/loss` and `critic/NAME/explained` of each critic.

        `loss` is the mean squared error before the step's update. `explained` is the share of the
        returns' variance that the critic's values explain.
        """
        return {
            fill_pattern(fill_pattern(CRITIC, name), what): value
            for name, critic in self._critics.items()
            for what, value in critic.metrics.items()
        }

    def state(self) -> dict[str, Any]:
        return {**self._saved, **{name: c.state() for name, c in self._critics.items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._critics, self._saved = {}, dict(state)

    def _advantages(
        self, groups: Sequence[Group], agent: str, values: Mapping[StepNode, float]
    ) -> dict[StepNode, float]:
        by_step_node: dict[StepNode, float] = {}
        for number, group in enumerate(groups):
            if agent in group.agents:
                group_values = {node: value for (n, node), value in values.items() if n == number}
                by_node = advantages(group, agent, group_values, trace=self._trace)
                by_step_node |= {(number, node): value for node, value in by_node.items()}
        return by_step_node


class IAC(ActorCritic):
    """Credit by a critic per agent: A_i,t = GAE of V_i(h_i,t), with h_i,t the history of agent i.

    The source is CoLLM-DC, arXiv 2601.21972.

    V_i is a linear head on the base model with its adapters off, at the last token of the agent's
    prompt. It is trained by squared error toward A + V, one update per step. G may be 1. The
    baseline is valid for every protocol, because nothing in a history depends on the response. The
    options are those of `ActorCritic`.
    """

    async def credit(self, groups: Sequence[Group]) -> list[Weights]:
        weights: list[dict[ResponseKey, float]] = [{} for _ in groups]
        for agent in dict.fromkeys(agent for group in groups for agent in group.agents):
            critic = self.critic(agent, agent)
            histories = {
                (number, node): history
                for number, group in enumerate(groups)
                for node in group.children
                if (history := own_history(group, node, agent)) is not None
            }
            values = dict(zip(histories, await critic.values([*histories.values()]), strict=True))
            by_step_node = self._advantages(groups, agent, values)
            for (number, node), advantage in by_step_node.items():
                weights[number][*node, agent] = advantage
            critic.learn([by_step_node[node] + values[node] for node in histories])
        return list(weights)


TEAM_CRITIC = "team"
"""Name of the critic."""


class MAAC(ActorCritic):
    """Credit by one critic of the team: A_t = GAE of V(h_t), with h_t the histories of all agents.

    The source is CoLLM-CC, arXiv 2601.21972.

    One head on the base model of the first agent, with adapters off, reads one string: each agent's
    name and history, separated by blank lines. Answers that agents see of each other within the
    turn are omitted, so V is a valid baseline for all of them. V is a single number, so MAAC is
    valid for every protocol in which all agents earn the same. The options are those of
    `ActorCritic`.
    """

    async def credit(self, groups: Sequence[Group]) -> list[Weights]:
        weights: list[dict[ResponseKey, float]] = [{} for _ in groups]
        if not groups:
            return []
        agents = list(dict.fromkeys(agent for group in groups for agent in group.agents))
        critic = self.critic(TEAM_CRITIC, agents[0])
        nodes = [(n, node) for n, group in enumerate(groups) for node in group.children]
        for number, node in nodes:
            _check_equal_rewards(groups[number], node)
        texts = [joint_history(groups[number], node) for number, node in nodes]
        predicted = await critic.values([critic.model.encode(text) for text in texts])
        values = dict(zip(nodes, predicted, strict=True))
        by_agent = {agent: self._advantages(groups, agent, values) for agent in agents}
        for agent in agents:
            for (number, node), advantage in by_agent[agent].items():
                if groups[number].acted(node, agent):
                    weights[number][*node, agent] = advantage
        critic.learn([by_agent[agents[0]][node] + values[node] for node in nodes])
        return list(weights)

    def check(self, recipe: Recipe, spec: TrainerSpec) -> None:
        """Check that all agents earn the same reward, because the algorithm has one value for all.

        Raises:
            RecipeError: the agents earn different rewards.
        """
        if spec.local_parts:
            raise RecipeError(
                "algorithm 'maac' learns one reward for the whole team, but local_parts gives each"
                f" agent its own return; leave out local_parts, or {REMEDY}"
            )
        check_no_opponents("maac", recipe)


def _check_equal_rewards(group: Group, node: Node) -> None:
    earned = {agent: group.rewards[node][agent] for agent in group.agents}
    if len(set(earned.values())) > 1:
        rewards = ", ".join(f"{agent} {value:g}" for agent, value in earned.items())
        raise TrainingError(
            f"the algorithm learns one reward for the whole team, but in {group.task} the agents"
            f" earned different ones ({rewards}); {REMEDY}"
        )
