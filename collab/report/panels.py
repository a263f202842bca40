"""What is drawn: panels of curves, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from collab.rewards.library import MEASURES
from collab.runs import metric_names as names

Unit = Literal["number", "share", "seconds", "count"]
Reach = Literal["open", "return", "reward", "part"]


@dataclass(frozen=True)
class Series:
    """One curve; `low` and `high` bound its band, or its points' intervals."""

    label: str
    short: str
    """What the panel's legend says; the page's own legend tells what its colour is."""
    color: int
    x: list[float]
    y: list[float]
    low: list[float] = field(default_factory=list)
    high: list[float] = field(default_factory=list)
    style: Literal["line", "thin", "points"] = "line"
    dashed: bool = False


@dataclass(frozen=True)
class Panel:
    title: str
    section: str
    series: list[Series]
    unit: Unit = "number"
    note: str = ""
    """What the bands and intervals are."""
    stacked: bool = False
    """Shares of one whole, drawn on top of each other."""
    along: Literal["step", "tokens"] = "step"
    """What the curves run along."""
    most: float | None = None
    """The largest value there can be: where the axis ends, and a line is drawn."""


@dataclass(frozen=True)
class Family:
    """Metrics that are drawn together: those whose key matches, `*` being what tells them apart."""

    title: str
    section: str
    key: str
    unit: Unit = "number"
    band: str = ""
    """The metric that is the spread around `key`."""
    split: bool = False
    """Each metric in a panel of its own, named by what `*` stands for."""
    stacked: bool = False
    several: bool = False
    """Drawn only where there are several such metrics."""
    note: str = ""
    """What the metric is, where its name does not say it."""
    reach: Reach = "open"
    """What bounds it: the largest return, reward of a turn, or weight of the part."""

    def match(self, key: str) -> str | None:
        """What `*` stands for in `key`; None where it is no metric of this family."""
        return names.matched(self.key, key)


RETURN, PARTS, TEAM, LEARNING, COST = (
    "Return",
    "Parts of the reward",
    "Agents",
    "Optimisation",
    "Time and memory",
)

FAMILIES = (
    Family("Joint return in training", RETURN, names.RETURN, band=names.RETURN_STD, reach="return"),
    Family("Solved in training", RETURN, names.SOLVED, "share"),
    Family("Solved by turn", RETURN, names.SOLVED_IN_TURN, "share", several=True),
    *(Family(m.title, RETURN, m.metric, "share") for m in MEASURES if m.metric),
    Family("Reward by turn", RETURN, names.REWARD, several=True, reach="reward"),
    Family("Return of each agent, where they differ", RETURN, names.AGENT_RETURN, several=True),
    Family("Points", PARTS, names.PART, split=True, reach="part"),
    Family("Values", PARTS, names.VALUE, "share", split=True),
    Family("How the agents work together", TEAM, names.SCHEME, "share", stacked=True),
    Family("Length of a response, tokens", TEAM, names.LENGTH),
    Family("Entropy, nats a token", TEAM, names.ENTROPY),
    Family("Responses cut off", TEAM, names.TRUNCATED, "share"),
    Family("Responses without an artefact", TEAM, names.EMPTY, "share"),
    Family(
        "Share of the reward that an agent's own responses decide",
        TEAM,
        names.CREDIT_OWN,
        "share",
        note="Of the reward's variance within a task. The rest is decided by the others, or by"
        " what goes together.",
    ),
    Family("Reward that responses decide only together", TEAM, names.CREDIT_INTERACTION, "share"),
    Family(
        "Influence on the reward",
        TEAM,
        names.CREDIT_INFLUENCE,
        "share",
        note="The share of the reward's variance within a task that an agent's responses decide,"
        " by themselves or together with others'.",
    ),
    Family("Reward that an answer added", TEAM, names.CREDIT_CONTRIBUTION),
    Family("KL from the reference, nats a token", TEAM, names.KL),
    Family("Gradient norm", LEARNING, names.GRADIENT_NORM),
    Family("Spread of returns in a group", LEARNING, names.RETURN_SPREAD),
    Family("Dead groups", LEARNING, names.DEAD_GROUPS, "share"),
    Family("Episodes dropped", LEARNING, names.DROPPED, "share"),
    Family("Hack suspects", LEARNING, names.HACK_SUSPECTS, "share"),
    Family(
        "Sampler against trainer, nats a token",
        LEARNING,
        names.MISMATCH,
        note="How far apart the log-probabilities of the sampler and the trainer are, on average.",
    ),
    Family(
        "Tokens drawn at the edge",
        LEARNING,
        names.OUTSIDE_SUPPORT,
        "share",
        note="Tokens that the sampler drew and that, by rounding, the trainer's top_p or top_k"
        " leave out.",
    ),
    Family("Tokens clipped", LEARNING, names.CLIPPED, "share"),
    Family("Learning rate", LEARNING, names.LEARNING_RATE),
    Family("Share of time", COST, names.TIME, "share", stacked=True),
    Family(
        "Judging beside sampling, seconds a step",
        COST,
        names.FURTHER_WAITED,
        "seconds",
        note="What scoring further joint actions took, beyond what hid behind sampling.",
    ),
    Family("Seconds a step", COST, names.SECONDS, "seconds"),
    Family("Tokens a second", COST, names.TOKENS_PER_SECOND, "count"),
    Family("Memory at most, GB", COST, names.MEMORY),
)
