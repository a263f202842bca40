"""One episode of the Dec-POMDP: observations, joint action, joint reward, feedback, and again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import chain

from collab.agents import Joint
from collab.errors import AgentError, BudgetExceeded, CollabError, RecipeError, convert_error
from collab.feedback import Outcome, gather
from collab.records import (
    Decision,
    Episode,
    Failure,
    Feedback,
    Problem,
    Score,
    failure_of,
)
from collab.records import Turn as TurnRecord
from collab.runtime.acting import EpisodeAgents, RolloutContext
from collab.runtime.events import EpisodeFinished, EpisodeStarted, FeedbackGiven, TurnScored
from collab.runtime.game import Game
from collab.runtime.harness.move import ActionFailed
from collab.runtime.turn import Turn, TurnFeedback


@dataclass
class _TurnState:
    """A turn in progress."""

    index: int
    decisions: list[Decision] = field(default_factory=list)
    artifacts: dict[str, str] = field(default_factory=dict)
    joined: tuple[str, ...] = ()
    joint: Joint = field(default_factory=lambda: Joint("", {}))
    score: Score | None = None
    feedback: dict[str, tuple[Feedback, ...]] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    spent: list[Feedback] = field(default_factory=list)
    """Tokens and cost of all models that feedback asked, each in a feedback without text."""
    started: float = field(default_factory=time.perf_counter)

    def drop_feedback(self) -> None:
        """Drop the feedback, except for its tokens and cost."""
        items = chain.from_iterable(self.feedback.values())
        self.spent += [Feedback(source=i.source, text="", usage=i.usage) for i in items if i.usage]
        self.feedback, self.failures = {}, ()

    def record(self) -> TurnRecord:
        feedback = self.feedback
        if self.spent:
            first = next(iter(self.artifacts))
            feedback = {**feedback, first: (*feedback.get(first, ()), *self.spent)}
        return TurnRecord(
            index=self.index,
            decisions=tuple(self.decisions),
            artifacts=self.artifacts,
            joined=self.joined,
            joint=self.joint.text,
            score=self.score,
            feedback=feedback,
            failures=self.failures,
            seconds=time.perf_counter() - self.started,
        )


@dataclass(frozen=True)
class Start:
    """The start of an episode: at its problem, or after turns that already exist."""

    problem: Problem
    group: int = 0
    sample: int = 0
    turns: tuple[TurnRecord, ...] = ()
    until: int | None = None
    """Stop after this many turns, with feedback as if more turns followed."""


def starts_of(problems: Sequence[Problem], samples: int) -> list[Start]:
    """Return the starts of `samples` episodes of each problem."""
    return [
        Start(problem, group=number, sample=sample)
        for number, problem in enumerate(problems)
        for sample in range(samples)
    ]


class EpisodeRun:
    """Runs one episode. `run` raises only on cancellation."""

    def __init__(self, context: RolloutContext, start: Start, seed: int) -> None:
        self.context, self.problem, self.seed = context, start.problem, seed
        self.group, self.sample, self._until = start.group, start.sample, start.until
        self.id = f"{start.problem.address}#{start.sample}"
        self._turns: list[TurnRecord] = list(start.turns)
        self._agents = EpisodeAgents(context, self.problem, self.id, self.sample, seed)
        self._agents.restore(start.turns)
        self._game: Game | None = None

    async def run(self) -> Episode:
        """Run the episode to its end, and return it. A failure ends it and is recorded in it."""
        self.context.emit(
            EpisodeStarted(
                episode=self.id, task=self.problem.address, group=self.group, sample=self.sample
            )
        )
        began, started = time.perf_counter(), datetime.now(UTC).isoformat(timespec="milliseconds")
        failure = await self._run_within_budget()
        team = self.context.recipe.team
        has_ended = self._game is not None and self._game.ended and self._turns  # no turn is left
        episode = Episode(
            id=self.id,
            task=self.problem.address,
            team=team.name,
            group=self.group,
            sample=self.sample,
            seed=self.seed,
            turns=tuple(self._turns),
            horizon=len(self._turns) if has_ended else team.turns,
            when_solved=team.when_solved,
            failure=failure,
            started=started,
            seconds=time.perf_counter() - began,
        )
        self.context.emit(EpisodeFinished(episode=episode))
        return episode

    async def _run_within_budget(self) -> Failure | None:
        limit = self.context.recipe.budget.seconds
        timeout = asyncio.timeout(limit)
        try:
            async with timeout:
                await self._run_turns()
        except ActionFailed as failed:
            return failed.failure
        except Exception as error:
            if timeout.expired():
                return failure_of(
                    BudgetExceeded(f"the episode reached its limit of {limit} s (budget.seconds)")
                )
            return failure_of(convert_error(error, CollabError))
        return None

    async def _run_turns(self) -> None:
        team = self.context.recipe.team
        feedback = self._turns[-1].feedback if self._turns else {}
        if self.context.make_game is not None:
            self._game = self.context.make_game(self.problem)
            await self._game.begin(self._turns)
        for index in range(len(self._turns), team.turns):
            turn = _TurnState(index)
            try:
                await self._act(turn, feedback)
                await self._score(turn)
                last = index + 1 == team.turns or self._is_over(turn)
                if not last:
                    await self._give_feedback(turn)
                    feedback = turn.feedback
            finally:
                self._turns.append(turn.record())
            if last or index + 1 == self._until:
                return

    def _is_over(self, turn: _TurnState) -> bool:
        """Return True if nothing is left to do: the game has ended, or the task is solved."""
        if self._game is not None:
            return self._game.ended
        solved = bool(turn.score and turn.score.solved)
        return solved and self.context.recipe.team.when_solved != "continue"

    async def _act(self, state: _TurnState, feedback: TurnFeedback) -> None:
        """Run the protocol, then join the artifacts. A game makes its step during scoring."""
        context = self.context
        agents = tuple(context.agents)
        if self._game is not None:
            agents, self._agents.observations = self._game.acting_agents, self._game.observations
        acted = [name for name, history in self._agents.histories.items() if history]
        act_round = partial(self._agents.act_round, state.index, feedback, state.decisions)
        previous = self._turns[-1].artifacts if self._turns else {}
        get_feedback = partial(self._get_feedback, state) if context.sources else None
        turn = Turn(state.index, agents, act_round, acted, previous, get_feedback=get_feedback)
        try:
            await context.protocol(turn)
        except (CollabError, ActionFailed):
            raise
        except Exception as error:
            what = f"protocol '{context.recipe.team.protocol.use}'"
            raise convert_error(error, AgentError, what) from error
        finally:
            state.artifacts = {n: turn.artifacts[n] for n in context.agents if n in turn.artifacts}
        if self._game is not None:
            state.joined = agents
            return
        examined = state.joint.text
        self._join(state, turn)
        if state.joint.text != examined:
            state.drop_feedback()  # for a replaced answer

    def _join(self, state: _TurnState, turn: Turn) -> None:
        """Make the joint artifact of the answers so far."""
        state.artifacts = {n: turn.artifacts[n] for n in turn.agents if n in turn.artifacts}
        state.joined = turn.joined(self.context.recipe.team.roles.contributors)
        joined = {name: state.artifacts[name] for name in state.joined}
        state.joint = self.context.join(joined, self.problem)

    async def _get_feedback(self, state: _TurnState, turn: Turn) -> TurnFeedback:
        """Return the feedback on the answers of a turn that has not ended."""
        if self._game is not None:
            raise RecipeError("a protocol cannot ask for feedback within a turn of a game")
        self._join(state, turn)
        await self._give_feedback(state)
        return state.feedback

    async def _score(self, turn: _TurnState) -> None:
        if self._game is not None:
            turn.score, state = await self._game.step(turn.artifacts)
            turn.joint = Joint(state, {})
        elif self.context.scorer is not None:
            turn.score = await self.context.scorer.score(
                self.problem, turn.joint, turn.artifacts, list(turn.joined)
            )
        self.context.emit(
            TurnScored(
                episode=self.id,
                turn=turn.index,
                artifacts=turn.artifacts,
                joint=turn.joint.text,
                score=turn.score,
            )
        )

    async def _give_feedback(self, turn: _TurnState) -> None:
        outcome = Outcome(
            problem=self.problem,
            agents=tuple(self.context.agents),
            artifacts=turn.artifacts,
            joint=turn.joint,
            solved=turn.score.solved if turn.score else None,
            turn=turn.index,
            sample=self.sample,
            roles=self.context.recipe.team.roles.limited_to(turn.joined),
            spent=turn.spent,
        )
        specs = self.context.recipe.team.feedback
        turn.drop_feedback()
        turn.feedback, turn.failures = await gather(self.context.sources, specs, outcome)
        self.context.emit(
            FeedbackGiven(
                episode=self.id,
                turn=turn.index,
                feedback=turn.feedback,
                failures=turn.failures,
            )
        )
