"""A model that gives the recorded actions of a run again."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path

from collab.errors import ModelError
from collab.models.base import Batching, Capabilities, Progress, Request
from collab.records import Action, Episode, failure_of, read_episodes

Key = tuple[str, int, int, int, str, int]
"""A decision's place: task, sample, turn, round, agent, and the step of the agent's move."""


class ReplayModel:
    """Finds each answer by its call. Tokens, seconds, usage and model are the recorded ones.

    Where one call was recorded more than once, because a task was run twice, the answers take
    turns.
    """

    batching: Batching = "static"
    capabilities = Capabilities(generates=False)

    def __init__(self, source: str | Path) -> None:
        """Raises RecordError when `source`, a run folder or its episodes, cannot be read."""
        self.name = f"replay:{source}"
        self._actions: dict[Key, deque[Action]] = {}
        for episode in read_episodes(Path(source).expanduser()):
            for key, action in _actions(episode):
                self._actions.setdefault(key, deque()).append(action)

    async def generate(
        self, requests: Sequence[Request], progress: Progress | None = None
    ) -> list[Action]:
        """The recorded actions; a call that was not recorded is a failure."""
        actions = [self._find(request) for request in requests]
        if progress:
            for request, action in zip(requests, actions, strict=True):
                progress(request, len(action.token_ids), action.text)
        return actions

    async def aclose(self) -> None:
        """Do nothing: the model holds no resources."""

    def _find(self, request: Request) -> Action:
        call = request.call
        key = (call.task, call.sample, call.turn, call.round, call.agent, call.step)
        recorded = self._actions.get(key)
        if recorded is None:
            error = ModelError(
                f"{self.name} holds no answer of agent {call.agent!r} to task {call.task!r}, "
                f"sample {call.sample}, turn {call.turn}, round {call.round}; replay the run with "
                "the recipe, tasks and number of samples that it was recorded with"
            )
            return Action(
                text="", finish_reason="failed", model=self.name, failure=failure_of(error)
            )
        recorded.rotate(-1)
        return recorded[-1]


def _actions(episode: Episode) -> Iterator[tuple[Key, Action]]:
    for turn in episode.turns:
        for decision in turn.decisions:
            place = episode.task, episode.sample, turn.index, decision.round
            yield (*place, decision.agent, decision.step), decision.action
