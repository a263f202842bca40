"""The names of all metrics of training and evaluations.

A `*` in a name represents an agent, a policy, a part, a turn or similar. Metrics of a family of
rewards are named where they are declared (`collab.rewards.measures.Measure`).
"""

from __future__ import annotations

from functools import lru_cache

# A step of training: the keys of a line of `metrics.jsonl`.

RETURN_MEAN = "return/mean"
RETURN_MAXIMUM = "return/maximum"
RETURN_STD = "return/std"
RETURN_SPREAD = "return/spread_in_group"
REWARD = "reward/*"
SOLVED = "solved"
SOLVED_AFTER_TURN = "solved/turn_*"
POINTS = "points/*"
VALUE = "value/*"

DEAD_GROUPS = "groups/dead"
SKIPPED_GROUPS = "groups/skipped"
SKIPPED = "skipped/*"
EPISODES = "episodes"
DROPPED = "episodes/dropped"
FLAGGED = "episodes/flagged"
FAILURES = "failures/*"

AGENT = "agent/*"
AGENT_RETURN = "agent/*/return"
LENGTH = "agent/*/length"
TRUNCATED = "agent/*/truncated"
ENTROPY = "agent/*/entropy"
EMPTY = "agent/*/empty"
LOGPROB = "agent/*/logprob"
AGENT_MISMATCH = "agent/*/mismatch"
AGENT_MISMATCH_KL = "agent/*/mismatch_kl"
IMPORTANCE = "agent/*/importance"
MASKED = "agent/*/masked"
CLIPPED = "agent/*/clipped"
OUTSIDE_SUPPORT = "agent/*/outside_support"
KL = "agent/*/kl"

CREDIT_OWN = "credit/*/own"
CREDIT_INFLUENCE = "credit/*/influence"
CREDIT_CONTRIBUTION = "credit/*/contribution"
CREDIT_AVERAGE = "credit/*/average"
CREDIT_INTERACTION = "credit/interaction"
CREDIT_FORM = "credit/*/*"
CRITIC = "critic/*/*"
SFT_KEPT = "sft/kept"
COMBINATIONS_SCORED = "joint_actions/scored"
COMBINATIONS_SECONDS = "joint_actions/seconds"
COMBINATIONS_WAITED = "joint_actions/waited"

LOSS = "loss/*"
GRADIENT_NORM = "gradient_norm/*"
LEARNING_RATE = "learning_rate"
MISMATCH = "mismatch"
STALENESS = "staleness"
SERVER = "server/*"

TOKENS = "tokens"
TOKENS_PER_SECOND = "tokens_per_second"
UPDATE_TOKENS = "update_tokens"
SECONDS = "seconds"
TIME = "time/*"
COST = "cost"
MEMORY = "memory_gb"

# An evaluation: the keys of `metrics` in `eval.json`. Some are named above.

PASS_AT = "pass@*"
BEST_OF = "*@*"
SELECTED = "selected@*"
"""Name of the probability that the program chosen from k is solved."""
RECOMBINED = "recombined@*"
"""Name of `selected` over all combinations of the parts of k programs."""
TOKENS_OF_TRIES = "tokens/of_*"
"""Name of the new tokens of all agents for k samples of a problem."""
TOKENS_IN_SEQUENCE = "tokens/in_sequence"
"""Name of the new tokens that must be generated one after another for one sample."""
LEVEL = "level/*"
RETURN = "return"
RETURN_SHARE = "return/share"
LAST_REWARD_SHARE = "last_reward/share"

_COUNTS = (TOKENS_OF_TRIES, TOKENS_IN_SEQUENCE)
"""Metrics of an evaluation that are counts. All others are shares, except `RETURN`."""

_FORMER_NAMES = {
    "part/*": POINTS,
    "hack_suspects": FLAGGED,
    "time/judging": "time/scoring",
    "agent/*/strays": OUTSIDE_SUPPORT,
    "solved.turn_*": SOLVED_AFTER_TURN,
    "level.*": LEVEL,
    "part.*": VALUE,
    "tokens.of_*": TOKENS_OF_TRIES,
    "tokens.in_sequence": TOKENS_IN_SEQUENCE,
    "return.share": RETURN_SHARE,
    "final.share": LAST_REWARD_SHARE,
}
"""Maps names in folders of 0.2.0 and before to the current ones."""


def fill_pattern(pattern: str, name: object) -> str:
    """Return the pattern with its first `*` replaced by `name`, e.g. an agent, part or turn."""
    return pattern.replace("*", str(name), 1)


def reward_of_turn(number: int) -> str:
    """Return the name of the metric for the mean reward of turn `number`, counted from 1."""
    return fill_pattern(REWARD, f"turn_{number}")


def match_pattern(pattern: str, key: str) -> str | None:
    """Return the text that `*` matches in `key`, "" for a pattern without `*`, or None if nothing
    matches."""
    before, star, after = pattern.partition("*")
    if not star:
        return "" if key == pattern else None
    fits = len(key) > len(before) + len(after) and key.startswith(before) and key.endswith(after)
    return key[len(before) : len(key) - len(after)] if fits else None


@lru_cache(1024)
def current_name(name: str) -> str:
    """Return the current name of a metric that a run folder names."""
    for pattern, now in _FORMER_NAMES.items():
        if (text := match_pattern(pattern, name)) is not None:
            return fill_pattern(now, text)
    return name


def is_count(name: str) -> bool:
    """Return True if a metric of an evaluation is a count, e.g. of tokens."""
    return any(match_pattern(pattern, name) is not None for pattern in _COUNTS)


def best_of_metric(name: str, k: int) -> str:
    """Return the name of the metric for the best value of `name` among k tries."""
    return fill_pattern(fill_pattern(BEST_OF, name), k)


def base_metric(name: str) -> str:
    """Return `name` without `@k` if it is a best-of-k metric, otherwise "". `pass@k` does not count
    as one."""
    return name.rpartition("@")[0] if match_pattern(PASS_AT, name) is None else ""
