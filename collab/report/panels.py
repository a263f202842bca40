"""What is drawn: panels of curves, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Unit = Literal["number", "share", "seconds", "count"]


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

    def match(self, key: str) -> str | None:
        """What `*` stands for in `key`; None where it is no metric of this family."""
        before, star, after = self.key.partition("*")
        if not star:
            return "" if key == self.key else None
        long_enough = len(key) > len(before) + len(after)
        matches = long_enough and key.startswith(before) and key.endswith(after)
        return key[len(before) : len(key) - len(after)] if matches else None


RETURN, PARTS, TEAM, LEARNING, COST = (
    "Return",
    "Parts of the reward",
    "Agents",
    "Optimisation",
    "Time and memory",
)

FAMILIES = (
    Family("Joint return in training", RETURN, "return/mean", band="return/std"),
    Family("Solved in training", RETURN, "solved", "share"),
    Family("Hidden tests passed", RETURN, "tests", "share"),
    Family("Reward by turn", RETURN, "reward/*", several=True),
    Family("Points", PARTS, "part/*", split=True),
    Family("Cooperation schemes", TEAM, "scheme/*", "share", stacked=True),
    Family("Length of a response, tokens", TEAM, "agent/*/length"),
    Family("Entropy, nats a token", TEAM, "agent/*/entropy"),
    Family("Responses cut off", TEAM, "agent/*/truncated", "share"),
    Family("Responses without an artefact", TEAM, "agent/*/empty", "share"),
    Family(
        "Share of the reward that an agent's own responses decide",
        TEAM,
        "credit/*/own",
        "share",
        note="Of the reward's variance within a task. The rest is decided by the others, or by"
        " what goes together.",
    ),
    Family("Reward that responses decide only together", TEAM, "credit/interaction", "share"),
    Family(
        "Influence on the reward",
        TEAM,
        "credit/*/influence",
        "share",
        note="The share of the reward's variance within a task that an agent's responses decide,"
        " by themselves or together with others'.",
    ),
    Family("Reward that an answer added", TEAM, "credit/*/contribution"),
    Family("KL from the reference, nats a token", TEAM, "agent/*/kl"),
    Family("Gradient norm", LEARNING, "gradient_norm/*"),
    Family("Spread of returns in a group", LEARNING, "return/spread_in_group"),
    Family("Dead groups", LEARNING, "groups/dead", "share"),
    Family("Episodes dropped", LEARNING, "episodes/dropped", "share"),
    Family("Hack suspects", LEARNING, "hack_suspects", "share"),
    Family(
        "Sampler against trainer, nats a token",
        LEARNING,
        "mismatch",
        note="How far apart the log-probabilities of the sampler and the trainer are, on average.",
    ),
    Family(
        "Tokens drawn at the edge",
        LEARNING,
        "agent/*/strays",
        "share",
        note="Tokens that the sampler drew and that, by rounding, the trainer's top_p or top_k"
        " leave out.",
    ),
    Family("Tokens clipped", LEARNING, "agent/*/clipped", "share"),
    Family("Learning rate", LEARNING, "learning_rate"),
    Family("Share of time", COST, "time/*", "share", stacked=True),
    Family(
        "Judging beside sampling, seconds a step",
        COST,
        "joint_actions/waited",
        "seconds",
        note="What scoring further joint actions took, beyond what hid behind sampling.",
    ),
    Family("Seconds a step", COST, "seconds", "seconds"),
    Family("Tokens a second", COST, "tokens_per_second", "count"),
    Family("Memory at most, GB", COST, "memory_gb"),
)
