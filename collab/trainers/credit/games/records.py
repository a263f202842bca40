"""What a game leaves in the record: turns and episodes, made of what its agents drew."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import log

from collab.records import Action, Decision, Episode, Message, Score, Turn
from collab.records.episode import Further
from collab.trainers.credit.games.game import Game, Table

Draw = Callable[[Table], int]
"""Chances of a table's row in, the number of the one that was drawn out."""

Joint = tuple[int, ...]


def actions_of(turn: Turn) -> Joint:
    """What the agents drew in a turn, in the order in which they act."""
    return tuple(decision.action.token_ids[0] for decision in turn.decisions)


@dataclass
class Records:
    """What a game leaves in the record. All that is equal in two groups is made once."""

    game: Game
    _turns: dict[tuple[int, int, Joint], Turn] = field(default_factory=dict)
    _episodes: dict[tuple[int | str, ...], Episode] = field(default_factory=dict)
    _earned: dict[tuple[int, Joint], dict[str, float]] = field(default_factory=dict)

    def act(self, turn: int, state: int, draw: Draw, silent: Sequence[str] = ()) -> Joint:
        """Have every agent draw its action, by what it sees; `silent` ones say nothing."""
        joint: Joint = ()
        for agent in self.game.agents:
            said = agent not in silent
            own = self.draw(turn, state, joint, draw) if said else self.game.empty[agent]
            joint = (*joint, own)
        return joint

    def draw(self, turn: int, state: int, before: Joint, draw: Draw) -> int:
        """Have the next agent draw its action, by what it sees of those before it."""
        agent = self.game.agents[len(before)]
        seen = tuple(before[n] for n in self.game.axes(agent)[:-1])
        return draw(self.game.policies[agent, turn, state][seen])

    def earned(self, turn: int, joint: Joint) -> dict[str, float]:
        """By agent."""
        if (turn, joint) not in self._earned:
            self._earned[turn, joint] = {
                agent: float(self.game.earned(turn, agent)[joint]) for agent in self.game.agents
            }
        return self._earned[turn, joint]

    def turn(self, turn: int, state: int, joint: Joint) -> Turn:
        """The record of a turn."""
        key = (turn, state, joint)
        if key not in self._turns:
            self._turns[key] = self._make(turn, state, joint)
        return self._turns[key]

    def episode(self, sample: int, turns: Sequence[Turn], further: Further = "") -> Episode:
        """The record of an episode."""
        key = (further, sample, *map(id, turns))
        if key not in self._episodes:
            self._episodes[key] = Episode.model_construct(
                id=f"game#{sample}",
                task="game",
                team="game",
                sample=sample,
                turns=tuple(turns),
                horizon=self.game.turns,
                further=further,
            )
        return self._episodes[key]

    def _make(self, turn: int, state: int, joint: Joint) -> Turn:
        game = self.game
        score = Score(
            reward=float(game.rewards[turn][joint]),
            maximum=float(game.rewards[turn].max()),
            solved=None if game.solved is None else game.solves(joint),
        )
        decisions, artefacts, rounds = [], {}, dict[str, int]()
        for agent, drawn in zip(game.agents, joint, strict=True):
            axes = game.axes(agent)[:-1]
            saw = tuple(game.agents[n] for n in axes)
            rounds[agent] = max((rounds[name] + 1 for name in saw), default=0)
            seen = tuple(joint[n] for n in axes)
            artefacts[agent] = self._text(agent, drawn)
            decisions.append(
                Decision(
                    agent=agent,
                    round=rounds[agent],
                    saw=saw,
                    observation=(Message(role="user", content=f"state {state}, seen {seen}"),),
                    action=Action(
                        text=artefacts[agent],
                        token_ids=(drawn,),
                        logprobs=(log(game.policies[agent, turn, state][seen][drawn]),),
                        prompt_ids=(turn, state, *seen),
                    ),
                )
            )
        return Turn(index=turn, decisions=tuple(decisions), artefacts=artefacts, score=score)

    def _text(self, agent: str, drawn: int) -> str:
        return "" if self.game.empty.get(agent) == drawn else f"{agent} {drawn}"
