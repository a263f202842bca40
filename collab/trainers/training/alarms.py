"""Alarms: warnings about problems that the metrics of a run show."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import Any

from collab.recipe.reward import RewardSpec
from collab.rewards.declared import WatchedMetric, watched_metrics
from collab.runs import metric_names as names
from collab.runtime.summary import truncation_warning

StepMetrics = Mapping[str, float]
"""Metrics of one step, by name."""
FindAlarms = Callable[[Sequence[StepMetrics]], Iterator[tuple[str, str]]]
"""Yields the name and text of each warning, given the metrics of all steps so far."""

WINDOW = 10
"""Number of steps that a problem must last to raise its alarm."""
NO_INFLUENCE_SHARE, DECIDING_SHARE = 0.01, 0.9
"""Thresholds for shares of the reward's variance."""


class Alarms:
    """Reads the metrics step by step, and raises each alarm once while its problem lasts."""

    def __init__(self, reward: RewardSpec | None = None, *, turns_compare: bool = True) -> None:
        """Watch the usual metrics, and those that `reward` declares.

        `turns_compare` says whether mean rewards of turns can be compared: `can_compare_turns`.
        """
        self._alarms: list[FindAlarms] = [
            *ALARMS,
            *(_declared_alarm(item) for item in watched_metrics(reward)),
        ]
        if turns_compare:
            self._alarms.append(feedback_hurts)
        self._rows: list[StepMetrics] = []
        self._raised: set[str] = set()

    def read(self, row: StepMetrics) -> tuple[str, ...]:
        """Add a step's metrics, and return the messages of alarms that were not already raised."""
        self._rows.append(row)
        alarms: dict[str, str] = {}
        if len(self._rows) >= WINDOW:
            alarms = dict(pair for alarm in self._alarms for pair in alarm(self._rows))
        new = [text for key, text in alarms.items() if key not in self._raised]
        self._raised = set(alarms)
        return tuple(new)


def can_compare_turns(environment: Any, when_solved: Any, turn_structure: Any) -> bool:
    """Return True if the mean reward of every turn is one of the same kind of episodes.

    Each turn of a game pays for other things. With `when_solved: stop`, later turns have the
    unsolved episodes only. In a `greedy` tree, an earlier turn has the best of its joint actions.
    """
    return environment is None and when_solved != "stop" and turn_structure != "greedy"


def _recent_mean(rows: Sequence[StepMetrics], key: str) -> float | None:
    """Return the mean of a metric over the last steps, or None if a step lacks it."""
    values = [row[key] for row in rows[-WINDOW:] if key in row]
    return fmean(values) if len(values) == WINDOW else None


def _first_mean(rows: Sequence[StepMetrics], key: str) -> float | None:
    """Return the mean of a metric over the first steps, or None if a step lacks it."""
    return _recent_mean(rows[:WINDOW], key)


def _agent_names(rows: Sequence[StepMetrics]) -> list[str]:
    matches = (names.match_pattern(names.AGENT, key) for key in rows[-1])
    return list(dict.fromkeys(name.partition("/")[0] for name in matches if name))


def one_does_everything(rows: Sequence[StepMetrics]) -> Iterator[tuple[str, str]]:
    """Yield a warning if the parser finds nothing in most answers of some agents, not of all."""
    empty = {
        a: _recent_mean(rows, names.fill_pattern(names.EMPTY, a)) or 0.0 for a in _agent_names(rows)
    }
    idle = [agent for agent, share in empty.items() if share > 0.5]
    if idle and len(idle) < len(empty):
        who = ", ".join(idle)
        yield (
            "one_does_everything",
            f"the parser found nothing in most answers of {who}, so teammates do all the work;"
            " check the prompt and the parser, or add a reward for this agent's part",
        )


def entropy_collapse(rows: Sequence[StepMetrics]) -> Iterator[tuple[str, str]]:
    """Yield a warning if an agent's entropy fell below a tenth of its first values."""
    for agent in _agent_names(rows):
        key = names.fill_pattern(names.ENTROPY, agent)
        first, now = _first_mean(rows, key), _recent_mean(rows, key)
        if first and now is not None and now < 0.1 * first:
            yield (
                key,
                f"entropy collapse: the entropy of {agent} fell from {first:.2f} to {now:.2f} nats"
                " per token, so its answers hardly vary; lower learning_rate, or set kl_coef",
            )


def many_truncated(rows: Sequence[StepMetrics]) -> Iterator[tuple[str, str]]:
    """Yield a warning if more than half of an agent's responses are truncated."""
    for agent in _agent_names(rows):
        share = _recent_mean(rows, names.fill_pattern(names.TRUNCATED, agent))
        length = _recent_mean(rows, names.fill_pattern(names.LENGTH, agent))
        if share is not None and length is not None and share > 0.5 and length > 1:
            text = truncation_warning(agent, share)
            yield f"truncated/{agent}", f"{text}, or ask for shorter answers"


def servers_overloaded(rows: Sequence[StepMetrics]) -> Iterator[tuple[str, str]]:
    """Yield a warning if a vLLM server preempts responses, or if most of its requests wait."""
    keys = [names.match_pattern(names.SERVER, key) for key in rows[-1]]
    for place in dict.fromkeys(key.rpartition("/")[0] for key in keys if key):
        preempted, waiting, in_flight = (
            _recent_mean(rows, names.fill_pattern(names.SERVER, f"{place}/{what}"))
            for what in ("preempted", "waiting", "in_flight")
        )
        if preempted:
            yield (
                f"preempted/{place}",
                f"vLLM server {place} preempts {preempted:.0f} responses per step because its cache"
                " is full; give it more memory, or lower tasks_per_step, group_size or"
                " max_new_tokens",
            )
        elif waiting and in_flight and waiting > 0.5 * in_flight:
            yield (
                f"waiting/{place}",
                f"{waiting:.0f} of up to {in_flight:.0f} requests wait at vLLM server {place}; add"
                " servers, or give this one more memory, to shorten the steps",
            )


