"""Learns from recorded episodes, by their sampled tokens or by their text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property

from collab.agents import Template, parser_for
from collab.agents.parsers import Parser
from collab.errors import AgentError, RecipeError
from collab.models import Call, Request
from collab.models.chat import check_context, prompt_ids
from collab.models.control_tokens import text_ids
from collab.plugins import call_function
from collab.records import Decision, Episode, Message, Problem, Sampling, Turn
from collab.runtime.agents import prefix_of, template_fields
from collab.trainers.credit.step_credit import Credit
from collab.trainers.learner.samples import Sample, weigh_tokens
from collab.trainers.training.metrics import StepEpisodes
from collab.trainers.training.step import Stepper


def episodes_of_visit(episodes: Sequence[Episode], limit: int, visit: int) -> list[Episode]:
    """Return the next `limit` episodes of a task in a cycle, at a visit counted from 0."""
    if len(episodes) <= limit:
        return list(episodes)
    return [episodes[(visit * limit + n) % len(episodes)] for n in range(limit)]


class RecordedStepper(Stepper):
    """Takes steps with recorded episodes of the tasks, without sampling.

    A step takes its tasks in order, and of each task the episodes that `episodes_of_visit` returns.
    The loss is the mean over tasks of the mean over episodes.

    If the agent's model encodes the observation to the recorded prompt tokens, the recorded
    response tokens are learned. Otherwise the agent's own tokenizer encodes the recorded text after
    the agent's prefix. Only the response is learned.
    """

    async def check(self) -> None:
        """Read every episode once, so that an unreadable one is reported before any work."""
        for problem in self._tasks.training:
            for episode in self._tasks.recorded[problem.address]:
                list(self._samples_of(episode, problem, 1.0))

    async def make_samples(
        self,
        step: int,
        played: StepEpisodes,  # noqa: ARG002
    ) -> tuple[Credit, list[Sample]]:
        return Credit(), weigh_tokens(list(self._samples(step)), self._samplings, self.spec)

    def _samples(self, step: int) -> Iterator[Sample]:
        problems = self._tasks.batch(step)
        visit = step // self._tasks.steps_per_epoch
        for problem in problems:
            recorded = self._tasks.recorded[problem.address]
            episodes = episodes_of_visit(recorded, self.spec.group_size, visit)
            for episode in episodes:
                scale = 1 / (len(problems) * len(episodes))
                yield from self._samples_of(episode, problem, scale)

    def _samples_of(self, episode: Episode, problem: Problem, scale: float) -> Iterator[Sample]:
        """Yield each response of an episode that a trained agent can learn from."""
        histories: dict[str, list[Message]] = {}
        for turn, before in zip(episode.turns, (None, *episode.turns), strict=False):
            for decision in turn.decisions:
                agent = decision.agent
                history = histories.setdefault(agent, [])
                history += decision.observation
                if agent in self._samplings and not decision.action.failure:
                    prefix = self._prefix(problem, turn, before, decision)
                    prompt, response = self._tokens(decision, history, prefix, episode.id)
                    if response:
                        yield self._sample(agent, prompt, response, scale)
                history.append(decision.action.message)

    def _sample(
        self, agent: str, prompt: Sequence[int], response: Sequence[int], scale: float
    ) -> Sample:
        engine = self._policies.of(agent).engine
        check_context(len(prompt), len(response), engine.load().context, engine.name)
        return Sample(
            agent=agent,
            prompt_ids=tuple(prompt),
            token_ids=tuple(response),
            logprobs=(),
            sampling=Sampling(temperature=self._samplings[agent].temperature),
            weight=1.0,
            scale=scale,
        )

    @cached_property
    def _parsers(self) -> dict[str, Parser]:
        agents = self.recipe.team.agents
        return {agent: parser_for(spec.parser) for agent, spec in agents.items()}

    @cached_property
    def _prefixes(self) -> dict[str, Template]:
        agents = self.recipe.team.agents
        return {agent: prefix_of(agent, agents[agent]) for agent in self._samplings}

    def _prefix(self, problem: Problem, turn: Turn, before: Turn | None, decision: Decision) -> str:
        """Return the agent's prefix of a decision, rendered with the fields that it saw.

        Fields that an environment or a protocol added are missing, except `previous`. `before` is
        the previous turn.
        """
        agent, previous = decision.agent, before.artifacts if before else {}
        earlier = [d for d in turn.decisions if d.round < decision.round]
        last = {d.agent: d.action.text for d in earlier if d.agent in decision.saw}
        others = {
            name: call_function(f"parser of {name}", AgentError, self._parsers[name], text)
            for name, text in last.items()
        }
        feedback = before.feedback.get(agent, ()) if before else ()
        fields = template_fields(
            self.recipe, problem, turn=turn.index, others=others, feedback=feedback
        )
        earlier_fields = {"previous": {n: text for n, text in previous.items() if n != agent}}
        return self._prefixes[agent].render(agent=agent, **{**earlier_fields, **fields})

    def _tokens(
        self, decision: Decision, history: Sequence[Message], prefix: str, place: str
    ) -> tuple[Sequence[int], Sequence[int]]:
        """Return the prompt and the response. `place` identifies the response in messages."""
        agent, action = decision.agent, decision.action
        engine = self._policies.of(agent).engine
        spec, sampling = self.recipe.team.agents[agent], self._samplings[agent]
        if spec.tools:
            if not action.token_ids or action.model != engine.name:
                raise RecipeError(
                    f"trainer.learn_from: {place}: agent '{agent}' has tools, but tool calls of"
                    f" another model ({action.model or 'unknown'}) cannot be written in the format"
                    f" of {engine.name}; use episodes of the same model, or leave out its tools"
                )
            return action.prompt_ids, action.token_ids
        tokenizer = engine.tokenizer
        no_call = Call(task="", sample=0, turn=0, round=0, agent="")
        request = Request(call=no_call, messages=tuple(history), style=spec.style, prefix=prefix)
        prompt = prompt_ids(request, tokenizer, engine.name)
        if action.token_ids and tuple(prompt) == action.prompt_ids:
            return prompt, action.token_ids
        if not action.text.startswith(prefix):
            raise RecipeError(
                f"trainer.learn_from: {place}: agent '{agent}' has the prefix {prefix!r}, but"
                f" the response begins with {action.text[: len(prefix)]!r}; leave out"
                f" team.agents.{agent}.prefix, or use episodes with that prefix"
            )
        text = action.text.removeprefix(prefix)
        if action.finish_reason != "stop":
            return prompt, text_ids(tokenizer, text)
        if sampling.stop:
            return prompt, text_ids(tokenizer, text + sampling.stop[0])
        eos, stops = tokenizer.eos_token_id, engine.load().stop_ids
        return prompt, [*text_ids(tokenizer, text), int(eos if eos in stops else min(stops))]
