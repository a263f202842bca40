"""Critics: values of histories on frozen models, and the actor-critic rules IAC and MAAC."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from collab.errors import TrainingError
from collab.recipe import Recipe, TrainerSpec
from collab.records import Decision, Episode
from collab.runs.metric_names import CRITIC, fill
from collab.stats import deviation, mean
from collab.trainers.credit.base import Algorithm, FrozenModel, TeamModels
from collab.trainers.credit.checks import check_one_reward, one_reward
from collab.trainers.credit.group import Group, Key, Node, Weights

if TYPE_CHECKING:
    from torch import Tensor

    from collab.trainers.credit.head import Head


class Critic:
    """A linear value head on a frozen model."""

    def __init__(self, model: FrozenModel, rate: float) -> None:
        from collab.trainers.credit.head import Head

        self.model = model
        self.head: Head = Head(model.hidden_size, rate=rate)
        self._features: Tensor | None = None
        self.measured: dict[str, float] = {}
        """Statistics of the last `learn`: `loss`, the mean squared error, and `explained`, the
        share of the targets' variance that the values explain."""

    async def values(self, histories: Sequence[Sequence[int]]) -> list[float]:
        """Return the value of each history, a sequence of tokens. The next `learn` refers to
        them.
        """
        self._features = await self.model.features(histories) if histories else None
        return [] if self._features is None else self.head.predict(self._features)

    def learn(self, targets: Sequence[float]) -> None:
        """Move the values from the last `values` call toward `targets`, one per history."""
        if self._features is None:
            return
        loss = self.head.fit(self._features, targets)
        spread = deviation(targets) ** 2
        self.measured = {"loss": loss, "explained": 1 - loss / spread if spread else 0.0}


def own_history(group: Group, node: Node, agent: str) -> tuple[int, ...] | None:
    """Return the prompt tokens of an agent's first response in a turn.

    The result is None if the agent did not act in that turn.
    """
    episode, turn = node
    for decision in group.episodes[episode].turns[turn].decisions:
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
    names = dict.fromkeys(d.agent for t in played.turns for d in t.decisions)
    return "\n\n".join(f"{name}:\n{_history_of(played, turn, name)}" for name in names)


def _history_of(episode: Episode, turn: int, agent: str) -> str:
    texts: list[str] = []
    for earlier in episode.turns[:turn]:
        for decision in _of(agent, earlier.decisions):
            texts += [message.content for message in decision.observation]
            texts.append(decision.action.text)
    for decision in _of(agent, episode.turns[turn].decisions):
        if decision.round == 0 and decision.step == 0 and not decision.saw:
            texts += [message.content for message in decision.observation]
    return "\n".join(texts)


def _of(agent: str, decisions: tuple[Decision, ...]) -> list[Decision]:
    return [decision for decision in decisions if decision.agent == agent]


Place = tuple[int, Node]
"""Number of a group in the step, and a joint action of it."""


def advantages_of_groups(
    groups: Sequence[Group], agent: str, values: Mapping[Place, float], *, trace: float
) -> dict[Place, float]:
    """Return an agent's advantages in all groups of a step, by group number and node. See
    `advantages`."""
    by_place: dict[Place, float] = {}
    for number, group in enumerate(groups):
        group_values = {node: value for (n, node), value in values.items() if n == number}
        if agent in group.agents:
            advantage = advantages(group, agent, group_values, trace=trace)
            by_place |= {(number, node): value for node, value in advantage.items()}
    return by_place


def advantages(
    group: Group, agent: str, values: Mapping[Node, float], *, trace: float
) -> dict[Node, float]:
    """Compute GAE (arXiv 1506.02438) over the turns of each episode, on an agent's rewards.

    delta_t = r_t + gamma V_t+1 - V_t and A_t = delta_t + gamma lambda A_t+1, where `trace` is
    lambda: 0 is the one-step error of IAC and MAAC (arXiv 2601.21972), 1 the return minus V_t. In a
    tree, V_t+1 and A_t+1 are means over the following joint actions. The value after the last turn
    is the remaining reward of a solved state, and otherwise 0. A turn without a value, in which the
    agent did not act, is skipped.
    """
    by_node: dict[Node, float] = {}
    worth = dict(values)
    for node in sorted(group.children, key=lambda node: -node[1]):
        following = group.children[node]
        later = group.returns[node][agent] - group.rewards[node][agent]
        if following:
            later = group.discount * mean([worth[child] for child in following])
        ahead = group.rewards[node][agent] + later
        again = group.discount * trace * mean([by_node[child] for child in following])
        by_node[node] = ahead - worth.setdefault(node, ahead) + again
    return {node: by_node[node] for node in values}


