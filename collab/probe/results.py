"""The results of a probe (`probe.json`, the last line of `--json`, the tables) and of `--best-of`.

Shares are from 0 to 1. Returns and rewards are in points. Intervals are over tasks.
"""

from __future__ import annotations

from typing import Literal

from collab.evaluation.results import Estimate
from collab.records import Failure, Record, Score


class AgentProbe(Record):
    """One agent's responses."""

    model: str
    untrainable: str | None = None
    """The reason why the agent cannot be trained, or None if it can."""
    responses: int
    tokens: float
    """Mean number of generated tokens per response."""
    limit: int
    """Maximum number of tokens of a response."""
    truncated: Estimate
    """Share of the responses that reached the limit."""
    empty: Estimate
    """Share of the turns in which the parser found no artifact."""


class Crossed(Record):
    """Results of scoring combinations of answers that agents gave independently."""

    scored: int
    """Joint actions that were scored in addition to the played ones."""
    failed: int
    """Joint actions that could not be scored."""
    forms: dict[str, str]
    """Form of credit of each agent's responses in the first turn. See
    `collab.trainers.credit.counterfactual.forms`.
    """
    dead: int
    """Groups in which no response would get a weight from `algorithm: cross`."""
    own: dict[str, float] = {}
    """Share of the reward's variance that each agent's responses explain alone."""
    influence: dict[str, float] = {}
    """Share of the variance that each agent explains, including interactions with others."""
    interaction: float | None = None
    """The share of the variance that no agent explains alone."""


class GameProbe(Record):
    """Results of games, in addition to the joint return."""

    zero_sum: bool
    """True if one agent's gain is the others' loss, so that the joint return is always 0."""
    crosses: bool
    """True if answers can be recombined, as in games of one turn only."""
    returns: dict[str, Estimate] = {}
    """Each agent's own return, or an empty mapping if all earn the same."""
    at_end: dict[str, Estimate] = {}
    """Values that the game reports at its end, by name, as shares from 0 to 1, e.g. whether the
    last move was legal."""


class Best(Record):
    """Results of the best of a task's samples, in the first turn."""

    samples: int
    """Number of samples, G."""
    whole_games: bool = False
    """Compare returns of whole games, not rewards of the first turn."""
    combinations: int | None
    """Number of joint artifacts from G answers of each agent, G^n, or None if these must not be
    recombined."""
    reward: Estimate
    """Reward of the best of G."""
    reward_combined: Estimate | None = None
    """Reward of the best of G^n."""
    solved: Estimate | None = None
    """Share of the tasks that the best of G solves, or None if no reward defines `solved`."""
    solved_combined: Estimate | None = None


class TeamProbe(Record):
    """Results of a probe: measurements of a team before training."""

    type: Literal["probe.finished"] = "probe.finished"
    team: str
    protocol: str
    turns: int
    tasks: tuple[str, ...]
    """Tasks with two or more finished episodes: the groups."""
    samples: int
    """G, the requested number of episodes per task."""
    episodes: int
    failed: int
    failure: str | None = None
    """The first failure, in words."""
    maximum: float
    """Largest return."""
    reward_maximum: float
    """Largest reward of one turn."""
    mean: Estimate
    """Mean joint return."""
    solved: Estimate | None = None
    """The share of solved episodes, or None if the reward does not define it."""
    dead: int
    """Groups in which every return is equal."""
    agents: dict[str, AgentProbe]
    crossed: Crossed | None = None
    """Results of scoring combinations, or None without groups or if one agent makes the joint
    artifact alone."""
    game: GameProbe | None = None
    """Results of a game, or None if the suite is not an environment."""
    best: Best | None = None
    tokens: int
    """Generated tokens of all agents."""
    seconds: float
    """Seconds spent on running episodes. `scoring_seconds` is the time for scoring combinations."""
    scoring_seconds: float = 0.0
    advice: tuple[str, ...] = ()
    """Suggested changes."""


class BestOf(Record):
    """The best of all combinations of a problem's answers, by the suite's own reward."""

    type: Literal["best_of"] = "best_of"
    task: str
    made_of: dict[str, int]
    """Sample of each agent's answer."""
    played: bool
    """True if these answers belong to one sample. Otherwise, the joint artifact is new."""
    artifacts: dict[str, str]
    joint: str
    score: Score
    samples: int
    """Number of episodes whose answers were combined."""
    scored: int
    """Number of combinations with a score, including played ones."""
    best_played: float
    """Largest reward of an episode."""
    failures: tuple[Failure, ...] = ()
    """Reasons why combinations have no score."""
