"""From recorded responses to samples: by the tokens that were drawn, or by their text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from collab.errors import RecipeError
from collab.models import Call, Request
from collab.models.chat import check_context, prompt_ids
from collab.models.controls import text_ids
from collab.models.weights import LoadedModel
from collab.recipe import AgentSpec
from collab.records import Action, Message, Sampling
from collab.trainers.learner.policy import Policy
from collab.trainers.learner.samples import Sample


class Listener:
    """An agent to whom responses of before are told as if it had given them.

    Where its model reads what was observed as the same prompt, token by token, the recorded tokens
    are the response. Else it is the text behind the agent's prefix, in tokens of the agent's own
    model, up to its end. Only the response is learned.
    """

    def __init__(self, name: str, spec: AgentSpec, sampling: Sampling, policy: Policy) -> None:
        self.name, self._spec, self._sampling = name, spec, sampling
        self._model = policy.engine.name
        self._loaded: LoadedModel = policy.engine.load()

    def sample(
        self, messages: Sequence[Message], action: Action, prefix: str, place: str, scale: float
    ) -> Sample | None:
        """The response to `messages`; None for one without a token.

        `prefix` is what the agent is made to begin with, and `place` says where the response was
        given, for messages.

        Raises:
            RecipeError: it is none that the agent could give. ModelError: it cannot be read.
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
                    f"trainer.episodes: {place}: agent '{self.name}' has tools, and calls of"
                    f" another model ({action.model or 'unknown'}) cannot be told in the form of"
                    f" {self._model}; take episodes of the same model, or leave its tools out"
                )
            return action.prompt_ids, action.token_ids
        tokenizer = self._loaded.tokenizer
        prompt = prompt_ids(_request(messages, self._spec, prefix), tokenizer, self._model)
        if action.token_ids and tuple(prompt) == action.prompt_ids:
            return prompt, action.token_ids
        if not action.text.startswith(prefix):
            raise RecipeError(
                f"trainer.episodes: {place}: agent '{self.name}' is made to begin with {prefix!r},"
                f" and the response begins with {action.text[: len(prefix)]!r}; leave out"
                f" team.agents.{self.name}.prefix, or take episodes that begin so"
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
    """The token that ends a response."""
    own = loaded.tokenizer.eos_token_id
    return int(own if own in loaded.stop_ids else min(loaded.stop_ids))
