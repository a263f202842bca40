"""Learns from recorded episodes, by their sampled tokens or by their text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from collab.errors import RecipeError
from collab.models import Call, Request
from collab.models.chat import check_context, prompt_ids
from collab.models.controls import text_ids
from collab.models.weights import LoadedModel
from collab.recipe import AgentSpec, Recipe, TrainerSpec
from collab.records import Action, Episode, Message, Problem, Sampling, Turn
from collab.runtime.agents import prefix_of
from collab.trainers.credit.step_credit import Credit
from collab.trainers.learner.learner import TorchLearner
from collab.trainers.learner.policy import Policies, Policy
from collab.trainers.learner.samples import Sample, weigh_tokens
from collab.trainers.training.data import TaskOrder
from collab.trainers.training.step import Report, Stepper


class Listener:
    """An agent that learns recorded responses as if it had given them.

    If the agent's model encodes the observation to the recorded prompt tokens, the recorded
    response tokens are learned. Otherwise the agent's own tokenizer encodes the recorded text after
    the agent's prefix. Only the response is learned.
    """

    def __init__(self, name: str, spec: AgentSpec, sampling: Sampling, policy: Policy) -> None:
        self.name, self._spec, self._sampling = name, spec, sampling
        self._model = policy.engine.name
        self._loaded: LoadedModel = policy.engine.load()

    def sample(
        self, messages: Sequence[Message], action: Action, prefix: str, place: str, scale: float
    ) -> Sample | None:
        """Return the recorded response to `messages` as a sample, or None if it has no token.

        `prefix` is the agent's forced beginning, and `place` identifies the response in messages.

        Raises:
            RecipeError: the agent could not have given the response.
            ModelError: the response cannot be tokenized.
        """
        prompt, response = self._tokens(messages, action, prefix, place)
        if not response:
            return None
        check_context(len(prompt), len(response), self._loaded.context, self._model)
        return Sample(
            agent=self.name,
            prompt_ids=tuple(prompt),
            token_ids=tuple(response),
            logprobs=(),
            temperature=self._sampling.temperature,
            weight=1.0,
            scale=scale,
        )

    def _tokens(
        self, messages: Sequence[Message], action: Action, prefix: str, place: str
    ) -> tuple[Sequence[int], Sequence[int]]:
        if self._spec.tools:
            if not action.token_ids or action.model != self._model:
                raise RecipeError(
                    f"trainer.episodes: {place}: agent '{self.name}' has tools, but tool calls of"
                    f" another model ({action.model or 'unknown'}) cannot be written in the format"
                    f" of {self._model}; use episodes of the same model, or leave out its tools"
                )
            return action.prompt_ids, action.token_ids
        tokenizer = self._loaded.tokenizer
        prompt = prompt_ids(_request(messages, self._spec, prefix), tokenizer, self._model)
        if action.token_ids and tuple(prompt) == action.prompt_ids:
            return prompt, action.token_ids
        if not action.text.startswith(prefix):
            raise RecipeError(
                f"trainer.episodes: {place}: agent '{self.name}' has the prefix {prefix!r}, but"
                f" the response begins with {action.text[: len(prefix)]!r}; leave out"
                f" team.agents.{self.name}.prefix, or use episodes with that prefix"
            )
        text = action.text.removeprefix(prefix)
        if action.finish_reason != "stop":
            return prompt, text_ids(tokenizer, text)
        if self._sampling.stop:
            return prompt, text_ids(tokenizer, text + self._sampling.stop[0])
        return prompt, [*text_ids(tokenizer, text), _end(self._loaded)]


def _request(messages: Sequence[Message], spec: AgentSpec, prefix: str) -> Request:
    call = Call(task="", sample=0, turn=0, round=0, agent="")
    return Request(call=call, messages=tuple(messages), style=spec.style, prefix=prefix)


def _end(loaded: Any) -> int:
    """Return the token that ends a response."""
    eos = loaded.tokenizer.eos_token_id
    return int(eos if eos in loaded.stop_ids else min(loaded.stop_ids))


def chosen(episodes: Sequence[Episode], limit: int, visit: int) -> list[Episode]:
    """Return a task's episodes to learn from in a visit to the task, counted from 0.

    These are all episodes, or, if there are more than `limit`, the next `limit` of them in a cycle.
    """
    if len(episodes) <= limit:
        return list(episodes)
    first = visit * limit
    return [episodes[(first + n) % len(episodes)] for n in range(limit)]


class RecordedStepper(Stepper):
    """Takes steps with recorded episodes of the tasks, without sampling.

    A step takes its tasks in order, with up to `group_size` episodes of each. When a task comes up
    again, the following episodes are used. The loss is the mean over tasks of the mean over
    episodes.
    """

    def __init__(
        self,
        recipe: Recipe,
        spec: TrainerSpec,
        tasks: TaskOrder,
        policies: Policies,
        learner: TorchLearner,
    ) -> None:
        super().__init__(recipe, spec, tasks, policies, learner)
        agents = recipe.team.agents
        self._listeners = {
            agent: Listener(agent, agents[agent], sampling, policies.of(agent))
            for agent, sampling in self._samplings.items()
        }
        self._prefixes = {agent: prefix_of(agent, agents[agent]) for agent in self._samplings}

    async def check(self) -> None:
        """Read every episode once, so that an unreadable one is reported before any work.

        Raises:
            RecipeError, AgentError, ModelError: from `Listener.sample`.
        """
        for problem in self._tasks.training:
            for episode in self._tasks.recorded[problem.address]:
                list(self._samples_of(episode, problem, 1.0))

    async def play(
        self,
        step: int,  # noqa: ARG002
        report: Report,  # noqa: ARG002
    ) -> tuple[list[list[Episode]], dict[str, float]]:
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
            episodes = chosen(recorded, self._spec.group_size, visit)
            for episode in episodes:
                scale = 1 / (len(problems) * len(episodes))
                yield from self._samples_of(episode, problem, scale)

    def _samples_of(self, episode: Episode, problem: Problem, scale: float) -> Iterator[Sample]:
        """Yield every response of an episode that a model generated and a trained agent can learn
        from.
        """
        histories: dict[str, list[Message]] = {}
        for turn in episode.turns:
            for decision in turn.decisions:
                history = histories.setdefault(decision.agent, [])
                history += decision.observation
                listener = self._listeners.get(decision.agent)
                if listener is not None and not (decision.given or decision.action.failure):
                    fields = self._fields(problem, turn, decision.saw)
                    prefix = self._prefixes[decision.agent].render(agent=decision.agent, **fields)
                    sample = listener.sample(history, decision.action, prefix, episode.id, scale)
                    if sample is not None:
                        yield sample
                history.append(decision.action.message)

    def _fields(self, problem: Problem, turn: Turn, saw: Sequence[str]) -> Mapping[str, Any]:
        """Return the fields that the template of a prefix sees."""
        return {
            "task": problem.public,
            "_hidden": tuple(problem.hidden),
            "agents": list(self._recipe.team.agents),
            "turn": turn.index,
            "others": {d.agent: d.action.text for d in turn.decisions if d.agent in saw},
            "feedback": "",
        }
