"""A team whose policies are tables: the reward and probability of each joint action are known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from math import log
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from collab.errors import TrainingError
from collab.records import Action, Decision, Episode, Message, Score, Turn
from collab.trainers.credit.group import Choice, Group, Node, make_group
from collab.trainers.credit.shape import Shape

if TYPE_CHECKING:
    from torch import Tensor


GameTable = NDArray[np.float64]
Vector = NDArray[np.float64]

Draw = Callable[[GameTable], int]
"""Maps the probabilities in a table's row to the number of the drawn one."""

JointAction = tuple[int, ...]
"""The actions of the agents in a turn, in the order in which they act."""

TableKey = tuple[str, int, int]
"""Key of a table: an agent, a turn, and the state of the turn."""


@dataclass(frozen=True, eq=False)
class Game:
    """A team of n agents that act once per turn, each by a softmax over its logits.

    Every turn starts in a state that all agents observe. The first turn is in state 0. An agent may
    also see the actions of earlier agents in the turn.
    """

    agents: tuple[str, ...]
    """Agents in the order in which they act."""
    rewards: tuple[GameTable, ...]
    """Joint reward of every joint action, one table per turn, of shape [K_1, .., K_n]."""
    logits: Mapping[TableKey, GameTable]
    """Logits, of shape [K_j of every agent j that is seen.., K_i]."""
    sees: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Earlier agents, in their order, whose actions of the turn an agent sees."""
    states: NDArray[np.int64] | None = None
    """State after every joint action, or None for 0 always."""
    solved: NDArray[np.bool_] | None = None
    """Joint actions that end the episode. Their reward counts for all remaining turns."""
    extra: Mapping[str, GameTable] = field(default_factory=dict)
    """Earnings of an agent in addition to the joint reward."""
    empty: Mapping[str, int] = field(default_factory=dict)
    """The action of an agent that represents an empty answer."""
    discount: float = 1.0

    @property
    def turns(self) -> int:
        """H, the number of turns."""
        return len(self.rewards)

    @cached_property
    def policies(self) -> dict[TableKey, GameTable]:
        """Probability of every action, in the shape of `logits`."""
        return {key: softmax(table) for key, table in self.logits.items()}

    @cached_property
    def offsets(self) -> dict[TableKey, int]:
        """Start of each table in the vector of all logits of its agent."""
        ends: dict[str, int] = dict.fromkeys(self.agents, 0)
        starts = {}
        for key, table in self.logits.items():
            starts[key] = ends[key[0]]
            ends[key[0]] += table.size
        return starts

    def zeros(self) -> dict[str, Vector]:
        """Return a zero vector for each agent, as long as its logits."""
        sizes = dict.fromkeys(self.agents, 0)
        for (agent, _, _), table in self.logits.items():
            sizes[agent] += table.size
        return {agent: np.zeros(size) for agent, size in sizes.items()}

    def axes(self, agent: str) -> tuple[int, ...]:
        """Return the axes of an agent's logits: one per agent that it sees, then its own."""
        return tuple(self.agents.index(name) for name in (*self.sees.get(agent, ()), agent))

    def joint_rewards(self, turn: int, joint: JointAction) -> dict[str, float]:
        shared = float(self.rewards[turn][joint])
        return {
            agent: shared + float(self.extra[agent][joint]) if agent in self.extra else shared
            for agent in self.agents
        }

    def act(self, turn: int, state: int, draw: Draw) -> JointAction:
        """Return one action per agent, each drawn given the earlier actions that the agent sees."""
        joint: JointAction = ()
        for agent in self.agents:
            seen = tuple(joint[n] for n in self.axes(agent)[:-1])
            joint = (*joint, draw(self.policies[agent, turn, state][seen]))
        return joint

    def state_after(self, joint: Sequence[int]) -> int:
        """Return the number of the state that follows a joint action."""
        return 0 if self.states is None else int(self.states[tuple(joint)])

    def solves(self, joint: Sequence[int]) -> bool:
        """Return True if a joint action solves the task."""
        return self.solved is not None and bool(self.solved[tuple(joint)])


