"""The public interface of the runtime: a team that can be run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from collab.errors import RecipeError
from collab.models.open import ModelPool
from collab.models.store import StoreProgress
from collab.recipe import Recipe, allow, load_recipe, read_recipe
from collab.recipe.in_python import (
    RUN_SECTIONS,
    Agent,
    Overrides,
    Problems,
    Rewards,
    Task,
    TeamLike,
    recipe_of_parts,
    rows_in,
    split_keywords,
)
from collab.recipe.team import TeamSpec
from collab.records import Problem
from collab.records.run import sort_episodes
from collab.runtime.episode import starts_of
from collab.runtime.events import EpisodeFinished, Event
from collab.runtime.folder import RunFolder
from collab.runtime.notes import make_run_started, start_entries, tool_forms
from collab.runtime.problems import find_problems, flatten_addresses
from collab.runtime.session import Session
from collab.runtime.summary import Rollout, RunProgress
from collab.runtime.waiting import OpenModels
from collab.tasks import split_address
from collab.telemetry import operation
from collab.trust import Consent

ComponentLike = str | Mapping[str, Any] | Callable[..., Any]
"""A part of a team: its name, its data as in YAML, or a function."""


class Team:
    """A team ready to work on problems.

    `run` runs the team on problems, `arun` is its async version, and `stream` yields events as they
    happen. Each call opens the models and closes them afterwards. In a `with` or `async with`
    block, the team keeps them open until the end of the block.
    """

    def __init__(
        self,
        agents: Mapping[str, Agent | Mapping[str, Any]] | Recipe,
        *,
        name: str | None = None,
        protocol: ComponentLike | None = None,
        join: ComponentLike | None = None,
        turns: int | None = None,
        feedback: ComponentLike | Sequence[ComponentLike] | None = None,
        model: ComponentLike | None = None,
        sampling: Mapping[str, Any] | None = None,
        task: str | Mapping[str, Any] | None = None,
        rewards: Rewards | None = None,
        hidden: Sequence[str] | None = None,
        trust: Consent = False,
        **more: Any,
    ) -> None:
        """Make a team of agents. Wherever YAML takes a function, you can pass the function itself.

        Args:
            agents: agents by name, e.g. `{"solver": Agent(prompt="{{ task.prompt }}")}`, or a whole
                recipe.
            name: the team's name.
            protocol: who acts when and sees whose answers, by default `parallel`.
            join: makes the joint answer, by default `text`.
            turns: number of turns, with `feedback` in between.
            model: the model of agents without their own, e.g. `"echo"`.
            sampling: sampling settings of all agents, e.g. `{"max_new_tokens": 64}`.
            task: the suite that `run` uses without an address.
            rewards: replace the reward of the problems passed to `run`.
            hidden: the fields of these problems that no agent sees; they replace the suite's hidden
                fields.
            trust: whether third-party suites may run code, or a function that asks; used when an
                address names one.
            more: other keys of a team, a recipe or a section of it, e.g. `seed=1`,
                `max_new_tokens=64`.

        Raises:
            RecipeError: an unknown key or a wrong value.
        """
        keys = {
            "name": name,
            "protocol": protocol,
            "join": join,
            "turns": turns,
            "feedback": feedback,
            "model": model,
            "sampling": sampling,
            "task": task,
            **more,
        }
        keys = {key: value for key, value in keys.items() if value is not None}
        self.recipe = _make_recipe(agents, keys, trust)
        self.rewards, self.hidden, self._trust = rewards, hidden, trust
        self._open_models = OpenModels()

    def __repr__(self) -> str:
        agents = ", ".join(self.recipe.team.agents)
        return f"<Team {self.recipe.team.name}: {agents}>"

    def __enter__(self) -> Self:
        self._open_models.open()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._open_models.close(clean=kind is None)

    async def __aenter__(self) -> Self:
        self._open_models.open(here=True)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self._open_models.aclose(clean=kind is None)

    def run(
        self,
        *problems: Problems,
        samples: int | None = None,
        seed: int | None = None,
        out: str | Path | None = None,
    ) -> Rollout:
        """Run episodes of each problem, and return the rollout. This also works in a notebook.

        Args:
            problems: addresses, e.g. `humaneval/12`, `humaneval/0-19`, `mine.jsonl/3`, or lists of
                these; or rows, mappings of a problem's fields. Without any, the recipe's whole
                suite.
            samples: episodes per problem, by default those of the recipe.
            seed: seed of the run, by default that of the recipe.
            out: a folder for the record; None writes none.

        Raises:
            RecipeError, TaskError: before any work is done.
            ModelUnavailable, FeedbackUnavailable, ToolUnavailable, SandboxUnavailable: also before
                any work. A failure within an episode is in its `failure`.
        """
        events = self.stream(*problems, samples=samples, seed=seed, out=out)
        return self._open_models.wait_for(_collect_rollout(events, out))

    async def arun(
        self,
        *problems: Problems,
        samples: int | None = None,
        seed: int | None = None,
        out: str | Path | None = None,
    ) -> Rollout:
        """Run as `run` does, but within a running event loop, and return the rollout."""
        events = self.stream(*problems, samples=samples, seed=seed, out=out)
        return await self._open_models.arun(_collect_rollout(events, out))

    async def stream(
        self,
        *problems: Problems,
        samples: int | None = None,
        seed: int | None = None,
        out: str | Path | None = None,
        progress: bool = False,
        loading: StoreProgress | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Yield the run's events as they happen, from `run.started` to `run.finished`.

        Use it with `contextlib.aclosing`: leaving early cancels the work in progress. With
        `progress`, it also yields `agent.progress` events. `loading` is called for models being
        downloaded. To keep models open between streams, use `async with`, not `with`.
        """
        recipe, addresses = self._recipe_for(problems)
        if samples is not None or seed is not None:
            recipe = load_recipe(recipe, samples=samples, seed=seed, trust=self._trust)
        recipe, chosen = find_problems(recipe, addresses, trust=self._trust)
        run = stream_run(
            recipe,
            chosen,
            out=out,
            progress=progress,
            loading=loading,
            pool=self._open_models.pool_here(),
        )
        async with aclosing(run) as events:
            async for event in events:
                yield event

    def _recipe_for(self, problems: Sequence[Problems]) -> tuple[Recipe, list[str]]:
        """Return the recipe and the addresses. Rows become the recipe's task."""
        rows = rows_in(problems[0] if len(problems) == 1 else problems)
        addresses = flatten_addresses(problems) if rows is None else []
        task = rows or (
            split_address(addresses[0])[0] if addresses and self._has_own_reward else None
        )
        if task is None and not (self._has_own_reward and self.recipe.task):
            return self.recipe, addresses
        recipe = load_recipe(
            self.recipe, task=task, rewards=self.rewards, hidden=self.hidden, trust=self._trust
        )
        return recipe, addresses

    @property
    def _has_own_reward(self) -> bool:
        """True if `rewards` or `hidden` replace the settings of the problems' suite."""
        return self.rewards is not None or self.hidden is not None


