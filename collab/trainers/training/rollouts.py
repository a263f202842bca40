"""Playing the groups of a step: chains of turns, or trees of joint actions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from collab.records import Episode, Problem
from collab.runtime import Event, Session
from collab.runtime.episode import Start
from collab.runtime.events import EpisodeFinished
from collab.trainers.credit.group import Shape

Watch = Callable[[Event], None]


@dataclass
class Played:
    """The episodes of one task, as far as they came."""

    problem: Problem
    episodes: list[Episode] = field(default_factory=list)
    """Ordered by sample, failed ones included."""

    @property
    def whole(self) -> list[Episode]:
        """Those that can be learned from: without failure, every turn scored."""
        return [e for e in self.episodes if e.failure is None and e.joint_return is not None]

    @property
    def to_credit(self) -> tuple[Problem, list[Episode]]:
        """The task, and those of its episodes that get credit."""
        return self.problem, self.whole


Whole = Callable[[Played], None]
"""Told of a group that was played to its end."""


async def play_groups(
    session: Session,
    problems: Sequence[Problem],
    shape: Shape,
    seed: int,
    watch: Watch,
    *,
    whole: Whole | None = None,
) -> list[Played]:
    """One group for each problem; `watch` sees the runtime's events as they happen.

    `whole` is told of each group when its last episode has ended, others may still be played then.
    """
    groups = [Played(problem) for problem in problems]
    starts = [
        Start(
            problem,
            group=number,
            sample=sample * shape.leaves(0),
            until=1 if shape.structure == "tree" else None,
        )
        for number, problem in enumerate(problems)
        for sample in range(shape.group_size)
    ]
    left = Counter(start.group for start in starts)
    following: list[Start] = []

    def see(event: Event) -> None:
        watch(event)
        if not isinstance(event, EpisodeFinished):
            return
        group = groups[event.episode.group]
        children = _children(event.episode, group.problem, shape)
        following.extend(children)
        if not children:
            group.episodes.append(event.episode)
        left[event.episode.group] += len(children) - 1
        if not left[event.episode.group]:
            group.episodes.sort(key=lambda episode: episode.sample)
            if whole is not None:
                whole(group)

    while starts:
        await _play(session, starts, seed, see)
        starts = sorted(following, key=lambda start: (start.group, start.sample))
        following.clear()
    return groups


async def play_samples(
    session: Session, problems: Sequence[Problem], samples: int, seed: int, watch: Watch
) -> list[Episode]:
    """So many episodes of each problem, ordered by problem, then sample."""
    starts = [Start(p, group=n, sample=s) for n, p in enumerate(problems) for s in range(samples)]
    return await _play(session, starts, seed, watch)


async def _play(
    session: Session, starts: Sequence[Start], seed: int, watch: Watch
) -> list[Episode]:
    episodes = []
    async with aclosing(session.play(starts, seed=seed)) as events:
        async for event in events:
            watch(event)
            if isinstance(event, EpisodeFinished):
                episodes.append(event.episode)
    return sorted(episodes, key=lambda episode: (episode.group, episode.sample))


def _children(episode: Episode, problem: Problem, shape: Shape) -> list[Start]:
    """How a tree goes on from an episode; nothing where it has ended."""
    turn = len(episode.turns)
    ended = episode.solved and episode.when_solved != "continue"
    if shape.structure == "chains" or episode.failure or ended or turn == shape.n_turns:
        return []
    return [
        Start(
            problem,
            group=episode.group,
            sample=episode.sample + child * shape.leaves(turn),
            turns=episode.turns,
            until=turn + 1,
        )
        for child in range(shape.group_size)
    ]
