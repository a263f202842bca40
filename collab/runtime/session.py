"""A recipe with its models, sandbox and feedback open, ready to roll out episodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path

from collab.errors import ModelUnavailable
from collab.feedback import open_sources
from collab.models import Model, Progress, Request
from collab.models.base import as_model
from collab.models.open import ModelPool
from collab.models.store import StoreProgress
from collab.recipe import Recipe
from collab.recipe.model import ModelSpec, TransformersSpec, VLLMSpec
from collab.recipe.recipe import DEFAULT_CONCURRENCY, WIDE_CONCURRENCY
from collab.records import Episode, Problem, Sampling, Score
from collab.records.run import sort_episodes
from collab.runtime.acting import RolloutContext
from collab.runtime.agents import make_agents
from collab.runtime.episode import EpisodeRun, Start, starts_of
from collab.runtime.events import AgentProgress, Emit, EpisodeFinished, Event
from collab.runtime.protocols import protocol_for
from collab.runtime.rehearsal import rehearse_turn
from collab.runtime.scheduler import Scheduler
from collab.runtime.scoring import JointScorer
from collab.sandbox.sandbox import CORRECT_TRIAL, Sandbox
from collab.telemetry import Attributes, Operation, trace_episode
from collab.tools import ToolServers, open_tools


def concurrency_of(recipe: Recipe) -> int:
    """Return the number of concurrent episodes: `concurrency`, or enough to keep engines busy."""
    if recipe.concurrency is not None:
        return recipe.concurrency
    engines = [_count_batching_engines(recipe.model_of(agent)) for agent in recipe.team.agents]
    return max(DEFAULT_CONCURRENCY, WIDE_CONCURRENCY * max(engines, default=0))


def _count_batching_engines(model: ModelSpec) -> int:
    """Return the number of engines of `model` that `WIDE_CONCURRENCY` is for."""
    if isinstance(model, VLLMSpec):
        return max(len(model.servers), 1)
    if not isinstance(model, TransformersSpec):
        return 0
    from collab.models.weights import pick_device

    try:
        return int(pick_device(model.device).type == "cuda")
    except ModelUnavailable:  # loading reports it, unless another model takes its place
        return 0


AdjustSampling = Callable[[Sampling], Sampling]
"""Returns adjusted sampling settings for some episodes, given an agent's own."""


