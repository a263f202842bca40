"""Engines without a model: for tests, examples and demonstrations."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError, model_validator

from collab.errors import ModelError, RecipeError
from collab.models.base import Batching, Call, Capabilities, Model, Progress, Request
from collab.recipe.documents import parse_yaml
from collab.records import (
    Action,
    Failure,
    FinishReason,
    Record,
    Usage,
    failure_of,
    read_episodes,
)
from collab.runs.reading import read_data
from collab.wording import explain_read_error, list_errors


class _PreparedModel(Model):
    """An engine whose answers need no model: one action per request, all at once."""

    batching: Batching = "static"
    capabilities = Capabilities(generates=False)

    async def generate(
        self, requests: Sequence[Request], progress: Progress | None = None
    ) -> list[Action]:
        """Return one action per request. A request without an answer gives a failure."""
        actions = [self._answer(request) for request in requests]
        await self._pause(actions)
        if progress:
            for request, action in zip(requests, actions, strict=True):
                progress(request, len(action.token_ids), action.text)
        return actions

    def _answer(self, request: Request) -> Action:
        raise NotImplementedError

    async def _pause(self, actions: Sequence[Action]) -> None:
        """Wait for the duration of the answers, which is zero by default."""


class EchoModel(_PreparedModel):
    """Returns the last message. Its tokens are the bytes of its text in UTF-8.

    It respects `max_new_tokens` and the stop strings, and needs no weights.
    """

    def __init__(self, name: str = "echo") -> None:
        self.name = name

    def _answer(self, request: Request) -> Action:
        started = time.perf_counter()
        if request.messages:
            text = request.messages[-1].content
        else:
            text = bytes(request.prompt_ids).decode(errors="replace")
        sampling = request.sampling
        ends = [at for stop in sampling.stop if (at := text.find(stop)) >= 0]
        encoded = (text[: min(ends)] if ends else text).encode()
        kept = encoded[: sampling.max_new_tokens]
        finish_reason: FinishReason = "stop" if len(kept) == len(encoded) else "length"
        return Action.model_construct(
            text=kept.decode(errors="ignore"),
            token_ids=tuple(kept),
            finish_reason=finish_reason,
            model=self.name,
            adapter=request.adapter,
            usage=Usage.model_construct(prompt_tokens=count_bytes(request), new_tokens=len(kept)),
            seconds=time.perf_counter() - started,
        )


def count_bytes(request: Request) -> int:
    """Return the number of bytes of a prompt in UTF-8, for models whose tokens are bytes."""
    if request.prompt_ids:
        return len(request.prompt_ids)
    return sum(len(message.content.encode()) for message in request.messages)


class ReplayModel(_PreparedModel):
    """Returns the recorded answer to each request. Tokens, seconds, usage and model come from the
    record.

    If several answers to a request were recorded, because a task was run twice, they alternate.
    """

    def __init__(self, source: str | Path) -> None:
        """Read the record.

        Raises:
            RecordError: `source`, a run folder or its episodes, cannot be read.
        """
        self.name = f"replay:{source}"
        self._actions: defaultdict[Call, deque[Action]] = defaultdict(deque)
        for episode in read_episodes(Path(source).expanduser()):
            for turn in episode.turns:
                for decision in turn.decisions:
                    call = Call(
                        task=episode.task,
                        sample=episode.sample,
                        turn=turn.index,
                        round=decision.round,
                        agent=decision.agent,
                        step=decision.step,
                    )
                    self._actions[call].append(decision.action)

    def _answer(self, request: Request) -> Action:
        call = request.call
        recorded = self._actions.get(call)
        if recorded is None:
            error = ModelError(
                f"{self.name} has no answer of agent {call.agent!r} to task {call.task!r}, "
                f"sample {call.sample}, turn {call.turn}, round {call.round}; replay the run with "
                "the recipe, tasks and number of samples that it was recorded with"
            )
            return Action(
                text="", finish_reason="failed", model=self.name, failure=failure_of(error)
            )
        recorded.rotate(-1)
        return recorded[-1]


class ScriptedAnswer(Record):
    """One answer of a scripted model. A plain string is an answer with this text and default
    values."""

    text: str = ""
    token_ids: tuple[int, ...] = ()
    """Token ids of the answer. Default: the bytes of its text in UTF-8."""
    logprobs: tuple[float, ...] = ()
    finish_reason: FinishReason = "stop"
    failure: Failure | None = None
    """A failure instead of an answer. A string is a ModelError's message."""
    seconds: float = 0.0
    """Duration of the answer in seconds."""

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, data: Any) -> Any:
        if isinstance(data, str):
            return {"text": data}
        if isinstance(data, dict) and isinstance(data.get("failure"), str):
            failure = {"boundary": "model", "type": "ModelError", "message": data["failure"]}
            return {**data, "failure": failure}
        return data