def softmax(logits: GameTable) -> GameTable:
    """Return probabilities from logits, normalized over the last axis."""
    exponentials = np.exp(logits - logits.max(axis=-1, keepdims=True))
    chances: GameTable = exponentials / exponentials.sum(axis=-1, keepdims=True)
    return chances


class OneHot:
    """A `FrozenModel` whose features only distinguish sequences from each other."""

    def __init__(self, hidden_size: int) -> None:
        self.hidden_size = hidden_size
        self._numbers: dict[tuple[int, ...], int] = {}

    def encode(self, text: str) -> tuple[int, ...]:
        """Return one token per character."""
        return tuple(map(ord, text))

    async def features(self, sequences: Sequence[Sequence[int]]) -> Tensor:
        """Return a one-hot row per sequence: [n, hidden].

        Raises:
            TrainingError: there are more sequences than columns.
        """
        import torch

        features = torch.zeros(len(sequences), self.hidden_size)
        for row, sequence in zip(features, sequences, strict=True):
            number = self._numbers.setdefault(tuple(sequence), len(self._numbers))
            if number >= self.hidden_size:
                raise TrainingError(
                    f"the game has more histories than the {self.hidden_size} columns of its"
                    " features; give GameModels a larger hidden_size"
                )
            row[number] = 1
        return features


class GameModels:
    """The `TeamModels` of a game."""

    def __init__(self, hidden_size: int = 64) -> None:
        self._size = hidden_size
        self._by_name: dict[str, OneHot] = {}

    def base(self, agent: str) -> OneHot:
        return self._by_name.setdefault(agent, OneHot(self._size))


def actions_of(turn: Turn) -> JointAction:
    return tuple(decision.action.token_ids[0] for decision in turn.decisions)


@lru_cache(maxsize=10_000)
def _record_turn(game: Game, turn: int, state: int, joint: JointAction) -> Turn:
    """Return the record of a turn. Equal turns are made once."""
    score = Score(
        reward=float(game.rewards[turn][joint]),
        maximum=float(game.rewards[turn].max()),
        solved=None if game.solved is None else game.solves(joint),
    )
    decisions, artifacts, rounds = [], {}, dict[str, int]()
    for agent, drawn in zip(game.agents, joint, strict=True):
        axes = game.axes(agent)[:-1]
        saw = tuple(game.agents[n] for n in axes)
        rounds[agent] = max((rounds[name] + 1 for name in saw), default=0)
        seen = tuple(joint[n] for n in axes)
        artifacts[agent] = "" if game.empty.get(agent) == drawn else f"{agent} {drawn}"
        decisions.append(
            Decision(
                agent=agent,
                round=rounds[agent],
                saw=saw,
                observation=(Message(role="user", content=f"state {state}, seen {seen}"),),
                action=Action(
                    text=artifacts[agent],
                    token_ids=(drawn,),
                    logprobs=(log(game.policies[agent, turn, state][seen][drawn]),),
                    prompt_ids=(turn, state, *seen),
                ),
            )
        )
    return Turn(index=turn, decisions=tuple(decisions), artifacts=artifacts, score=score)


def _episode(game: Game, sample: int, turns: Sequence[Turn]) -> Episode:
    return Episode.model_construct(
        id=f"game#{sample}",
        task="game",
        team="game",
        sample=sample,
        turns=tuple(turns),
        horizon=game.turns,
    )


def random_draw(rng: np.random.Generator) -> Draw:
    def draw(chances: GameTable) -> int:
        return min(int(np.searchsorted(chances.cumsum(), rng.random())), len(chances) - 1)

    return draw