class Session:
    """Opens everything that a recipe names, rolls out episodes of problems, and closes everything.

    Raises:
        RecipeError, ModelUnavailable, FeedbackUnavailable, ToolUnavailable, SandboxUnavailable: on
            entry, before any work is done.
        ModelError: on exit without an error, if a script has unused answers.
    """

    def __init__(
        self,
        recipe: Recipe,
        *,
        models: Mapping[str, Model] | None = None,
        pool: ModelPool | None = None,
        loading: StoreProgress | None = None,
        serve: bool = True,
        within: Operation | None = None,
    ) -> None:
        """Set up a session. `models` replace the recipe's models, by agent, and stay open.

        Models of a `pool` also stay open, because several sessions may share them. `loading` is
        called for models being downloaded, on the downloading thread. Without `serve`, no MCP
        server is started, agents lack the servers' tools, and the sandbox is not tried. Use this to
        inspect a recipe, not for a run. The spans of episodes are children of `within`, otherwise
        of the current span.
        """
        self.recipe = recipe
        self.sandbox = Sandbox(recipe.sandbox)
        self.models = {name: as_model(model) for name, model in (models or {}).items()}
        self._pool = pool or ModelPool(progress=loading)
        self._owns_pool = pool is None
        self._servers = ToolServers() if serve else None
        self._opened: RolloutContext | None = None
        self._scorer: JointScorer | None = None
        self._parent_span = within

    async def open(self) -> Session:
        """Open everything. `aclose` does not check for unused answers of a script."""
        try:
            if self._servers and self.recipe.uses_sandbox:
                await self.sandbox.check(CORRECT_TRIAL)
            for name in self.recipe.team.agents:
                if name not in self.models:
                    self.models[name] = self._pool.open(self.recipe.model_of(name))
            team = self.recipe.team
            self._scorer = scorer = JointScorer(self.recipe, self.sandbox)
            tools = await open_tools(team, self.sandbox, self._servers)
            agents = make_agents(self.recipe, self.models, tools)
            protocol = protocol_for(team.protocol)
            turn = await rehearse_turn(protocol, team)
            feedback = team.feedback if team.turns > 1 or turn.asks_feedback else ()
            sources = open_sources(feedback, sandbox=self.sandbox, open_model=self._pool.open)
            self._opened = RolloutContext(
                self.recipe,
                agents,
                protocol,
                scorer.join,
                scorer.scorer,
                sources,
                scorer.make_game,
            )
        except BaseException:
            await self.aclose()
            raise
        return self

    async def load(self) -> None:
        """Load the weights and adapters, so that no episode waits for them.

        Raises:
            ModelUnavailable, ModelError: a model cannot be loaded, or an adapter does not fit.
        """
        for name, model in self.models.items():
            await model.open_early(self.recipe.team.agents[name].adapter)
        await self._pool.load()

    async def __aenter__(self) -> Session:
        return await self.open()

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        await self.aclose()
        if kind is None and self._owns_pool:
            self._pool.verify()

    async def aclose(self) -> None:
        """Close everything that is open."""
        for source in self._opened.sources if self._opened else ():
            await source.aclose()
        if self._servers:
            await self._servers.aclose()
        if self._owns_pool:
            await self._pool.aclose()
        await self.sandbox.aclose()

    async def rollout(
        self,
        problems: Sequence[Problem],
        *,
        samples: int = 1,
        seed: int = 0,
        watch: Emit | None = None,
    ) -> list[Episode]:
        """Run `samples` episodes of each problem, and return them by problem, then sample.

        `watch` sees the events as they happen.
        """
        episodes = []
        async with aclosing(self.stream(starts_of(problems, samples), seed=seed)) as events:
            async for event in events:
                if watch:
                    watch(event)
                if isinstance(event, EpisodeFinished):
                    episodes.append(event.episode)
        return sort_episodes(episodes)

    async def stream(
        self,
        starts: Sequence[Start],
        *,
        seed: int = 0,
        progress: bool = False,
        adjust: AdjustSampling | None = None,
    ) -> AsyncGenerator[Event]:
        """Yield the events of one episode from each start, as they happen.

        `adjust` changes every agent's sampling settings, in these episodes alone. Leaving the
        iteration early cancels the episodes in progress and waits until their engines have stopped.
        """
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        work = asyncio.create_task(
            self._run_all(starts, seed, events.put_nowait, progress, adjust),
            context=self._parent_span.context() if self._parent_span else None,
        )
        work.add_done_callback(lambda _: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            await work
        finally:
            work.cancel()
            with suppress(asyncio.CancelledError):
                await work

    async def score(self, problem: Problem, artifacts: Mapping[str, str]) -> Score:
        """Return the joint reward of a joint action, as `JointScorer.score` does."""
        assert self._scorer is not None, "open comes first"
        return await self._scorer.score(problem, artifacts)

    async def _run_all(
        self,
        starts: Sequence[Start],
        seed: int,
        emit: Emit,
        progress: bool,
        adjust: AdjustSampling | None,
    ) -> None:
        assert self._opened is not None, "open comes first"
        concurrency = min(concurrency_of(self.recipe), len(starts))
        scheduler = Scheduler(concurrency, _make_reporter(emit) if progress else None)
        agents = self._opened.agents
        if adjust:
            agents = {n: replace(a, sampling=adjust(a.sampling)) for n, a in agents.items()}
        context = replace(self._opened, agents=agents, scheduler=scheduler, emit=emit)
        try:
            left = iter(starts)
            async with asyncio.TaskGroup() as group:
                for _ in range(concurrency):
                    group.create_task(_run_episodes(context, left, seed))
        finally:
            await scheduler.aclose()

    def model_names(self) -> Mapping[str, str]:
        """Return the name of each agent's model and adapter, by agent."""
        return {name: self._model_name(name, model) for name, model in self.models.items()}

    def _model_name(self, agent: str, model: Model) -> str:
        adapter = self.recipe.team.agents[agent].adapter
        if not (adapter and model.capabilities.adapters):
            return model.name
        return f"{model.name} + {'/'.join(Path(adapter).parts[-3:])}"


async def _run_episodes(context: RolloutContext, starts: Iterator[Start], seed: int) -> None:
    try:
        for start in starts:
            about: Attributes = {
                "collab.task": start.problem.address,
                "collab.sample": start.sample,
            }
            with trace_episode(context.recipe.team.name, about, context.emit) as emit:
                await EpisodeRun(replace(context, emit=emit), start, seed).run()
    finally:
        context.scheduler.remove_episode()


def _make_reporter(emit: Emit) -> Progress:
    def report(request: Request, new_tokens: int, text: str) -> None:
        call = request.call
        emit(
            AgentProgress(
                episode=f"{call.task}#{call.sample}",
                agent=call.agent,
                new_tokens=new_tokens,
                text=text,
            )
        )

    return report
