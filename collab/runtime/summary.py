"""Summarizes a run in numbers."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from itertools import chain
from operator import attrgetter, itemgetter
from pathlib import Path
from typing import Any

from collab.errors import CollabError
from collab.records import Episode, Usage
from collab.records.episode import solved_flags
from collab.runtime.events import (
    EpisodeFinished,
    EpisodeStarted,
    Event,
    RunFinished,
    RunStarted,
    RunStatus,
)
from collab.stats import group_by, mean
from collab.wording import counted, escape_controls

MAX_TRUNCATED_SHARE, MIN_RESPONSES = 0.25, 4
"""Warn from this share of truncated responses on, once an agent has given MIN_RESPONSES."""


def summarize(episodes: Sequence[Episode], seconds: float) -> dict[str, Any]:
    """Return a run's counts, mean reward and mean return, and each agent's tokens and cost.

    The reward is that of the last turn, and the return the sum over all turns. Both have their
    largest possible value in the result. `solvable` counts the episodes whose reward defines
    `solved`.
    """
    scored = [episode for episode in episodes if episode.failure is None]
    rewards = [episode.reward for episode in scored if episode.reward is not None]
    returns = [e.joint_return for e in scored if e.joint_return is not None]
    new_tokens = sum(agent["new_tokens"] for agent in usage_by_agent(episodes).values())
    warnings = (_warn_truncated, warn_failed_feedback, warn_uncounted)
    return {
        "episodes": len(episodes),
        "failed": len(episodes) - len(scored),
        "failures": dict(Counter(e.failure.type for e in episodes if e.failure)),
        "solvable": len(solved_flags(scored)),
        "solved": sum(episode.solved for episode in scored),
        "mean_reward": mean(rewards) if rewards else None,
        "maximum": max((e.score.maximum for e in scored if e.score), default=None),
        "mean_return": mean(returns) if returns else None,
        "largest_return": max((e.largest_return or 0.0 for e in scored if e.score), default=None),
        "flagged": sum(bool(e.score and e.score.flags) for e in scored),
        "new_tokens": new_tokens,
        "seconds": round(seconds, 3),
        "tokens_per_second": round(new_tokens / seconds, 1) if seconds else 0.0,
        "agents": usage_by_agent(episodes),
        "warnings": [*chain.from_iterable(warn(episodes) for warn in warnings)],
    }


def _warn_truncated(episodes: Sequence[Episode]) -> Iterator[str]:
    decisions = (d for episode in episodes for d in episode.decisions())
    for agent, group in group_by(decisions, attrgetter("agent")).items():
        share = mean([decision.action.is_truncated for decision in group])
        if len(group) >= MIN_RESPONSES and share >= MAX_TRUNCATED_SHARE:
            yield truncation_warning(agent, share)


def truncation_warning(agent: str, share: float) -> str:
    """Return the warning about an agent's share of truncated responses."""
    return (
        f"{share:.0%} of the responses of {agent} are truncated at their limit; raise its"
        " max_new_tokens"
    )


def warn_failed_feedback(episodes: Sequence[Episode]) -> Iterator[str]:
    """Yield a warning, with the first reason, if feedback sources failed in a turn."""
    turns = [t for episode in episodes for t in episode.turns if t.feedback or t.failures]
    lost = [turn.failures[0] for turn in turns if turn.failures]
    if lost:
        share = f"{len(lost)} of {counted(len(turns), 'turn')}"
        yield f"feedback failed in {share}: {lost[0].message}"


def uncounted_models(episodes: Iterable[Episode]) -> list[str]:
    """Return the model of each response that has no token count."""
    return [d.action.model for e in episodes for d in e.decisions() if d.action.is_uncounted]


def warn_uncounted(episodes: Iterable[Episode]) -> Iterator[str]:
    """Yield a warning if responses have no token count."""
    if models := uncounted_models(episodes):
        name, number = ", ".join(sorted({*models})), counted(len(models), "response")
        yield f"{name} reported no token count for {number}; sums and `--budget` leave them out"


def usage_by_agent(episodes: Sequence[Episode]) -> dict[str, dict[str, Any]]:
    """Return tokens and cost by agent, and by feedback source that asks a model."""
    named = group_by(chain.from_iterable(map(_usages, episodes)), itemgetter(0))
    return {name: _usage_totals([usage for _, usage in pairs]) for name, pairs in named.items()}


def usage_of(episode: Episode) -> Usage:
    """Return the usage of all agents in all turns, including feedback that asks a model."""
    return sum((usage for _, usage in _usages(episode)), Usage())