def feedback_hurts(rows: Sequence[StepMetrics]) -> Iterator[tuple[str, str]]:
    """Yield a warning if the second turn earns less than the first."""
    first, second = (_recent_mean(rows, names.reward_of_turn(n)) for n in (1, 2))
    if first is not None and second is not None and second < first:
        yield (
            "feedback_hurts",
            f"the second turn earns less than the first ({second:.2f} against {first:.2f}), so"
            " revision makes answers worse; start with one turn (trainer.curriculum)",
        )


def unequal_influence(rows: Sequence[StepMetrics]) -> Iterator[tuple[str, str]]:
    """Yield warnings of agents without influence on the reward, or of one that decides it alone."""
    shares = [
        {
            agent: share
            for agent in _agent_names(rows)
            if (share := _recent_mean(rows, names.fill_pattern(metric, agent))) is not None
        }
        for metric in (names.CREDIT_OWN, names.CREDIT_INFLUENCE)
    ]
    yield from credit_warnings(*shares)


def credit_warnings(
    alone: Mapping[str, float], influence: Mapping[str, float]
) -> Iterator[tuple[str, str]]:
    """Yield warnings of agents without influence or, if there are none, of an agent that decides
    the reward alone.

    Args:
        alone: by agent: the share of the reward's variance that it explains alone.
        influence: by agent: the share that it explains alone or together with others.
    """
    idle = {agent: share for agent, share in influence.items() if share < NO_INFLUENCE_SHARE}
    for agent, share in idle.items():
        yield (
            f"no_influence/{agent}",
            f"`{agent}` has no influence on the reward ({share:.1%} of its variance); check that"
            " the joint answer uses its answers, reward its own part (trainer.local_parts), or"
            " remove it from the team",
        )
    for agent, share in alone.items():
        if share > DECIDING_SHARE and not idle:
            yield (
                f"one_decides/{agent}",
                f"`{agent}` alone decides {share:.0%} of the reward's variance; choose tasks that"
                " need its teammates, or reward their parts",
            )


def _declared_alarm(item: WatchedMetric) -> FindAlarms:
    def alarm(rows: Sequence[StepMetrics]) -> Iterator[tuple[str, str]]:
        now, solved = _recent_mean(rows, item.metric), _recent_mean(rows, names.SOLVED)
        least = item.alarm.while_solved
        if now is None or (least is not None and (solved is None or solved <= least)):
            return
        first = _first_mean(rows, item.metric)
        now, first = now / item.scale, (now if first is None else first) / item.scale
        if _out_of_bounds(item, rows, first, now):
            text = item.alarm.says.format(first=first, now=now, gain=_significant_gain(rows) or 0.0)
            yield f"{item.metric}: {item.alarm.says}", text

    return alarm


def _out_of_bounds(
    item: WatchedMetric, rows: Sequence[StepMetrics], first: float, now: float
) -> bool:
    alarm, late = item.alarm, len(rows) >= 2 * WINDOW
    if alarm.above is not None:
        return now > alarm.above
    if alarm.below is not None:
        return now < alarm.below
    if alarm.below_best is not None:
        best = max(row[item.metric] / item.scale for row in rows if item.metric in row)
        return late and best > 0 and now < alarm.below_best * best
    is_measured = _first_mean(rows, item.metric) is not None
    return late and is_measured and bool(_significant_gain(rows)) and now <= first


def _significant_gain(rows: Sequence[StepMetrics]) -> float | None:
    """Return the gain in return if it exceeds half of the return's spread, otherwise None."""
    first, now = _first_mean(rows, names.RETURN_MEAN), _recent_mean(rows, names.RETURN_MEAN)
    spread = _recent_mean(rows, names.RETURN_STD)
    if first is None or now is None or not spread:
        return None
    return now - first if now - first > 0.5 * spread else None


def _threshold_alarm(metric: str, limit: float, text: str) -> FindAlarms:
    """Make an alarm of a metric above a limit. The text takes `{share}` and `{agent}`."""

    def alarm(rows: Sequence[StepMetrics]) -> Iterator[tuple[str, str]]:
        for agent in _agent_names(rows) if "*" in metric else [""]:
            share = _recent_mean(rows, names.fill_pattern(metric, agent) if agent else metric)
            if share is not None and share > limit:
                yield f"{metric} {agent}", text.format(share=share, agent=agent)

    return alarm


ALARMS: tuple[FindAlarms, ...] = (
    _threshold_alarm(
        names.DEAD_GROUPS,
        0.8,
        "{share:.0%} of the groups are dead: all their returns are equal, so they give no gradient;"
        " raise group_size or the temperature, or choose easier or harder tasks",
    ),
    one_does_everything,
    entropy_collapse,
    many_truncated,
    _threshold_alarm(
        names.MASKED,
        0.05,
        "{share:.0%} of the tokens of {agent} are masked because sampler and trainer give them"
        " different probabilities; use one dtype for both, set max_staleness to 0, or"
        " widen importance_band or sequence_limit",
    ),
    servers_overloaded,
    unequal_influence,
    _threshold_alarm(
        names.FLAGGED,
        0.05,
        "{share:.0%} of the answers reach a limit of the sandbox or attack it; read `score.flags`"
        " in episodes.jsonl",
    ),
)