Script = Sequence[Any] | Mapping[str, Sequence[Any]]

ALL_AGENTS = ""
"""Key of the queue that all agents share, for a script that is one list."""

_ANSWER_LIST = TypeAdapter(list[ScriptedAnswer])
_ANSWERS_BY_AGENT = TypeAdapter(dict[str, list[ScriptedAnswer]])


class ScriptedModel(_PreparedModel):
    """Answers from a script, in order: one list for all agents, or one list per agent.

    A request beyond the script's end fails. `verify` raises ModelError after such a request, or if
    answers are left.
    """

    def __init__(self, script: Script, name: str = "scripted") -> None:
        """Check the script.

        Raises:
            RecipeError: the script has another shape.
        """
        self.name = name
        self._queues = {key: deque(answers) for key, answers in _read_script(script, name).items()}
        self._overrun = ""
        self._sizes = {key: len(queue) for key, queue in self._queues.items()}

    @classmethod
    def from_file(cls, path: str | Path) -> ScriptedModel:
        """Return the scripted model in a YAML file.

        Raises:
            RecipeError: the file cannot be read.
        """
        try:
            text = read_data(Path(path).expanduser()).decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise RecipeError(explain_read_error(path, error)) from error
        return cls(parse_yaml(text, f"the script {path}"), name=f"scripted:{path}")

    def verify(self) -> None:
        """Check that the requests used every answer of the script, and no more."""
        if self._overrun:
            raise ModelError(self._overrun)
        left = [
            f"{len(queue)} of {self._sizes[key]}{f' for agent {key!r}' if key else ''}, "
            f"next {queue[0].text[:40]!r}"
            for key, queue in self._queues.items()
            if queue
        ]
        if left:
            raise ModelError(f"unused answers of {self.name!r}: {'; '.join(left)}")

    async def _pause(self, actions: Sequence[Action]) -> None:
        await asyncio.sleep(max((action.seconds for action in actions), default=0.0))

    def _answer(self, request: Request) -> Action:
        agent = request.call.agent
        key = ALL_AGENTS if ALL_AGENTS in self._queues else agent
        if queue := self._queues.get(key):
            return self._action(request, queue.popleft())
        self._overrun = (
            f"{self.name!r} has run out: agent {agent!r} needs more answers than the "
            f"{self._sizes.get(key, 0)} in its list; add answers, or run fewer episodes or turns"
        )
        failure = failure_of(ModelError(self._overrun))
        return self._action(request, ScriptedAnswer(failure=failure))

    def _action(self, request: Request, answer: ScriptedAnswer) -> Action:
        tokens = answer.token_ids or tuple(answer.text.encode())
        return Action.model_construct(
            text=answer.text,
            token_ids=tokens,
            logprobs=answer.logprobs,
            finish_reason="failed" if answer.failure else answer.finish_reason,
            model=self.name,
            adapter=request.adapter,
            usage=Usage.model_construct(prompt_tokens=count_bytes(request), new_tokens=len(tokens)),
            seconds=answer.seconds,
            failure=answer.failure,
        )


def _read_script(script: Script, name: str) -> dict[str, list[ScriptedAnswer]]:
    try:
        if isinstance(script, Mapping):
            return _ANSWERS_BY_AGENT.validate_python(script)
        return {ALL_AGENTS: _ANSWER_LIST.validate_python(script)}
    except ValidationError as error:
        raise RecipeError(
            f"{name!r} is not a script ({list_errors(error)[0]}); write a list of answers, or a"
            " mapping from agent to list"
        ) from error