def _usages(episode: Episode) -> Iterator[tuple[str, Usage]]:
    for turn in episode.turns:
        yield from ((decision.agent, decision.action.usage) for decision in turn.decisions)
        for item in chain.from_iterable(turn.feedback.values()):
            if item.usage is not None:
                yield f"{item.source} (feedback)", item.usage


def _usage_totals(usages: Sequence[Usage]) -> dict[str, Any]:
    total = sum(usages, Usage())
    return {
        "responses": len(usages),
        "prompt_tokens": total.prompt_tokens,
        "new_tokens": total.new_tokens,
        "cost": total.cost,
    }


@dataclass
class RunProgress:
    """A run, as far as its events have come."""

    run: str = ""
    episodes: list[Episode] = field(default_factory=list)
    status: RunStatus = "interrupted"
    since: float | None = None
    """Time at which the first episode started."""
    summary: dict[str, Any] = field(default_factory=dict)
    """The run's numbers, once it has ended."""

    def see(self, event: Event) -> None:
        """Record an event at the present time."""
        match event:
            case RunStarted():
                self.run = event.run
            case EpisodeStarted():
                self.since = self.since or time.perf_counter()
            case EpisodeFinished():
                self.episodes.append(event.episode)
            case RunFinished():
                self.summary = event.summary

    def finished(self) -> RunFinished:
        """Return the run's last event. The first call ends the run."""
        seconds = time.perf_counter() - self.since if self.since else 0.0
        self.summary = self.summary or summarize(self.episodes, seconds)
        return RunFinished(run=self.run, status=self.status, summary=self.summary)


_MAX_ROWS = 20
_TABLE_HEAD = "<tr><th>episode</th><th>return</th><th>joint answer</th></tr>"


@dataclass(frozen=True, repr=False)
class Rollout:
    """The episodes of a run, ordered by problem, then sample."""

    episodes: tuple[Episode, ...]
    summary: dict[str, Any]
    folder: Path | None = None

    @property
    def episode(self) -> Episode:
        """The only episode.

        Raises:
            ValueError: the number of episodes is not 1.
        """
        if len(self.episodes) != 1:
            raise ValueError(f"the rollout has {len(self.episodes)} episodes, not 1")
        return self.episodes[0]

    @cached_property
    def groups(self) -> dict[str, tuple[Episode, ...]]:
        """Map each problem address to its episodes."""
        groups = group_by(self.episodes, attrgetter("task"))
        return {task: tuple(group) for task, group in groups.items()}

    @property
    def answer(self) -> str:
        """The joint answer of the only episode.

        Raises:
            ValueError: the number of episodes is not 1.
            CollabError: the episode failed.
        """
        if failure := self.episode.failure:
            raise CollabError(f"the episode failed: {failure.type}: {failure.message}")
        return self.episode.answer

    def __repr__(self) -> str:
        failures = [episode.failure for episode in self.episodes if episode.failure]
        failed = f"{len(failures)} failed"
        if failures:
            failed += f" (first: {failures[0].type:.80}: {failures[0].message:.300})"
        parts = [counted(len(self.episodes), "episode"), *self._solved_parts(), failed]
        mean, largest = self.summary.get("mean_return"), self.summary.get("largest_return")
        if mean is not None and largest is not None:
            parts.append(f"mean return {mean:.2f} of {largest:.2f}")
        return escape_controls(f"<Rollout: {', '.join(parts)}>")

    def _solved_parts(self) -> list[str]:
        finished = [episode for episode in self.episodes if not episode.failure]
        if finished and not any(episode.score for episode in finished):
            return ["not scored"]
        known = solved_flags(finished)
        return [f"{sum(known)} solved"] if known or not finished else []

    def _repr_html_(self) -> str:
        """Return a table of the first episodes, for notebooks."""
        shown = "".join(_row(episode) for episode in self.episodes[:_MAX_ROWS])
        return f"<p>{escape(repr(self)[1:-1])}</p><table>{_TABLE_HEAD}{shown}</table>"


def _row(episode: Episode) -> str:
    worth = "-" if episode.joint_return is None else f"{episode.joint_return:.2f}"
    cells = (episode.id, worth, episode.failure.type if episode.failure else episode.answer)
    shown = (f"<td><pre>{escape(str(cell)[:500])}</pre></td>" for cell in cells)
    return escape_controls(f"<tr>{''.join(shown)}</tr>")
