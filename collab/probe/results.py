"""What a probe finds: what `probe.json` holds, `--json` ends with and the table shows.

Shares are from 0 to 1; returns and rewards are in points. Intervals are over tasks.
"""

from __future__ import annotations

from typing import Literal

from collab.evaluation.results import Estimate
from collab.records import Record


class AgentProbe(Record):
    """One agent's responses."""

    model: str
    untrainable: str | None = None
    """Why the agent could not be trained; None where it could."""
    responses: int
    tokens: float
    """Generated ones, of a response on average."""
    limit: int
    """The most tokens of a response."""
    truncated: Estimate
    """The share of the responses that reached the limit."""
    empty: Estimate
    """The share of the turns in which the parser found no artefact."""


class Crossed(Record):
    """What comes of judging answers together that were given side by side."""

    scored: int
    """Joint actions that were judged beside the played ones."""
    failed: int
    """Those of them that could not be judged."""
    forms: dict[str, str]
    """By agent: how its responses of the first turn may be judged by further joint actions; see
    `collab.trainers.credit.counterfactual.forms`."""
    dead: int
    """Groups in which no response would get a weight from `algorithm: cross`."""
    own: dict[str, float] = {}
    """By agent: the share of the reward's variance that its own responses decide by themselves."""
    influence: dict[str, float] = {}
    """By agent: the same, with all that they decide together with others'."""
    interaction: float | None = None
    """The share that no agent decides by itself."""


class GameProbe(Record):
    """What a team's play in an environment shows beside the joint return."""

    zero_sum: bool
    """Whether what one agent earns the others lose, so that the joint return is always 0."""
    crosses: bool
    """Whether answers may be judged in other combinations: in games of one turn alone."""
    returns: dict[str, Estimate] = {}
    """By agent: what it earned itself; empty where all earn the same."""
    at_end: dict[str, Estimate] = {}
    """What the game says at its end by name, shares from 0 to 1, such as whether the last move was
    legal."""


class Best(Record):
    """The best of what a task's samples make, in the first turn."""

    samples: int
    """G."""
    whole_games: bool = False
    """Whether returns of whole games are compared, in place of rewards of the first turn."""
    combinations: int | None
    """G^n, the joint artefacts that G answers of each agent make; None where these may not be
    joined anew."""
    reward: Estimate
    """Of the best of G."""
    reward_combined: Estimate | None = None
    """Of the best of G^n."""
    solved: Estimate | None = None
    """The share of the tasks that the best of G solves; None where nothing says what is solved."""
    solved_combined: Estimate | None = None


class TeamProbe(Record):
    type: Literal["probe.finished"] = "probe.finished"
    team: str
    protocol: str
    turns: int
    tasks: tuple[str, ...]
    """Those with two whole episodes or more: the groups."""
    samples: int
    """G, the episodes of each task that were asked for."""
    episodes: int
    failed: int
    failure: str | None = None
    """The first failure, in words."""
    maximum: float
    """The largest return."""
    reward_maximum: float
    """The largest reward of one turn."""
    mean: Estimate
    """The joint return."""
    solved: Estimate | None = None
    """The share of the episodes; None where nothing says what is solved."""
    dead: int
    """Groups in which every return is equal."""
    agents: dict[str, AgentProbe]
    crossed: Crossed | None = None
    """None where one agent alone makes the joint artefact, or there is no group."""
    game: GameProbe | None = None
    """None where the suite is no environment."""
    best: Best | None = None
    tokens: int
    """Generated ones, of all agents."""
    seconds: float
    """Of playing; `judging_seconds` are those of further joint actions."""
    judging_seconds: float = 0.0
    advice: tuple[str, ...] = ()
    """What to change, in plain words."""