def play(game: Game, group_size: int, draw: Draw, *, shape: Shape | None = None) -> Group:
    """Return a group of episodes in which `draw` chooses every action, in chains by default.

    `group.score` answers from the game's table of rewards.
    """
    shape = shape or Shape("chains", group_size, game.turns)
    episodes = list(_episodes(game, shape, draw))

    def rewards_at(node: Node) -> dict[str, float]:
        return game.joint_rewards(node[1], actions_of(episodes[node[0]].turns[node[1]]))

    async def ask(
        nodes: Sequence[Node], choices: Sequence[Choice]
    ) -> list[Mapping[str, float] | None]:
        played = [actions_of(episodes[episode].turns[turn]) for episode, turn in nodes]
        turn = nodes[0][1]
        joined = [_joint_action(game, played, choice) for choice in choices]
        return [None if joint is None else game.joint_rewards(turn, joint) for joint in joined]

    return make_group(episodes, game.agents, rewards_at, shape, game.discount, ask=ask)


def sample(
    game: Game, group_size: int, rng: np.random.Generator, *, shape: Shape | None = None
) -> Group:
    """Return a group of episodes with randomly drawn actions."""
    return play(game, group_size, random_draw(rng), shape=shape)


def outcomes(
    game: Game, group_size: int, *, shape: Shape | None = None
) -> Iterator[tuple[float, Group]]:
    """Yield every possible group, with its probability."""
    pending: list[list[int]] = [[]]  # the first draws of the groups that are still to come
    chance = 1.0

    def draw(chances: GameTable) -> int:
        nonlocal chance
        if len(drawn) == len(first_draws):
            pending.extend([*drawn, other] for other in reversed(range(1, len(chances))))
            first_draws.append(0)
        drawn.append(first_draws[len(drawn)])
        chance *= float(chances[drawn[-1]])
        return drawn[-1]

    while pending:
        first_draws, drawn, chance = pending.pop(), list[int](), 1.0
        group = play(game, group_size, draw, shape=shape)
        yield chance, group


def _episodes(game: Game, shape: Shape, draw: Draw) -> Iterator[Episode]:
    if shape.structure == "greedy":
        yield from _greedy_episodes(game, shape, draw)
        return
    drawn: dict[tuple[int, int], JointAction] = {}
    ended: set[tuple[int, int]] = set()
    for sample in range(shape.episodes):
        state, turns = 0, []
        for turn in range(game.turns):
            key = shape.key(sample, turn)
            if key in ended:  # the branch was solved, so it has one episode
                break
            if key not in drawn:
                drawn[key] = game.act(turn, state, draw)
            joint = drawn[key]
            turns.append(_record_turn(game, turn, state, joint))
            if game.solves(joint):
                ended.add(key)
                yield _episode(game, sample, turns)
                break
            state = game.state_after(joint)
        else:
            yield _episode(game, sample, turns)


def _greedy_episodes(game: Game, shape: Shape, draw: Draw) -> Iterator[Episode]:
    """Yield the siblings of each turn. Only the best sibling continues."""
    state, before = 0, list[Turn]()
    for turn in range(game.turns):
        joint = [game.act(turn, state, draw) for _ in range(shape.group_size)]
        best = max(range(len(joint)), key=lambda n: float(game.rewards[turn][joint[n]]))
        is_last = turn == game.turns - 1 or game.solves(joint[best])
        for number, drawn in enumerate(joint):
            if is_last or number != best:
                sample = shape.child(0, turn, number)
                yield _episode(game, sample, [*before, _record_turn(game, turn, state, drawn)])
        if is_last:
            return
        before.append(_record_turn(game, turn, state, joint[best]))
        state = game.state_after(joint[best])


def _joint_action(game: Game, played: Sequence[JointAction], choice: Choice) -> JointAction | None:
    """Return the joint action, or None if an agent without an empty action is left out."""
    picks = [(agent, choice.get(agent, 0)) for agent in game.agents]
    if any(pick is None and agent not in game.empty for agent, pick in picks):
        return None
    return tuple(
        game.empty[agent] if pick is None else played[pick][n]
        for n, (agent, pick) in enumerate(picks)
    )
