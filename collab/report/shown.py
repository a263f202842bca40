"""Which episodes a report holds: those of training, and of its first and last evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from collab.records import Episode
from collab.report.runs import Run
from collab.trainers.training.events import Mode

Phase = Literal["training", "held out before", "held out after"]


@dataclass(frozen=True)
class Shown:
    run: int
    """The number of its run."""
    episode: Episode
    step: int | None = None
    """The step of training that it was played for, or, held out, the last one before it."""
    phase: Phase | None = None
    """None without training."""
    mode: Mode | None = None
    """How a held-out episode was sampled."""


def choose_episodes(runs: Sequence[Run], most: int) -> tuple[list[Shown], int]:
    """As many of each run's episodes as its share of all allows; and how many there are."""
    kinds = [
        kind
        for number, run in enumerate(runs)
        for kind in (_played(number, run), _held_out(number, run))
    ]
    total = sum(map(len, kinds))
    shown = []
    for episodes in kinds:
        share = most if total <= most else max(2, most * len(episodes) // total)
        shown += spread_evenly(episodes, share)
    return shown, total


def _played(number: int, run: Run) -> list[Shown]:
    phase: Phase | None = "training" if run.is_training else None
    return [Shown(number, episode, run.step_of(episode), phase) for episode in run.episodes]


def _held_out(number: int, run: Run) -> list[Shown]:
    """Ordered by problem, so that a problem's episodes are chosen together."""
    steps = [evaluation.step for evaluation in run.evaluations]
    phases: dict[int, Phase] = {}
    if steps:
        phases = {steps[-1]: "held out after", steps[0]: "held out before"}
    found = [
        Shown(number, played.episode, played.step, phases[played.step], played.mode)
        for played in run.held_out
        if played.step in phases
    ]
    return sorted(found, key=_place)


def _place(shown: Shown) -> tuple[int, int, bool, int]:
    episode = shown.episode
    return episode.group, shown.step or 0, shown.mode == "greedy", episode.sample


def spread_evenly(episodes: Sequence[Shown], most: int) -> list[Shown]:
    """At most so many: whole groups, evenly over the run, the first and the last among them."""
    groups: dict[int, list[Shown]] = {}
    for shown in episodes:
        groups.setdefault(shown.episode.group, []).append(shown)
    if len(episodes) <= most:
        return list(episodes)
    keys = list(groups)
    wanted = max(2, most * len(keys) // len(episodes))
    chosen = sorted({round(n * (len(keys) - 1) / (wanted - 1)) for n in range(wanted)})
    return [shown for place in chosen for shown in groups[keys[place]]][:most]
