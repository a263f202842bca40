"""One request's episode: played within its time, and kept where that is wanted."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing

from collab.errors import CollabError
from collab.records import Episode, Problem, failure_of
from collab.runtime.events import EpisodeFinished, Event
from collab.serving.asking import Asked
from collab.serving.refusal import of_failure, too_slow
from collab.serving.service import Service
from collab.serving.team import ServedTeam
from collab.telemetry import asked_by

Hear = Callable[[Event], Awaitable[None]]
"""Is told what happens while it happens; the time that it takes counts as the episode's."""


async def play(
    service: Service,
    team: ServedTeam,
    asked: Asked,
    problem: Problem,
    request: str,
    *,
    hear: Hear,
    carrier: Mapping[str, str] | None = None,
) -> Episode:
    """The episode of a request, for whom there is a place; cancelling this cancels it.

    `carrier` holds the headers of who asks, for the trace that it belongs to.

    Raises:
        Refused: it failed, or took too long.
    """
    limit = service.settings.seconds
    began = time.monotonic()
    timeout = asyncio.timeout(limit)
    try:
        async with timeout:
            with asked_by(carrier, {"collab.request": request}):
                episode = await _watch(team, asked, problem, hear)
    except CollabError as error:
        raise of_failure(failure_of(error)) from error
    except TimeoutError:
        if not timeout.expired():
            raise
        raise too_slow(limit) from None
    finally:
        service.lanes.took(time.monotonic() - began)
    service.keep(team, episode, asked.id)
    if episode.failure is not None:
        raise of_failure(episode.failure)
    return episode


async def _watch(team: ServedTeam, asked: Asked, problem: Problem, hear: Hear) -> Episode:
    found = None
    async with aclosing(team.play(asked, problem, asked.drawn_seed())) as events:
        async for event in events:
            await hear(event)
            if isinstance(event, EpisodeFinished):
                found = event.episode
    assert found is not None, "an episode that is not cancelled ends"
    return found
