"""A model that gives the recorded actions of a run again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from collab.errors import ModelError, RecordError
from collab.models.base import Progress, Request
from collab.records import Action, Episode

Key = tuple[str, int, int, int, str]
"""Task, sample, turn, round and agent."""


class ReplayModel:
    """Finds each answer by its call. Tokens, seconds, usage and model are the recorded ones.

    Where one call was recorded more than once, because a task was run twice, the answers take
    turns.
    """

    batching: Literal["static"] = "static"

    def __init__(self, source: str | Path) -> None:
        """Raises RecordError when `source`, a run folder or its episodes, cannot be read."""
        self.name = f"replay:{source}"
        self._actions: dict[Key, deque[Action]] = {}
        for episode in read_episodes(source):
            for key, action in _actions(episode):
                self._actions.setdefault(key, deque()).append(action)

    async def generate(
        self, requests: Sequence[Request], progress: Progress | None = None
    ) -> list[Action]:
        """The recorded actions; raises ModelError for a call that was not recorded."""
        actions = [self._find(request) for request in requests]
        if progress:
            for request, action in zip(requests, actions, strict=True):
                progress(request, len(action.token_ids), action.text)
        return actions

    async def aclose(self) -> None:
        """Nothing to give back."""

    def _find(self, request: Request) -> Action:
        call = request.call
        recorded = self._actions.get((call.task, call.sample, call.turn, call.round, call.agent))
        if recorded is None:
            raise ModelError(
                f"{self.name} holds no answer of agent {call.agent!r} to task {call.task!r}, "
                f"sample {call.sample}, turn {call.turn}, round {call.round}; replay the run with "
                "the recipe, tasks and number of samples that it was recorded with"
            )
        recorded.rotate(-1)
        return recorded[-1]


def read_episodes(source: str | Path) -> Iterator[Episode]:
    """The episodes of a run folder or an `episodes.jsonl`, in the order of their ends.

    A last line that is torn, because its writer was killed, is left out. Raises RecordError for
    a file that cannot be read, and for any other line that is no episode.
    """
    path = Path(source).expanduser()
    path = path / "episodes.jsonl" if path.is_dir() else path
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise RecordError(f"cannot read {path}: {error.strerror}") from error
    for number, line in enumerate(lines[:-1], start=1):
        try:
            yield Episode.model_validate_json(line)
        except ValidationError as error:
            reason = error.errors()[0]["msg"]
            raise RecordError(f"{path}, line {number} is no episode: {reason}") from error


def _actions(episode: Episode) -> Iterator[tuple[Key, Action]]:
    for turn in episode.turns:
        for decision in turn.decisions:
            key = episode.task, episode.sample, turn.index, decision.round, decision.agent
            yield key, decision.action