class ActorCritic(Algorithm):
    """A rule whose weights are generalized advantage estimates of its critics' values.

    Each critic is a linear head on the base model of an agent, made on first use.

    Args:
        trace: lambda of GAE. 0 is the paper's one-step error; 1 is unbiased for any critic.
        rate: the critics' learning rate.
    """

    is_centered = False

    def __init__(self, *, trace: float = 0.95, rate: float = 1e-3) -> None:
        self._trace, self._rate = trace, rate
        self._models: TeamModels | None = None
        self._critics: dict[str, Critic] = {}
        self._saved: Mapping[str, Any] = {}

    async def open(self, models: TeamModels) -> None:
        self._models = models

    def critic(self, name: str, agent: str) -> Critic:
        """Return the critic called `name`, made on first use on the base model of `agent`.

        Raises:
            TrainingError: the algorithm was not opened.
        """
        if name not in self._critics:
            if self._models is None:
                raise TrainingError("a critic was used before its algorithm was opened")
            critic = self._critics[name] = Critic(self._models.base(agent), self._rate)
            if name in self._saved:
                critic.head.restore(self._saved[name])
        return self._critics[name]

    def measures(self) -> dict[str, float]:
        """Return the metrics `critic/NAME/loss` and `critic/NAME/explained` of each critic.

        `loss` is the mean squared error before the step's update. `explained` is the share of the
        returns' variance that the critic's values explain.
        """
        return {
            fill(fill(CRITIC, name), what): value
            for name, critic in self._critics.items()
            for what, value in critic.measured.items()
        }

    def state(self) -> dict[str, Any]:
        """Return the states of the critics, by name."""
        return {**self._saved, **{name: c.head.state() for name, c in self._critics.items()}}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state` from a checkpoint."""
        self._critics, self._saved = {}, dict(state)


class IAC(ActorCritic):
    """Credit by a critic per agent: A_i,t = GAE of V_i(h_i,t), with h_i,t the history of agent i.

    The source is CoLLM-DC, arXiv 2601.21972.

    V_i is a linear head on the base model with its adapters off, at the last token of the agent's
    prompt. V_i is trained by squared error toward A + V, one update per batch. The baseline needs
    no other episode, so G may be 1. The baseline is valid for every protocol, because nothing in a
    history depends on the response. The rule costs one forward pass over the prompts, and no
    additional response or score. The options are those of `ActorCritic`.
    """

    async def credit(self, groups: Sequence[Group]) -> list[Weights]:
        weights: list[dict[Key, float]] = [{} for _ in groups]
        for agent in dict.fromkeys(agent for group in groups for agent in group.agents):
            critic = self.critic(agent, agent)
            read = _histories(groups, agent)
            values = dict(zip(read, await critic.values(list(read.values())), strict=True))
            by_place = advantages_of_groups(groups, agent, values, trace=self._trace)
            for (number, node), advantage in by_place.items():
                weights[number][*node, agent] = advantage
            critic.learn([by_place[place] + values[place] for place in read])
        return list(weights)


def _histories(groups: Sequence[Group], agent: str) -> dict[Place, tuple[int, ...]]:
    histories = {}
    for number, group in enumerate(groups):
        for node in group.children:
            history = own_history(group, node, agent)
            if history is not None:
                histories[number, node] = history
    return histories


TEAM = "team"
"""Name of the critic."""


class MAAC(ActorCritic):
    """Credit by one critic of the team: A_t = GAE of V(h_t), with h_t the histories of all agents.

    The source is CoLLM-CC, arXiv 2601.21972.

    One head on the base model of the first agent, with adapters off, reads one string: each agent's
    name and history, separated by blank lines. The head is updated once per batch. Answers that
    agents see of each other within the turn are omitted, so V is a valid baseline for all of them.
    V is a single number, so the rule is valid for every protocol in which all agents earn the same.
    The rule costs one forward pass over the joint histories, and no additional response or score.
    The options are those of `ActorCritic`.
    """

    async def credit(self, groups: Sequence[Group]) -> list[Weights]:
        weights: list[dict[Key, float]] = [{} for _ in groups]
        if not groups:
            return []
        agents = list(dict.fromkeys(agent for group in groups for agent in group.agents))
        critic = self.critic(TEAM, agents[0])
        places = [(n, node) for n, group in enumerate(groups) for node in group.children]
        for number, node in places:
            one_reward(groups[number], groups[number].rewards, node)
        texts = [joint_history(groups[number], node) for number, node in places]
        read = await critic.values([critic.model.encode(text) for text in texts])
        values = dict(zip(places, read, strict=True))
        by_agent = {
            agent: advantages_of_groups(groups, agent, values, trace=self._trace)
            for agent in agents
        }
        for agent in agents:
            for (number, node), advantage in by_agent[agent].items():
                if _acted(groups[number], node, agent):
                    weights[number][*node, agent] = advantage
        critic.learn([by_agent[agents[0]][place] + values[place] for place in places])
        return list(weights)

    def check(self, recipe: Recipe, spec: TrainerSpec) -> None:
        """Refuse a team whose agents earn different rewards, because the rule has one value for all
        of them.

        Raises:
            RecipeError: the agents have different rewards.
        """
        check_one_reward("maac", recipe, spec)


def _acted(group: Group, node: Node, agent: str) -> bool:
    episode, turn = node
    return any(d.agent == agent for d in group.episodes[episode].turns[turn].decisions)
