"""One training step: sample, credit, learn, and the time of each."""

from __future__ import annotations

import asyncio
import threading
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from collab.models.open import ModelPool
from collab.recipe import Recipe, TrainerSpec
from collab.runtime import Event, Session
from collab.runtime.events import (
    AgentActed,
    AgentActing,
    EpisodeFinished,
    FeedbackGiven,
    TurnScored,
)
from collab.seeds import derive_seed
from collab.stats import Stopwatch
from collab.threads import wait_for_job
from collab.trainers.credit import algorithm_for
from collab.trainers.credit.shape import Shape
from collab.trainers.credit.step_credit import Credit, StepCredit
from collab.trainers.learner.frozen_models import PolicyModels
from collab.trainers.learner.learner import Learner
from collab.trainers.learner.optimizer import rate_at
from collab.trainers.learner.samples import Sample, make_samples
from collab.trainers.learner.update import Update
from collab.trainers.training.data import TaskOrder, phases
from collab.trainers.training.events import StepPart
from collab.trainers.training.metrics import StepData, StepEpisodes
from collab.trainers.training.rollouts import complete_episodes, run_groups
from collab.trainers.training.skipping import skip_reason

OnProgress = Callable[[StepPart, int, int], None]
"""Called with the current part of the step, and the numbers of finished and of all episodes."""


class StepTimer:
    """Measures, for each kind of work, how long at least one episode was being sampled, scored or
    given feedback.

    The times can overlap, because episodes do different kinds of work at the same time.
    """

    def __init__(self) -> None:
        self._watches = {work: Stopwatch() for work in ("sampling", "scoring", "feedback")}
        self._active: set[tuple[str, ...]] = set()
        """Work in progress, by its kind, its episode and, if it samples, its agent."""

    def seconds(self) -> dict[str, float]:
        """Return the seconds by kind of work."""
        return {work: watch.seconds for work, watch in self._watches.items()}

    def record(self, event: Event) -> None:
        """Record an event at the present time."""
        match event:
            case AgentActing():
                self._end("scoring", event.episode)
                self._end("feedback", event.episode)
                self._begin("sampling", event.episode, event.agent)
            case AgentActed():
                self._end("sampling", event.episode, event.decision.agent)
                if not self._of(event.episode):
                    self._begin("scoring", event.episode)
            case TurnScored():
                self._end("scoring", event.episode)
                self._begin("feedback", event.episode)
            case FeedbackGiven():
                self._end("feedback", event.episode)
            case EpisodeFinished():
                for entry in self._of(event.episode.id):
                    self._end(*entry)

    def _begin(self, *entry: str) -> None:
        if entry not in self._active:
            self._active.add(entry)
            self._watches[entry[0]].start()

    def _end(self, *entry: str) -> None:
        if entry in self._active:
            self._active.remove(entry)
            self._watches[entry[0]].stop()

    def _of(self, episode: str) -> list[tuple[str, ...]]:
        return [entry for entry in self._active if entry[1] == episode]


class Stepper:
    """Learns from the episodes of one step after another. A subclass provides them."""

    def __init__(
        self, recipe: Recipe, spec: TrainerSpec, tasks: TaskOrder, learner: Learner
    ) -> None:
        self.recipe, self.spec, self._tasks = recipe, spec, tasks
        self.learner, self._policies = learner, learner.policies
        self.algorithm = algorithm_for(spec.algorithm)
        self._samplings = {agent: recipe.sampling_of(agent) for agent in self._policies.agents}
        self.update_interrupted = False
        """True if an update was interrupted, so the parameters belong to no step."""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="learner")

    async def open(self) -> None:
        """Pass the team's models to the algorithm, before the first step."""
        await self.algorithm.open(PolicyModels(self._policies, self.spec, self._thread))

    async def check(self) -> None:
        """Check the sources of all episodes before any work."""

    async def run_episodes(self, step: int, report: OnProgress) -> StepEpisodes:  # noqa: ARG002
        """Return the episodes that are sampled for `step`, counted from 0."""
        return StepEpisodes()

    def sample_ahead(self, step: int, report: OnProgress) -> None:
        """Start to sample `step` while the step before it is learned, if that is possible."""

    async def learn(self, step: int, played: StepEpisodes, report: OnProgress) -> StepData:
        """Give credit, learn, and return the step's data."""
        report("credit", 0, 0)
        began = time.perf_counter()
        credit, samples = await self.make_samples(step, played)
        played.times["credit"] = time.perf_counter() - began
        report("update", 0, 0)
        began = time.perf_counter()
        if not self.spec.max_staleness:
            await self._policies.sleep()
        version = self._policies.version
        update = await self._update(samples, step)
        played.times["update"] = time.perf_counter() - began
        return StepData(**vars(played), credit=credit, update=update, version=version)

    async def make_samples(self, step: int, played: StepEpisodes) -> tuple[Credit, list[Sample]]:
        """Give credit to the episodes of a step, and return the responses to learn from."""
        raise NotImplementedError

    async def aclose(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)

    async def _update(self, samples: Sequence[Sample], step: int) -> Update:
        """Learn from the responses of `step` on the learner's thread, and return its statistics."""
        cancelled = threading.Event()
        work = self._thread.submit(self.learner.learn, samples, step, cancelled)
        self.update_interrupted = self._policies.samplers_are_stale = True
        await wait_for_job(work, cancelled.set)
        update = work.result()
        self.update_interrupted = False
        self._policies.version = step + 1
        return update


