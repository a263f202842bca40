"""Learns from recorded episodes, by their sampled tokens or by their text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from collab.agents import Template, parser_for
from collab.agents.parsers import Parser
from collab.errors import AgentError, RecipeError
from collab.models import Call, Request
from collab.models.chat import check_context, prompt_ids
from collab.models.controls import text_ids
from collab.models.local.engine import TransformersEngine
from collab.models.weights import LoadedModel
from collab.plugins import call
from collab.records import Decision, Episode, Message, Problem, Turn
from collab.runtime.agents import prefix_of, template_fields
from collab.trainers.credit.step_credit import Credit
from collab.trainers.learner.samples import Sample, weigh_tokens
from collab.trainers.training.step import Played, Report, Stepper


def _end(loaded: LoadedModel) -> int:
    """Return the token that ends a response."""
    eos = loaded.tokenizer.eos_token_id
    return int(eos if eos in loaded.stop_ids else min(loaded.stop_ids))


def episodes_of_visit(episodes: Sequence[Episode], limit: int, visit: int) -> list[Episode]:
    """Return the episodes of a task to learn from. `visit` counts the visits to the task from 0.

    These are all episodes, or, if there are more than `limit`, the next `limit` of them in a cycle.
    """
    if len(episodes) <= limit:
        return list(episodes)
    first = visit * limit
    return [episodes[(first + n) % len(episodes)] for n in range(limit)]


class RecordedStepper(Stepper):
    """Takes steps with recorded episodes of the tasks, without sampling.

    A step takes its tasks in order, and of each task the episodes that `episodes_of_visit` returns.
    The loss is the mean over tasks of the mean over episodes.

    If the agent's model encodes the observation to the recorded prompt tokens, the recorded
    response tokens are learned. Otherwise the agent's own tokenizer encodes the recorded text after
    the agent's prefix. Only the response is learned.
    """

    async def check(self) -> None:
        """Read every episode once, so that an unreadable one is reported before any work.

        Raises:
            RecipeError: an agent could not have given a response.
            AgentError, ModelError: a response cannot be tokenized.
        """
        for problem in self._tasks.training:
            for episode in self._tasks.recorded[problem.address]:
                list(self._samples_of(episode, problem, 1.0))

    async def _play(
        self,
        step: int,  # noqa: ARG002
        report: Report,  # noqa: ARG002
    ) -> Played:
        """Return no episodes and no times: recorded episodes are read in `learn`."""
        return [], {}

    async def _to_learn(
        self,
        step: int,
        groups: Sequence[Sequence[Episode]],  # noqa: ARG002
    ) -> tuple[Credit, list[Sample]]:
        return Credit(), weigh_tokens(list(self._samples(step)), self._samplings, self._spec)

    def _samples(self, step: int) -> Iterator[Sample]:
        problems = self._tasks.batch(step)
        visit = step // self._tasks.steps_per_epoch
        for problem in problems:
            recorded = self._tasks.recorded[problem.address]
            episodes = episodes_of_visit(recorded, self._spec.group_size, visit)
            for episode in episodes:
                scale = 1 / (len(problems) * len(episodes))
                yield from self._samples_of(episode, problem, scale)

    def _samples_of(self, episode: Episode, problem: Problem, scale: float) -> Iterator[Sample]:
        """Yield each response of an episode that a trained agent can learn from."""
        histories: dict[str, list[Message]] = {}
        for turn, before in zip(episode.turns, (None, *episode.turns), strict=False):
            for decision in turn.decisions:
                history = histories.setdefault(decision.agent, [])
                history += decision.observation
                learns = decision.agent in self._samplings and not decision.given
                if learns and not decision.action.failure:
                    fields = self._fields(problem, turn, before, decision)
                    sample = self._sample(decision, history, fields, episode.id, scale)
                    if sample is not None:
                        yield sample
                history.append(decision.action.message)

    @cached_property
    def _parsers(self) -> dict[str, Parser]:
        agents = self._recipe.team.agents
        return {agent: parser_for(spec.parser) for agent, spec in agents.items()}

    @cached_property
    def _prefixes(self) -> dict[str, Template]:
        agents = self._recipe.team.agents
        return {agent: prefix_of(agent, agents[agent]) for agent in self._samplings}

    def _fields(
        self, problem: Problem, turn: Turn, before: Turn | None, decision: Decision
    ) -> Mapping[str, Any]:
        """Return the fields that the template of a prefix saw when `decision` was made.

        Fields that an environment or a protocol added are missing, except `previous`. `before` is
        the previous turn.
        """
        agent, previous = decision.agent, before.artifacts if before else {}
        earlier = [d for d in turn.decisions if d.round < decision.round]
        last = {d.agent: d.action.text for d in earlier if d.agent in decision.saw}
        fields = template_fields(
            self._recipe,
            problem,
            turn=turn.index,
            others={
                name: call(f"parser of {name}", AgentError, self._parsers[name], text)
                for name, text in last.items()
            },
            feedback=before.feedback.get(agent, ()) if before else (),
        )
        return {"previous": {n: text for n, text in previous.items() if n != agent}, **fields}

    def _sample(
        self,
        decision: Decision,
        history: Sequence[Message],
        fields: Mapping[str, Any],
        place: str,
        scale: float,
    ) -> Sample | None:
        """Return the recorded response to `history` as a sample, or None if it has no token.

        `place` identifies the response in messages.
        """
        agent = decision.agent
        engine = self._policies.of(agent).engine
        prefix = self._prefixes[agent].render(agent=agent, **fields)
        prompt, response = self._tokens(decision, history, prefix, engine, place)
        if not response:
            return None
        check_context(len(prompt), len(response), engine.load().context, engine.name)
        return Sample(
            agent=agent,
            prompt_ids=tuple(prompt),
            token_ids=tuple(response),
            logprobs=(),
            temperature=self._samplings[agent].temperature,
            weight=1.0,
            scale=scale,
        )

    def _tokens(
        self,
        decision: Decision,
        history: Sequence[Message],
        prefix: str,
        engine: TransformersEngine,
        place: str,
    ) -> tuple[Sequence[int], Sequence[int]]:
        agent, action = decision.agent, decision.action
        spec, sampling = self._recipe.team.agents[agent], self._samplings[agent]
        if spec.tools:
            if not action.token_ids or action.model != engine.name:
                raise RecipeError(
                    f"trainer.episodes: {place}: agent '{agent}' has tools, but tool calls of"
                    f" another model ({action.model or 'unknown'}) cannot be written in the format"
                    f" of {engine.name}; use episodes of the same model, or leave out its tools"
                )
            return action.prompt_ids, action.token_ids
        tokenizer = engine.tokenizer
        nowhere = Call(task="", sample=0, turn=0, round=0, agent="")
        request = Request(call=nowhere, messages=tuple(history), style=spec.style, prefix=prefix)
        prompt = prompt_ids(request, tokenizer, engine.name)
        if action.token_ids and tuple(prompt) == action.prompt_ids:
            return prompt, action.token_ids
        if not action.text.startswith(prefix):
            raise RecipeError(
                f"trainer.episodes: {place}: agent '{agent}' has the prefix {prefix!r}, but"
                f" the response begins with {action.text[: len(prefix)]!r}; leave out"
                f" team.agents.{agent}.prefix, or use episodes with that prefix"
            )
        text = action.text.removeprefix(prefix)
        if action.finish_reason != "stop":
            return prompt, text_ids(tokenizer, text)
        if sampling.stop:
            return prompt, text_ids(tokenizer, text + sampling.stop[0])
        return prompt, [*text_ids(tokenizer, text), _end(engine.load())]