async def _collect_rollout(run: AsyncGenerator[Event, None], out: str | Path | None) -> Rollout:
    so_far = RunProgress()
    async with aclosing(run) as events:
        async for event in events:
            so_far.see(event)
    episodes = tuple(sort_episodes(so_far.episodes))
    return Rollout(episodes, so_far.summary, Path(out) if out else None)


def _make_recipe(
    agents: Mapping[str, Agent | Mapping[str, Any]] | Recipe,
    keys: Mapping[str, Any],
    trust: Consent,
) -> Recipe:
    if isinstance(agents, Recipe):
        if keys:
            raise RecipeError(
                f"a team given as a recipe takes no {', '.join(keys)}; use"
                f" collab.load(recipe, {', '.join(f'{key}=...' for key in keys)})"
            )
        return agents
    if not isinstance(agents, Mapping):
        raise RecipeError(
            f"agents is a mapping from names to agents, got {agents!r:.60}; to load a team by its"
            " name or file, use collab.load"
        )
    top = {*Recipe.model_fields, *TeamSpec.model_fields}
    parts, settings = split_keywords(keys, RUN_SECTIONS, top_keys=top)
    return load_recipe(recipe_of_parts({"agents": agents, **parts}), settings=settings, trust=trust)


def load(
    name: TeamLike | Team,
    *,
    task: Task | None = None,
    rewards: Rewards | None = None,
    hidden: Sequence[str] | None = None,
    settings: Sequence[str] = (),
    trust: Consent = False,
    **more: Any,
) -> Team:
    """Return a team, loaded by name, or from a team file, a recipe file or a run folder.

    Args:
        name: a name, a path, a mapping with the content of a team or recipe file, or a `Team`, of
            which this makes another one.
        task: a suite that replaces the recipe's own, or problems, as a list of rows; addresses
            passed to `run` select their own suite.
        rewards: functions that replace the task's reward, e.g. `[right, (short, 0.5)]`.
        hidden: names of hidden fields, instead of the task's own.
        settings: overrides as on the command line, e.g. `["team.turns=2"]`.
        trust: True approves the functions of a third-party recipe or folder.
        more: keys of the recipe or of its sections other than `trainer`, e.g. `model="echo"`,
            `samples=4`, `seed=1`, `max_new_tokens=64`.

    Raises:
        RecipeError: an unknown name or key, a wrong value, a file that cannot be read.
        Untrusted: the recipe is third-party, would run code, and is not approved.
    """
    top = {*Recipe.model_fields} - {"team", "task"}
    keys, settings = split_keywords(more, RUN_SECTIONS, top_keys=top, typed_settings=settings)
    overrides = Overrides(task=task, settings=settings, keys=keys)
    if isinstance(name, Team):
        rewards = name.rewards if rewards is None else rewards
        hidden = name.hidden if hidden is None else hidden
        name = name.recipe
    scoring = Overrides(rewards=rewards, hidden=hidden)
    if task is not None:
        recipe, question = read_recipe(name, replace(overrides, rewards=rewards, hidden=hidden))
    else:
        recipe, question = read_recipe(name, overrides)
        if recipe.task is not None and scoring != Overrides():
            recipe, _ = read_recipe(recipe, scoring)
    allow(recipe, question, trust)
    return Team(recipe, trust=trust, rewards=rewards, hidden=hidden)