class SampledStepper(Stepper):
    """Takes steps with episodes that the team plays, and can sample one step ahead.

    The session of a phase stays open between steps.
    """

    def __init__(
        self, recipe: Recipe, spec: TrainerSpec, tasks: TaskOrder, learner: Learner, pool: ModelPool
    ) -> None:
        """Set up the steps. `pool` holds the models of feedback, for all sessions of a run."""
        super().__init__(recipe, spec, tasks, learner)
        self._pool = pool
        self._session: Session | None = None
        self._phases = phases(recipe, spec)
        self._phase = -1
        self._credit: StepCredit | None = None
        self._ahead: tuple[int, asyncio.Task[StepEpisodes]] | None = None
        """Step that is sampled while the step before it is learned."""

    async def check(self) -> None:
        """Open each phase's resources once, so that missing ones are reported before any work."""
        for first, _ in self._phases:
            await self._session_at(first)

    async def run_episodes(self, step: int, report: OnProgress) -> StepEpisodes:
        """Return the episodes of `step`, counted from 0, which may be in progress already."""
        if self._ahead is None or self._ahead[0] != step:
            return await self._run_episodes(step, report)
        began = time.perf_counter()
        await self._policies.publish()
        published = time.perf_counter() - began
        played = await self._ahead[1]
        self._ahead = None  # not earlier: `aclose` ends the work
        waited = time.perf_counter() - began
        played.times.update(publishing=published, waiting=waited - published)
        return played

    def sample_ahead(self, step: int, report: OnProgress) -> None:
        """Start to sample `step` while the step before it is learned, if the trainer allows it and
        both have the same phase.

        The step starts with the current policies. Responses that begin after the next update are
        sampled from the updated policies.
        """
        if self.spec.max_staleness and self._phase_at(step) == self._phase_at(step - 1):
            self._ahead = step, asyncio.create_task(self._run_episodes(step, report))

    async def _run_episodes(self, step: int, report: OnProgress) -> StepEpisodes:
        session = await self._session_at(step)
        problems = self._tasks.batch(step)
        shape = self._shape(session)
        total = len(problems) * shape.episodes
        timer, done = StepTimer(), 0

        def watch(event: Event) -> None:
            nonlocal done
            timer.record(event)
            if isinstance(event, EpisodeFinished):
                done += 1
                report("sampling", done, total)

        report("sampling", 0, total)
        began = time.perf_counter()
        publishing = {}
        if await self._policies.publish():
            publishing = {"publishing": time.perf_counter() - began}
        seed = derive_seed(self.recipe.seed, "step", step)
        on_group_end = None
        if not self.spec.max_staleness:  # with it, another step's credit may be running
            self._credit = self._begin_credit(session)
            on_group_end = self._credit.prepare
        groups = await run_groups(session, problems, shape, seed, watch, on_group_end=on_group_end)
        times = {**timer.seconds(), **publishing}
        return StepEpisodes(groups, times, await self._policies.report())

    async def learn(self, step: int, played: StepEpisodes, report: OnProgress) -> StepData:
        """Learn unless too many episodes failed."""
        if reason := skip_reason(played.groups, self.spec):
            await self._end_credit()
            update = Update(rate=rate_at(step, self.learner.total_steps, self.spec))
            return StepData(**vars(played), credit=Credit(), update=update, skip_reason=reason)
        return await super().learn(step, played, report)

    async def make_samples(self, step: int, played: StepEpisodes) -> tuple[Credit, list[Sample]]:
        session = await self._session_at(step)
        step_credit = self._credit = self._credit or self._begin_credit(session)
        complete = map(complete_episodes, played.groups)
        groups = list(zip(self._tasks.batch(step), complete, strict=True))
        credit = await step_credit.credit(groups)
        await self._end_credit()
        return credit, make_samples(credit, self._samplings, self.spec)

    async def aclose(self) -> None:
        if self._ahead is not None:
            self._ahead[1].cancel()
            await asyncio.gather(self._ahead[1], return_exceptions=True)
        await self._end_credit()
        session, self._session = self._session, None
        if session is not None:
            await session.aclose()
        await super().aclose()

    def _phase_at(self, step: int) -> int:
        """Return the number of the phase to which `step` belongs."""
        return bisect_right([first for first, _ in self._phases], step) - 1

    async def _session_at(self, step: int) -> Session:
        phase = self._phase_at(step)
        if self._session is None or phase != self._phase:
            if self._session is not None:
                await self._session.aclose()
            acting = self._policies.recipe_with_adapters(self._phases[phase][1])
            session = Session(acting, models=self._policies.models, pool=self._pool)
            self._session = await session.open()
            self._phase = phase
        return self._session

    def _begin_credit(self, session: Session) -> StepCredit:
        return StepCredit(
            session.score,
            agents=self._policies.agents,
            spec=self.spec,
            shape=self._shape(session),
            algorithm=self.algorithm,
        )

    async def _end_credit(self) -> None:
        credit, self._credit = self._credit, None
        if credit is not None:
            await credit.aclose()

    def _shape(self, session: Session) -> Shape:
        turns = session.recipe.team.turns
        return Shape(self.spec.turn_structure, self.spec.group_size, turns)
