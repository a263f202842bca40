"""Runs the groups of a step: chains of turns, or trees of joint actions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import aclosing

from collab.records import Episode, Problem
from collab.runtime import Event, Session
from collab.runtime.episode import Start
from collab.runtime.events import EpisodeFinished
from collab.trainers.credit.shape import Shape

Watch = Callable[[Event], None]

OnGroupEnd = Callable[[Problem, Sequence[Episode]], None]
"""Called with a task and its episodes that can be learned from."""


def complete_episodes(episodes: Sequence[Episode]) -> list[Episode]:
    """Return the episodes to learn from: those without failure, and with every turn scored.

    Older runs also recorded `further` episodes, which are omitted.
    """
    return [e for e in episodes if e.joint_return is not None and not e.further]


def finished_episodes(episodes: Sequence[Episode]) -> list[Episode]:
    """Return the complete episodes that ran to their end. Only their returns measure the team.

    In a `greedy` tree, other episodes were abandoned for a better one.
    """
    return [e for e in complete_episodes(episodes) if len(e.turns) == e.horizon or _is_solved(e)]


async def run_groups(
    session: Session,
    problems: Sequence[Problem],
    shape: Shape,
    seed: int,
    watch: Watch,
    *,
    on_group_end: OnGroupEnd | None,
) -> list[list[Episode]]:
    """Run a group of episodes for each problem, and return the groups.

    The groups are in the order of `problems`, each ordered by sample, with its failed episodes.
    `watch` sees the runtime's events as they happen. `on_group_end` is called for each group when
    its last episode has ended, while others may still be running.
    """
    groups: list[list[Episode]] = [[] for _ in problems]
    until = 1 if shape.siblings_share_state else None
    starts = [
        Start(problem, group=number, sample=shape.child(0, 0, sibling), until=until)
        for number, problem in enumerate(problems)
        for sibling in range(shape.group_size)
    ]
    n_running = Counter(start.group for start in starts)
    siblings: dict[int, list[Episode]] = {number: [] for number in range(len(groups))}
    following: list[Start] = []

    def handle(event: Event) -> None:
        watch(event)
        if not isinstance(event, EpisodeFinished):
            return
        number = event.episode.group
        siblings[number].append(event.episode)
        n_running[number] -= 1
        if n_running[number]:
            return
        group, problem = groups[number], problems[number]
        parents = _continued_episodes(siblings[number], shape)
        starts = [s for parent in parents for s in _child_starts(parent, problem, shape)]
        following.extend(starts)
        continued = {parent.sample for parent in parents}
        group.extend(e for e in siblings[number] if e.sample not in continued)
        n_running[number] = len(starts)
        siblings[number] = []
        if not starts:
            group.sort(key=lambda episode: episode.sample)
            if on_group_end is not None:
                on_group_end(problem, complete_episodes(group))

    while starts:
        async with aclosing(session.stream(starts, seed=seed)) as events:
            async for event in events:
                handle(event)
        starts = sorted(following, key=lambda start: (start.group, start.sample))
        following.clear()
    return groups


def _continued_episodes(episodes: Sequence[Episode], shape: Shape) -> list[Episode]:
    """Return the episodes, all at the same turn, from which a tree continues."""
    if shape.structure == "greedy":
        scored = [e for e in episodes if e.reward is not None]
        episodes = sorted(scored, key=lambda e: (-(e.reward or 0.0), e.sample))[:1]
    return [
        e
        for e in episodes
        if shape.siblings_share_state
        and len(e.turns) < min(shape.n_turns, e.horizon or shape.n_turns)
        and not (e.failure or _is_solved(e))
    ]


def _is_solved(episode: Episode) -> bool:
    """Return True if the episode ended because its task was solved."""
    return episode.solved and episode.when_solved != "continue"


def _child_starts(episode: Episode, problem: Problem, shape: Shape) -> list[Start]:
    """Return the starts of the episodes that continue an episode of a tree."""
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
