"""Alarms: warnings in plain words of trouble that a run's metrics show."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import fmean

Row = Mapping[str, float]
"""The metrics of one step, by name."""
Alarm = Callable[[Sequence[Row]], Iterator[tuple[str, str]]]
"""From the metrics of all steps so far to the name and the words of each warning."""

WINDOW = 10
"""The steps over which trouble must last before its alarm is raised."""


class Alarms:
    """Reads the metrics of step after step, and raises each alarm once while its trouble lasts."""

    def __init__(self) -> None:
        self._rows: list[Row] = []
        self._raised: set[str] = set()

    def read(self, row: Row) -> tuple[str, ...]:
        """The alarms that a step's metrics raise, in plain words."""
        self._rows.append(row)
        found = dict(alarms_in(self._rows))
        new = [text for key, text in found.items() if key not in self._raised]
        self._raised = set(found)
        return tuple(new)


def alarms_in(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    """The name and the words of each alarm that the last steps give reason for."""
    if len(rows) >= WINDOW:
        for alarm in ALARMS:
            yield from alarm(rows)


def _recent(rows: Sequence[Row], key: str) -> float | None:
    """The mean of a metric over the last steps; None where one of them lacks it."""
    values = [row[key] for row in rows[-WINDOW:] if key in row]
    return fmean(values) if len(values) == WINDOW else None


def _first(rows: Sequence[Row], key: str) -> float | None:
    """The mean of a metric over the first steps; None where one of them lacks it."""
    values = [row[key] for row in rows[:WINDOW] if key in row]
    return fmean(values) if len(values) == WINDOW else None


def _agents(rows: Sequence[Row]) -> list[str]:
    keys = (key.split("/") for key in rows[-1] if key.startswith("agent/"))
    return list(dict.fromkeys(key[1] for key in keys))


def dead_groups(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    dead = _recent(rows, "groups/dead")
    if dead is not None and dead > 0.8:
        yield (
            "dead_groups",
            f"in {dead:.0%} of the groups every return is equal, so nothing is learned from them:"
            " raise group_size or the temperature, or take tasks of another difficulty",
        )


def one_does_everything(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    empty = {a: _recent(rows, f"agent/{a}/empty") or 0.0 for a in _agents(rows)}
    idle = [agent for agent, share in empty.items() if share > 0.5]
    if idle and len(idle) < len(empty):
        names = ", ".join(idle)
        yield (
            "one_does_everything",
            f"most answers of {names} hold nothing that its parser can use, and the others do the"
            " work: look at its prompt and parser, or reward its part",
        )


def entropy_collapse(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    for agent in _agents(rows):
        key = f"agent/{agent}/entropy"
        first, now = _first(rows, key), _recent(rows, key)
        if first and now is not None and now < 0.1 * first:
            yield (
                key,
                f"the entropy of {agent} fell from {first:.2f} to {now:.2f} nats a token: it says"
                " the same whatever is asked; lower learning_rate, or set kl_coef",
            )


def truncated(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    for agent in _agents(rows):
        share = _recent(rows, f"agent/{agent}/truncated")
        length = _recent(rows, f"agent/{agent}/length")
        if share is not None and length is not None and share > 0.5 and length > 1:
            yield (
                f"truncated/{agent}",
                f"{share:.0%} of the responses of {agent} are cut off at their limit: raise its"
                " max_new_tokens, or ask for shorter answers",
            )


def masked(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    for agent in _agents(rows):
        share = _recent(rows, f"agent/{agent}/masked")
        if share is not None and share > 0.05:
            yield (
                f"masked/{agent}",
                f"nothing is learned from {share:.0%} of the tokens of {agent}, as the sampler and"
                " the trainer disagree about them: bring both to one dtype, publish every step, or"
                " widen importance_band or sequence_limit",
            )


def reward_without_tests(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    reward = _first(rows, "return/mean"), _recent(rows, "return/mean")
    tests = _first(rows, "tests"), _recent(rows, "tests")
    if None in reward or None in tests or len(rows) < 2 * WINDOW:
        return
    gain, spread = reward[1] - reward[0], fmean([row["return/std"] for row in rows[-WINDOW:]])  # type: ignore[operator]
    if gain > 0.5 * spread > 0 and tests[1] <= tests[0]:  # type: ignore[operator]
        yield (
            "reward_without_tests",
            f"the return rose by {gain:.2f} while the share of hidden tests passed did not"
            f" ({tests[0]:.0%} to {tests[1]:.0%}): the reward may be met without solving the task",
        )


def feedback_hurts(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    first, second = _recent(rows, "reward/turn_1"), _recent(rows, "reward/turn_2")
    if first is not None and second is not None and second < first:
        yield (
            "feedback_hurts",
            f"the second turn earns less than the first ({second:.2f} against {first:.2f}):"
            " answers are made worse by their revision; begin with one turn (curriculum)",
        )


def syntax_takes_all_down(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    syntax, best = _recent(rows, "part/syntax"), max(row.get("part/syntax", 0.0) for row in rows)
    if syntax is not None and best > 0 and syntax < 0.5 * best and len(rows) >= 2 * WINDOW:
        yield (
            "syntax",
            "most joint programs do not parse, although they did before: one agent's syntax error"
            " takes everybody's work down",
        )


def cannot_be_split(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    calls, solved = _recent(rows, "part/calls"), _recent(rows, "solved")
    if calls is not None and solved is not None and solved > 0.5 and calls < 0.1:
        yield (
            "cannot_be_split",
            "the tasks are solved without the helper being called: they may not be worth splitting",
        )


def no_influence(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    for agent in _agents(rows):
        influence = _recent(rows, f"credit/{agent}/influence")
        if influence is not None and influence < 0.01:
            yield (
                f"no_influence/{agent}",
                f"`{agent}` has no influence on the reward: whatever it answers, its teammates'"
                " answers decide; look at whether its answers are used, reward its own part"
                " (local_parts), or leave it out of the team",
            )


def one_decides(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    if any(True for _ in no_influence(rows)):
        return  # which says it better
    for agent in _agents(rows):
        own = _recent(rows, f"credit/{agent}/own")
        if own is not None and own > 0.9:
            yield (
                f"one_decides/{agent}",
                f"`{agent}` decides {own:.0%} of the reward by itself: the others ride along; give"
                " them tasks or parts of the reward that need them",
            )


def hacking(rows: Sequence[Row]) -> Iterator[tuple[str, str]]:
    suspects = _recent(rows, "hack_suspects")
    if suspects is not None and suspects > 0.05:
        yield (
            "hacking",
            f"{suspects:.0%} of the programs show signs of an attack on their sandbox: read their"
            " `score.flags` in episodes.jsonl",
        )


ALARMS: tuple[Alarm, ...] = (
    dead_groups,
    one_does_everything,
    entropy_collapse,
    truncated,
    masked,
    reward_without_tests,
    feedback_hurts,
    syntax_takes_all_down,
    cannot_be_split,
    no_influence,
    one_decides,
    hacking,
)
