"""A model that answers from a script, and fails when the script is not used up."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError, model_validator

from collab.errors import ModelError, RecipeError
from collab.models.base import Batching, Capabilities, Progress, Request
from collab.models.fakes.echo import count_bytes
from collab.recipe.documents import parse_yaml
from collab.records import Action, Failure, FinishReason, Record, Usage, failure_of


class Answer(Record):
    """One answer of a script; a plain string is the text alone."""

    text: str = ""
    token_ids: tuple[int, ...] = ()
    """Token ids of the answer. Default: the bytes of its text in UTF-8."""
    logprobs: tuple[float, ...] = ()
    finish_reason: FinishReason = "stop"
    failure: Failure | None = None
    """A failure instead of an answer; a string is a ModelError's message."""
    seconds: float = 0.0
    """How long the answer takes."""

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

EVERYBODY = ""
"""The key of the queue of a script that is one list for all agents."""

_LIST = TypeAdapter(list[Answer])
_BY_AGENT = TypeAdapter(dict[str, list[Answer]])


class ScriptedModel:
    """Answers are consumed in order: of one list for all agents, or of each agent's own.

    A request beyond the script's end is a failure, and `verify` then raises ModelError; it also
    does while answers are left.
    """

    batching: Batching = "static"
    capabilities = Capabilities(generates=False)

    def __init__(self, script: Script, name: str = "scripted") -> None:
        """Raises RecipeError for a script of another shape."""
        self.name = name
        self._queues = {key: deque(answers) for key, answers in _read(script, name).items()}
        self._overrun = ""
        self._sizes = {key: len(queue) for key, queue in self._queues.items()}

    @classmethod
    def from_file(cls, path: str | Path) -> ScriptedModel:
        """Read a YAML file; raises RecipeError for one that cannot be read."""
        try:
            text = Path(path).expanduser().read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise RecipeError(f"cannot read the script {path}: {error}") from error
        try:
            script = parse_yaml(text, "its text")
        except RecipeError as error:
            raise RecipeError(f"the script {path} is not YAML: {error}") from error
        return cls(script, name=f"scripted:{path}")

    async def generate(
        self, requests: Sequence[Request], progress: Progress | None = None
    ) -> list[Action]:
        """The next answers, in the order of `requests`."""
        actions = [self._next(request) for request in requests]
        if (seconds := max((a.seconds for a in actions), default=0.0)) > 0:
            await asyncio.sleep(seconds)
        if progress:
            for request, action in zip(requests, actions, strict=True):
                progress(request, len(action.token_ids), action.text)
        return actions

    async def aclose(self) -> None:
        """Do nothing: the model holds no resources."""

    def verify(self) -> None:
        """Raise ModelError when the script was not used up, or was too short."""
        if self._overrun:
            raise ModelError(self._overrun)
        left = [
            f"{len(queue)} of {self._sizes[key]}{f' for agent {key!r}' if key else ''}, "
            f"next {_shorten(queue[0].text)!r}"
            for key, queue in self._queues.items()
            if queue
        ]
        if left:
            raise ModelError(f"answers of {self.name!r} were not asked for: {'; '.join(left)}")

    def _next(self, request: Request) -> Action:
        agent = request.call.agent
        key = EVERYBODY if EVERYBODY in self._queues else agent
        if queue := self._queues.get(key):
            return self._action(request, queue.popleft())
        self._overrun = (
            f"{self.name!r} has run out: agent {agent!r} asks for one answer more than the "
            f"{self._sizes.get(key, 0)} that are in its list; add answers, or ask for fewer"
        )
        failure = failure_of(ModelError(self._overrun))
        return self._action(request, Answer(failure=failure))

    def _action(self, request: Request, answer: Answer) -> Action:
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


def _read(script: Script, name: str) -> dict[str, list[Answer]]:
    try:
        if isinstance(script, Mapping):
            return _BY_AGENT.validate_python(script)
        return {EVERYBODY: _LIST.validate_python(script)}
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise RecipeError(
            f"{name!r} is no script ({where}: {first['msg']}); write a list of answers, or a "
            "mapping from agent to list"
        ) from error


def _shorten(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:37]}..."