async def stream_run(
    recipe: Recipe,
    problems: Sequence[Problem],
    *,
    out: str | Path | None,
    progress: bool,
    loading: StoreProgress | None,
    pool: ModelPool | None = None,
    so_far: RunProgress | None = None,
) -> AsyncGenerator[Event, None]:
    """Yield the events of a run of given problems, like `Team.stream`, and collect them in
    `so_far`.

    Models of a `pool` belong to the caller, and stay open.
    """
    so_far = so_far or RunProgress()
    about: dict[str, Any] = {}
    folder = None
    try:
        async with AsyncExitStack() as stack:
            planned = {"collab.episodes": len(problems) * recipe.samples}
            whole = stack.enter_context(operation(f"run {recipe.team.name}", planned))
            session = await stack.enter_async_context(
                Session(recipe, pool=pool, loading=loading, within=whole)
            )
            names, place = session.model_names(), Path(out) if out else None
            opening = make_run_started(recipe, names, problems, recipe.samples, place)
            about = {
                **opening.model_dump(mode="json", exclude_defaults=True),
                **start_entries(recipe),
            }
            folder = RunFolder.create(place, recipe, about) if place else None
            so_far.see(opening)
            yield opening
            await session.load()
            starts = starts_of(problems, recipe.samples)
            rollout = session.stream(starts, seed=recipe.seed, progress=progress)
            async with aclosing(rollout) as events:
                async for event in events:
                    if folder and isinstance(event, EpisodeFinished):
                        folder.append(event.episode)
                    so_far.see(event)
                    yield event
        so_far.status = "done"
    except Exception:
        so_far.status = "failed"
        raise
    finally:
        finished = so_far.finished()
        if folder:
            forms = tool_forms(recipe)
            ended = finished.model_dump(include={"status", "summary"})
            folder.finish({**about, **ended, **({"tools": forms} if forms else {})})
    yield finished
