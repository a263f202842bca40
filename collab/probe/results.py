"""The results of a probe: `probe.json`, the last line of `--json`, and the tables.

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
    """The reason why the agent cannot be trained; None if it can."""
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
    """Results of scoring combinations of answers that agents gave independently."""

    scored: int
    """Joint actions that were scored in addition to the played ones."""
    failed: int
    """Joint actions that could not be scored."""
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
    """The share of the variance that no agent decides alone."""


class GameProbe(Record):
    """Results of games, in addition to the joint return."""

    zero_sum: bool
    """One agent's gain is the others' loss, so the joint return is always 0."""
    crosses: bool
    """Answers can be recombined, in games of one turn only."""
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
    """Compare returns of whole games, not rewards of the first turn."""
    combinations: int | None
    """G^n, the joint artefacts that G answers of each agent make; None where these may not be
    joined anew."""
    reward: Estimate
    """Reward of the best of G."""
    reward_combined: Estimate | None = None
    """Reward of the best of G^n."""
    solved: Estimate | None = None
    """The share of the tasks that the best of G solves; None where nothing says what is solved."""
    solved_combined: Estimate | None = None


class TeamProbe(Record):
    type: Literal["probe.finished"] = "probe.finished"
    team: str
    protocol: str
    turns: int
    tasks: tuple[str, ...]
    """Tasks with two finished episodes or more: the groups."""
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
    """The share of solved episodes; None if the reward does not say so."""
    dead: int
    """Groups in which every return is equal."""
    agents: dict[str, AgentProbe]
    crossed: Crossed | None = None
    """None if one agent makes the joint artefact alone, or without groups."""
    game: GameProbe | None = None
    """None if the suite is no environment."""
    best: Best | None = None
    tokens: int
    """Generated ones, of all agents."""
    seconds: float
    """Seconds of playing; `judging_seconds` are those of scoring combinations."""
    judging_seconds: float = 0.0
    advice: tuple[str, ...] = ()
    """Suggested changes."""
