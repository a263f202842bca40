"""Tasks by their rates: the success of the untrained team on each."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from collab.errors import RecordError, TrainingError
from collab.recipe import Recipe
from collab.recipe.documents import parse_json
from collab.recipe.trainer import FilterSpec
from collab.records import Episode, Problem
from collab.runs.atomic import write_atomically, writing
from collab.runs.layout import RATES
from collab.runtime import Event, Session
from collab.runtime.events import EpisodeFinished
from collab.seeds import seed_of
from collab.trainers.learner.policy import Policies, publish
from collab.trainers.training.data import measured, recorded_episodes
from collab.trainers.training.metrics import generated_tokens
from collab.trainers.training.rollouts import play_samples
from collab.wording import counted, option

Report = Callable[[str, int, int], None]

TOGETHER = 16
"""Tasks that are measured and saved together. An interruption loses at most these."""


class Rates:
    """The rates of a run's tasks, in `rates.json` of its folder. A task whose episodes all failed
    has None."""

    def __init__(self, folder: Path, spec: FilterSpec, problems: Sequence[Problem]) -> None:
        """Read the saved rates.

        Raises:
            RecordError: the rates cannot be read.
        """
        self._file, self._spec, self._problems = folder / RATES, spec, problems
        self.rates: dict[str, float | None] = {}
        self.tokens = 0
        """Tokens generated to measure."""
        if self._file.exists():
            self._read()

    def _read(self) -> None:
        try:
            data = parse_json(self._file.read_bytes())
            self.rates, self.tokens = dict(data["rates"]), int(data["tokens"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise RecordError(f"{self._file} cannot be read: {error}") from error

    async def kept(
        self, recipe: Recipe, policies: Policies, report: Report, *, begun: bool
    ) -> list[Problem]:
        """Return the problems whose rates are within the bounds, measuring those that are unknown.

        `begun` is True once training has begun: the team has then changed, and cannot be measured.

        Raises:
            TrainingError: no problem is left, or no reward says what is solved.
            RecordError: the given episodes cannot be read, or a rate is lost.
        """
        lacking = [p for p in self._problems if p.address not in self.rates]
        if lacking and begun:
            raise RecordError(
                f"{self._file} lacks the rate of {lacking[0].address}, and the untrained team is"
                f" no longer available to measure it; start again with another {option('out')}"
            )
        if lacking and self._spec.episodes is not None:
            self._recall(self._spec.episodes)
        elif lacking:
            await self._measure(recipe, policies, report)
        low, high = self._spec.low, self._spec.high
        known = {task: rate for task, rate in self.rates.items() if rate is not None}
        if kept := [p for p in self._problems if low <= known.get(p.address, -1.0) <= high]:
            return kept
        range_text = (
            f"they are {min(known.values()):.2f} to {max(known.values()):.2f}" if known else ""
        )
        raise TrainingError(
            "trainer.filter leaves nothing to train on: none of"
            f" {counted(len(self._problems), 'task')} has a rate from {low:g} to {high:g};"
            f" {range_text or 'all episodes failed'}. Set trainer.filter.low and high to recorded,"
            " trainer.filter.by to 'return', or use other tasks"
        )

    def _recall(self, name: str) -> None:
        """Compute the rates from recorded episodes.

        Raises:
            TrainingError: no episode belongs to a task.
        """
        recorded: set[str] = set()
        played: dict[str, list[Episode]] = {problem.address: [] for problem in self._problems}
        for episode in recorded_episodes(name, "trainer.filter.episodes"):
            recorded.add(episode.task)
            if episode.task in played:
                played[episode.task].append(episode)
        if not any(played.values()):
            raise TrainingError(
                f"trainer.filter leaves nothing to train on: {name} has no episode of"
                f" {_some([*played])}; its episodes are of {_some(sorted(recorded))}. Set"
                " trainer.filter.episodes to episodes of these tasks, or leave it out"
            )
        self._add(played)

    async def _measure(self, recipe: Recipe, policies: Policies, report: Report) -> None:
        """Play each problem without a rate `samples` times with the current team.

        The problems are divided into fixed parts, so a run that was stopped continues exactly.
        """
        problems, samples, done = self._problems, self._spec.samples, 0
        parts = [problems[n : n + TOGETHER] for n in range(0, len(problems), TOGETHER)]

        def watch(event: Event) -> None:
            nonlocal done
            if isinstance(event, EpisodeFinished):
                done += 1
                report("filter", done, len(problems) * samples)

        await publish(policies)
        async with Session(policies.acting(recipe), models=policies.models) as session:
            for part in parts:
                if all(problem.address in self.rates for problem in part):
                    done += len(part) * samples
                    continue
                seed = seed_of(recipe.seed, "filter")
                episodes = await play_samples(session, part, samples, seed, watch)
                self._add({p.address: [e for e in episodes if e.task == p.address] for p in part})

    def about(self, kept: Sequence[Problem]) -> dict[str, Any]:
        """Return the filter's entry in `run.json`."""
        return {
            "measured": len(self.rates),
            "tokens": self.tokens,
            "kept": [problem.address for problem in kept],
        }

    def _add(self, played: Mapping[str, Sequence[Episode]]) -> None:
        by = self._spec.by
        self.rates |= {
            t: measured(episodes, by, "trainer.filter") for t, episodes in played.items()
        }
        if self._spec.episodes is None:
            self.tokens += generated_tokens(list(played.values()))
        data = {"by": by, "tokens": self.tokens, "rates": self.rates}
        with writing(self._file):
            write_atomically(self._file, json.dumps(data, indent=1))


def _some(tasks: Sequence[str]) -> str:
    """Name some tasks, e.g. `game/0 and 7 more`."""
    return f"{tasks[0]} and {len(tasks) - 1} more" if len(tasks) > 1 else tasks[0]
