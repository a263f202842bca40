"""One episode of the Dec-POMDP: observations, joint action, joint reward, feedback, again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from collab.agents.joins import Join, Joint
from collab.errors import AgentError, BudgetExceeded, CollabError, attribute
from collab.feedback import Outcome, Source, gather
from collab.models import Call
from collab.recipe import Recipe
from collab.records import (
    Action,
    Decision,
    Episode,
    Failure,
    Feedback,
    Message,
    Problem,
    Score,
    Turn,
    failure_of,
)
from collab.rewards import Scorer
from collab.runtime.events import (
    AgentActed,
    AgentActing,
    Emit,
    EpisodeFinished,
    EpisodeStarted,
    FeedbackGiven,
    TurnScored,
)
from collab.runtime.players import Player, make_request
from collab.runtime.protocols import Round, rounds_of
from collab.runtime.scheduler import Scheduler


@dataclass(frozen=True)
class Stage:
    """What the episodes of a run share."""

    recipe: Recipe
    players: Mapping[str, Player]
    join: Join
    scorer: Scorer | None
    sources: Sequence[Source]
    scheduler: Scheduler
    emit: Emit


@dataclass
class _TurnState:
    """A turn under way."""

    index: int
    decisions: list[Decision] = field(default_factory=list)
    artefacts: dict[str, str] = field(default_factory=dict)
    joint: Joint = field(default_factory=lambda: Joint("", {}))
    score: Score | None = None
    feedback: dict[str, tuple[Feedback, ...]] = field(default_factory=dict)
    failures: tuple[Failure, ...] = ()
    started: float = field(default_factory=time.perf_counter)

    def record(self) -> Turn:
        return Turn(
            index=self.index,
            decisions=tuple(self.decisions),
            artefacts=self.artefacts,
            joint=self.joint.text,
            score=self.score,
            feedback=self.feedback,
            failures=self.failures,
            seconds=time.perf_counter() - self.started,
        )


@dataclass(frozen=True)
class Start:
    """Where an episode begins: at its problem, or after turns that were played already."""

    problem: Problem
    group: int = 0
    sample: int = 0
    turns: tuple[Turn, ...] = ()
    until: int | None = None
    """Stop after so many turns, feedback included, as if there were more to come."""


class _ActionFailed(Exception):
    def __init__(self, failure: Failure) -> None:
        self.failure = failure


class EpisodeRun:
    """Plays one episode; `play` never raises but for cancellation."""

    def __init__(self, stage: Stage, start: Start, seed: int) -> None:
        self.stage, self.problem, self.seed = stage, start.problem, seed
        self.group, self.sample, self._until = start.group, start.sample, start.until
        self.id = f"{start.problem.address}#{start.sample}"
        self._histories: dict[str, list[Message]] = {name: [] for name in stage.players}
        self._turns: list[Turn] = list(start.turns)
        self._new_tokens = 0
        for turn in start.turns:
            for decision in turn.decisions:
                self._histories[decision.agent].extend(decision.observation)
                self._remember(decision.agent, decision.action)
        self._started = 0.0
        self._started_at = ""

    async def play(self) -> Episode:
        self.stage.emit(
            EpisodeStarted(
                episode=self.id, task=self.problem.address, group=self.group, sample=self.sample
            )
        )
        self._started = time.perf_counter()
        self._started_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        episode = self._record(await self._play_within_budget())
        self.stage.emit(EpisodeFinished(episode=episode))
        return episode

    async def _play_within_budget(self) -> Failure | None:
        limit = self.stage.recipe.budget.seconds
        timeout = asyncio.timeout(limit)
        try:
            async with timeout:
                await self._play_turns()
        except _ActionFailed as failed:
            return failed.failure
        except Exception as error:
            if timeout.expired():
                return failure_of(
                    BudgetExceeded(f"the episode reached its limit of {limit} s (budget.seconds)")
                )
            return failure_of(attribute(error, CollabError))
        return None

    async def _play_turns(self) -> None:
        n_turns = self.stage.recipe.team.turns
        told = self._turns[-1].feedback if self._turns else {}
        for index in range(len(self._turns), n_turns):
            turn = _TurnState(index)
            try:
                await self._act(turn, told)
                await self._score(turn)
                last = index + 1 == n_turns or bool(turn.score and turn.score.passed)
                if not last:
                    await self._tell(turn)
                    told = turn.feedback
            finally:
                self._turns.append(turn.record())
            if last or index + 1 == self._until:
                return

    async def _act(self, turn: _TurnState, told: Mapping[str, tuple[Feedback, ...]]) -> None:
        """Every round of the turn: observe, act at the same time, parse; then join."""
        players = self.stage.players
        for number, round_ in enumerate(rounds_of(self.stage.recipe.team.protocol, list(players))):
            self._check_tokens()
            observations = {
                name: self._observe(players[name], turn, round_, told) for name in round_.agents
            }
            actions = await self._generate(turn, number, round_)
            for name, action in zip(round_.agents, actions, strict=True):
                self._take(turn, number, name, observations[name], action)
        ordered = {name: turn.artefacts[name] for name in players}
        try:
            turn.joint = self.stage.join(ordered, self.problem)
        except Exception as error:
            raise attribute(error, AgentError) from error

    def _observe(
        self,
        player: Player,
        turn: _TurnState,
        round_: Round,
        told: Mapping[str, tuple[Feedback, ...]],
    ) -> list[Message]:
        history = self._histories[player.name]
        if round_.sees == "all":
            template = player.discuss
        else:
            template = player.revise if history else player.prompt
        others = {} if round_.sees == "nothing" else dict(turn.artefacts)
        others.pop(player.name, None)
        messages = player.observe(
            template,
            first=not history,
            task=self.problem.public,
            agents=list(self.stage.players),
            turn=turn.index,
            others=others,
            feedback="\n\n".join(item.text for item in told.get(player.name, ()) if item.text),
        )
        history.extend(messages)
        return messages

    async def _generate(self, turn: _TurnState, number: int, round_: Round) -> list[Action]:
        requests = []
        for name in round_.agents:
            player = self.stage.players[name]
            call = Call(
                task=self.problem.address,
                sample=self.sample,
                turn=turn.index,
                round=number,
                agent=name,
            )
            request = make_request(player, call, self._histories[name], self.seed)
            requests.append((player.model, request))
            self.stage.emit(AgentActing(episode=self.id, turn=turn.index, round=number, agent=name))
        return await self.stage.scheduler.act(requests)

    def _take(
        self, turn: _TurnState, number: int, name: str, observed: list[Message], action: Action
    ) -> None:
        """Record an action, and parse the artefact out of it."""
        decision = Decision(agent=name, round=number, observation=tuple(observed), action=action)
        turn.decisions.append(decision)
        self.stage.emit(AgentActed(episode=self.id, turn=turn.index, decision=decision))
        if action.failure:
            raise _ActionFailed(action.failure)
        self._remember(name, action)
        try:
            turn.artefacts[name] = self.stage.players[name].parse(action.text)
        except Exception as error:
            raise attribute(error, AgentError) from error

    def _remember(self, name: str, action: Action) -> None:
        self._new_tokens += len(action.token_ids) or action.usage.new_tokens
        self._histories[name].append(Message(role="assistant", content=action.text))

    async def _score(self, turn: _TurnState) -> None:
        if self.stage.scorer is not None:
            turn.score = await self.stage.scorer.score(
                self.problem, turn.artefacts, list(self.stage.players)
            )
        self.stage.emit(
            TurnScored(
                episode=self.id,
                turn=turn.index,
                artefacts=turn.artefacts,
                joint=turn.joint.text,
                score=turn.score,
            )
        )

    async def _tell(self, turn: _TurnState) -> None:
        outcome = Outcome(
            problem=self.problem,
            agents=tuple(self.stage.players),
            artefacts=turn.artefacts,
            joint=turn.joint,
            solved=turn.score.passed if turn.score else None,
            turn=turn.index,
            sample=self.sample,
        )
        specs = self.stage.recipe.team.feedback
        turn.feedback, turn.failures = await gather(self.stage.sources, specs, outcome)
        self.stage.emit(
            FeedbackGiven(
                episode=self.id,
                turn=turn.index,
                feedback=turn.feedback,
                failures=turn.failures,
            )
        )

    def _check_tokens(self) -> None:
        limit = self.stage.recipe.budget.tokens
        if limit is not None and self._new_tokens >= limit:
            raise BudgetExceeded(
                f"the episode has {self._new_tokens} new tokens, its limit is {limit}"
                " (budget.tokens)"
            )

    def _record(self, failure: Failure | None) -> Episode:
        return Episode(
            id=self.id,
            task=self.problem.address,
            team=self.stage.recipe.team.name,
            group=self.group,
            sample=self.sample,
            seed=self.seed,
            turns=tuple(self._turns),
            failure=failure,
            started=self._started_at,
            seconds=time.perf_counter() - self._started,
        )
