"""Playing the groups of a step: chains of turns, trees of joint actions, or their best paths."""

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
    def ended(self) -> list[Episode]:
        """The whole ones that were played to their end: those whose return is that of a team.

        In a `greedy` tree the others were left for a better one.
        """
        return [e for e in self.whole if len(e.turns) == e.horizon or _is_solved(e)]

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
    until = 1 if shape.siblings_share_state else None
    starts = [
        Start(problem, group=number, sample=shape.first(sibling), until=until)
        for number, problem in enumerate(problems)
        for sibling in range(shape.group_size)
    ]
    left = Counter(start.group for start in starts)
    ended: dict[int, list[Episode]] = {number: [] for number in range(len(groups))}
    following: list[Start] = []

    def see(event: Event) -> None:
        watch(event)
        if not isinstance(event, EpisodeFinished):
            return
        number = event.episode.group
        ended[number].append(event.episode)
        left[number] -= 1
        if left[number]:
            return
        group, parents = groups[number], _go_on(ended[number], shape)
        following.extend(s for parent in parents for s in _children(parent, group.problem, shape))
        gone_on = {parent.sample for parent in parents}
        group.episodes.extend(e for e in ended[number] if e.sample not in gone_on)
        left[number] = len(parents) * shape.group_size
        ended[number] = []
        if not parents:
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


def _go_on(episodes: Sequence[Episode], shape: Shape) -> list[Episode]:
    """Those of some episodes, of one turn, that a tree goes on from."""
    if shape.structure == "greedy":
        scored = [e for e in episodes if e.failure is None and e.reward is not None]
        episodes = sorted(scored, key=lambda e: (-(e.reward or 0.0), e.sample))[:1]
    return [episode for episode in episodes if _may_go_on(episode, shape)]


def _may_go_on(episode: Episode, shape: Shape) -> bool:
    left = len(episode.turns) < shape.n_turns
    return shape.siblings_share_state and left and not (episode.failure or _is_solved(episode))


def _is_solved(episode: Episode) -> bool:
    """Whether the episode ended as its task was solved."""
    return episode.solved and episode.when_solved != "continue"


def _children(episode: Episode, problem: Problem, shape: Shape) -> list[Start]:
    """How a tree goes on from an episode."""
    turn = len(episode.turns)
    return [
        Start(
            problem,
            group=episode.group,
            sample=shape.child(episode.sample, turn, sibling),
            turns=episode.turns,
            until=turn + 1,
        )
        for sibling in range(shape.group_size)
    ]
