"""Lets the agents of one episode observe and act, round by round."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from collab.agents.joins import Join
from collab.errors import AgentError, BudgetExceeded, CollabError, RecipeError, convert_error
from collab.feedback import Source
from collab.models import Call, Request
from collab.recipe import Recipe
from collab.records import Action, Decision, Message, Problem, Turn
from collab.rewards import Scorer
from collab.runtime.agents import RunningAgent, call_seed, template_fields
from collab.runtime.events import AgentActed, AgentActing, Emit
from collab.runtime.game import MakeGame
from collab.runtime.harness.move import ActionFailed, Move
from collab.runtime.protocols import Protocol
from collab.runtime.scheduler import Scheduler
from collab.runtime.turn import Round, TurnFeedback


@dataclass(frozen=True)
class RolloutContext:
    """The parts that all episodes of a run share."""

    recipe: Recipe
    agents: Mapping[str, RunningAgent]
    protocol: Protocol
    join: Join
    scorer: Scorer | None
    sources: Sequence[Source]
    make_game: MakeGame | None
    """Maker of games, if the task is an environment."""
    scheduler: Scheduler = field(default_factory=lambda: Scheduler(episodes=1))
    emit: Emit = lambda _: None


@dataclass
class EpisodeAgents:
    """The agents of one episode: their histories, and their actions in a round."""

    context: RolloutContext
    problem: Problem
    episode: str
    sample: int
    seed: int
    new_tokens: int = 0
    """Number of new tokens in all responses so far."""
    histories: dict[str, list[Message]] = field(default_factory=dict)
    observations: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Each agent's observation of the environment in this turn."""

    def restore(self, turns: Sequence[Turn]) -> None:
        """Replay completed turns into the agents' histories."""
        self.histories = {name: [] for name in self.context.agents}
        for turn in turns:
            for decision in turn.decisions:
                self._add_to_history(decision)

    async def act_round(
        self, turn: int, feedback: TurnFeedback, decisions: list[Decision], round_: Round
    ) -> dict[str, str]:
        """Let the agents of a round act at the same time, and return their artifacts by agent.

        Each response is added to `decisions` and reported to listeners.

        Raises:
            ActionFailed: a model gave no answer.
            AgentError: a template, a parser or a harness fails.
            BudgetExceeded: the episode has used up its tokens.
            RecipeError: the round's template is missing, or a model counts no tokens although the
                recipe limits them.
        """
        self._check_tokens()
        moves = [self._start_move(name, turn, feedback, round_) for name in round_.agents]
        await self.context.scheduler.together([self._run_harness(move) for move in moves])
        artifacts: dict[str, str] = {}
        errors: list[ActionFailed | CollabError] = []
        for move in moves:
            try:
                artifacts[move.agent] = self._record_move(turn, round_, move, decisions)
            except (ActionFailed, CollabError) as error:
                errors.append(error)
        if errors:
            raise errors[0]
        return artifacts

    def _start_move(self, name: str, turn: int, feedback: TurnFeedback, round_: Round) -> Move:
        first = Call(
            task=self.problem.address,
            sample=self.sample,
            turn=turn,
            round=round_.number,
            agent=name,
        )
        agent, history = self.context.agents[name], self.histories[name]
        fields = template_fields(
            self.context.recipe,
            self.problem,
            turn=turn,
            others=round_.others[name],
            feedback=feedback.get(name, ()),
        )
        if name in self.observations:
            fields["observation"] = self.observations[name]
        fields |= round_.fields.get(name, {})
        template = "revise" if round_.template == "prompt" and history else round_.template
        observed = agent.observe(template, round_.otherwise, not history, **fields)
        prefix = agent.prefix.render(agent=name, **fields)
        return Move(name, history, observed, partial(self._generate, first, prefix), agent.tools)

    async def _run_harness(self, move: Move) -> None:
        """Finish a move. `act_round` reports a model's failure once every agent is recorded."""
        try:
            with suppress(ActionFailed):
                await self.context.agents[move.agent].harness(move)
        except CollabError:
            raise
        except Exception as error:
            raise convert_error(error, AgentError, f"harness of {move.agent}") from error

    async def _generate(
        self, first: Call, prefix: str, step: int, messages: Sequence[Message], may_call: bool
    ) -> Action:
        """Return the response with this number in the move that begins with the call `first`."""
        agent = self.context.agents[first.agent]
        place = first.model_copy(update={"step": step})
        self.context.emit(
            AgentActing(episode=self.episode, turn=place.turn, round=place.round, agent=place.agent)
        )
        request = Request(
            call=place,
            messages=tuple(messages),
            tools=tuple(tool.spec for tool in agent.tools.values()),
            may_call=may_call,
            style=agent.style,
            prefix=prefix,
            sampling=agent.sampling,
            adapter=agent.adapter,
            seed=call_seed(self.seed, place),
        )
        rank = [*self.context.agents].index(first.agent)
        return await self.context.scheduler.act(agent.model, request, rank)

    def _record_move(self, turn: int, round_: Round, move: Move, decisions: list[Decision]) -> str:
        """Record an agent's action, and parse the artifact out of its answer."""
        for number, step in enumerate(move.steps):
            decision = Decision(
                agent=move.agent,
                round=round_.number,
                step=number,
                saw=round_.seen_by(move.agent),
                observation=step.observation,
                action=step.action,
            )
            decisions.append(decision)
            self.context.emit(AgentActed(episode=self.episode, turn=turn, decision=decision))
            if step.action.failure:
                raise ActionFailed(step.action.failure)
            self._add_to_history(decision)
        if not move.steps:
            raise RecipeError(
                f"the harness of agent '{move.agent}' ended without calling the model"
            )
        return self.context.agents[move.agent].parse(move.answer)

    def _add_to_history(self, decision: Decision) -> None:
        action, limit = decision.action, self.context.recipe.budget.tokens
        if limit is not None and action.is_uncounted:
            raise RecipeError(f"{action.model} reports no token count; drop budget.tokens={limit}")
        self.new_tokens += action.new_tokens
        self.histories[decision.agent] += [*decision.observation, action.message]

    def _check_tokens(self) -> None:
        limit = self.context.recipe.budget.tokens
        if limit is not None and self.new_tokens >= limit:
            raise BudgetExceeded(
                f"the episode has {self.new_tokens} new tokens, limit {limit} (budget.tokens)"
            )
