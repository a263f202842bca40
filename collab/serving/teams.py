"""The served teams, each under a name, with their models open and shared."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from collab.errors import RecipeError
from collab.models import Model, Progress, Request
from collab.models.base import Batching
from collab.models.open import ModelPool
from collab.recipe import Recipe, allow, library, read_recipe
from collab.recipe.feedback import SolvedFeedbackSpec
from collab.recipe.in_python import Overrides
from collab.records import Action, Sampling
from collab.runtime import Session
from collab.runtime.fields import fields_of
from collab.runtime.scheduler import Scheduler
from collab.serving.settings import Settings
from collab.serving.team import ServedTeam
from collab.trust import Consent
from collab.wording import counted

BATCH_WAIT_SECONDS = 0.02
"""Seconds that a batch waits for the next request of a burst, or of an answered episode."""


class BatchedModel(Model):
    """A static model that takes requests at any time: waiting requests share its next batch.

    A batch never waits for an episode that runs a tool or has ended. A batch whose requests were
    all canceled is canceled.
    """

    batching: Batching = "continuous"

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name, self.capabilities = model.name, model.capabilities
        self._scheduler = Scheduler(0, self._report)
        self._progress: dict[int, Progress] = {}

    def check(self, sampling: Sampling, adapter: str | None) -> None:
        """Check that the model supports the settings.

        Raises:
            RecipeError: the model does not support a setting.
        """
        self._model.check(sampling, adapter)

    async def open_early(self, adapter: str | None = None) -> None:
        """Load the model, and an adapter's folder, if the model supports it."""
        await self._model.open_early(adapter)

    async def generate(
        self, requests: Sequence[Request], progress: Progress | None = None
    ) -> list[Action]:
        """Add the requests to the model's next batch, and return one action per request."""
        return await asyncio.gather(*(self._generate(request, progress) for request in requests))

    async def _generate(self, request: Request, progress: Progress | None) -> Action:
        if progress:
            self._progress[id(request)] = progress
        self._scheduler.add_episode()
        try:
            await asyncio.sleep(BATCH_WAIT_SECONDS)
            return await self._scheduler.act(self._model, request)
        finally:
            asyncio.get_running_loop().call_later(
                BATCH_WAIT_SECONDS, self._scheduler.remove_episode
            )
            self._progress.pop(id(request), None)

    async def aclose(self) -> None:
        """Cancel the current batch, but leave the model open."""
        await self._scheduler.aclose()

    def _report(self, request: Request, new_tokens: int, text: str) -> None:
        if progress := self._progress.get(id(request)):
            progress(request, new_tokens, text)


_NAME_OPTION = "--name (in Python: served_as=)"
_NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,99}")


def served_names(names: Sequence[str], served_as: Sequence[str] = ()) -> dict[str, str]:
    """Return a mapping from each name for clients to the team or run that the user named.

    Raises:
        RecipeError: two names are equal, a name is not plain, or the numbers of names differ.
    """
    if served_as and len(served_as) != len(names):
        raise RecipeError(
            f"{counted(len(served_as), 'name')} for {counted(len(names), 'team')}; give one per"
            f" team, in the same order, with {_NAME_OPTION}"
        )
    served: dict[str, str] = {}
    for name, alias in zip(names, served_as or [_plain(name) for name in names], strict=True):
        if not _NAME_PATTERN.fullmatch(alias):
            raise RecipeError(
                f"{alias!r:.60} cannot be a served name; use letters, digits, '.', '_', ':' and"
                f" '-', and give it with {_NAME_OPTION}"
            )
        if alias in served:
            raise RecipeError(f"two teams are called '{alias}'; rename one with {_NAME_OPTION}")
        served[alias] = name
    return served


def read_teams(
    names: Mapping[str, str],
    *,
    settings: Sequence[str] = (),
    model: str | None = None,
    trust: Consent = False,
) -> dict[str, Recipe]:
    """Read each team's recipe, and drop its task. Return the recipes by served name.

    Functions that only the task needs, such as rewards, are not loaded and need no approval.

    Raises:
        RecipeError: a team is unknown.
        Untrusted: a recipe is third-party, would run code, and is not approved.
    """
    served = {}
    for name, team in names.items():
        recipe, question = read_recipe(team, Overrides(settings=settings, keys={"model": model}))
        served[name] = recipe.model_copy(update={"task": None})
        allow(served[name], question, trust)
    return served


def tool_names(names: Iterable[str]) -> dict[str, str]:
    """Return a mapping from tool names, which contain no colon, to the served names.

    Raises:
        RecipeError: two teams would be the same tool.
    """
    tools: dict[str, str] = {}
    for name in names:
        tool = name.replace(":", "_")
        if tool in tools:
            raise RecipeError(
                f"the teams '{tools[tool]}' and '{name}' would have the same tool name '{tool}';"
                f" rename one with {_NAME_OPTION}"
            )
        tools[tool] = name
    return tools


def _plain(name: str) -> str:
    """Return a name for clients: a file's or folder's, with `-` for other characters."""
    return re.sub(r"[^A-Za-z0-9._:-]", "-", library.name_of(Path(name)))


def served_recipe(recipe: Recipe, settings: Settings) -> Recipe:
    """Return a recipe without its task, and without feedback that served teams must not use.

    Raises:
        RecipeError: strangers' programs would run without a sandbox.
    """
    feedback = tuple(
        spec
        for spec in recipe.team.feedback
        if not isinstance(spec, SolvedFeedbackSpec)
        and (settings.run_code or not spec.runs_programs)
    )
    team = recipe.team.model_copy(update={"feedback": feedback})
    served = recipe.model_copy(update={"task": None, "team": team})
    if served.uses_sandbox and served.sandbox.isolation == "unsafe":
        raise RecipeError(
            f"the team '{recipe.team.name}' would run code that clients make it write, but"
            " sandbox.isolation is 'unsafe'; set it to 'sealed'"
        )
    return served


@asynccontextmanager
async def open_teams(
    recipes: Mapping[str, Recipe], settings: Settings
) -> AsyncIterator[dict[str, ServedTeam]]:
    """Context manager that opens the teams by name, with all models, so that no request waits for
    their weights or their servers. Teams with equal models share one copy in memory.

    Raises:
        CollabError: something is missing, or does not fit.
    """
    async with AsyncExitStack() as stack:
        pool = ModelPool()
        stack.push_async_callback(pool.aclose)
        batched: dict[int, BatchedModel] = {}

        def share_batches(model: Model) -> Model:
            """Return the model. A static model is wrapped so that all episodes share its
            batches."""
            if model.batching == "continuous":
                return model
            if id(model) not in batched:
                batched[id(model)] = BatchedModel(model)
                stack.push_async_callback(batched[id(model)].aclose)
            return batched[id(model)]

        teams = {}
        for name, recipe in recipes.items():
            opened = {
                agent: share_batches(pool.open(recipe.model_of(agent)))
                for agent in recipe.team.agents
            }
            session = await Session(recipe, models=opened, pool=pool).open()
            stack.push_async_callback(session.aclose)
            fields = fields_of(recipe, settings.field)
            teams[name] = ServedTeam(name, recipe, fields, session, settings.history)
        for team in teams.values():  # after all adapters are known
            await team.session.load()
        yield teams
