"""Serves teams through OpenAI's API, for `collab serve` and for applications that mount them.

`app` is the Python entry point. `team` is one team, and `teams` are all of them with their models.
`reading` parses requests. `reply` is the common part of the answers in `chat` and `responses`.
`server`, `application` and `guard` handle HTTP. `service` has the queue, the counters and the
records. `settings` has the options.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from os import PathLike
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collab.serving.application import Application
    from collab.trust import Consent

__all__ = ["app"]


def app(
    *names: str,
    served_as: tuple[str, ...] = (),
    trust: Consent = False,
    model: str | None = None,
    **settings: Any,
) -> Application:
    """Return an ASGI application with OpenAI's API, in which each team is a model.

    An application that mounts it must enter its `lifespan` within its own lifespan.

    Args:
        names: teams' names, team or recipe files, folders of runs.
        served_as: the name of each team for clients; default: the name of the team or of its run's
            folder.
        trust: True approves the functions of third-party recipes.
        model: for agents without a model of their own.
        settings: fields of `collab.serving.settings.Settings`, e.g. `keys=("...",)`.

    Raises:
        RecipeError: a team or a setting is unknown, or packages are missing.
        Untrusted: a recipe is third-party, would run code, and is not approved.
    """
    from collab.serving.settings import Settings, check_extras

    _check_arguments(names, settings, known=[one.name for one in fields(Settings)])
    check_extras(mcp=settings.get("mcp", False))
    from collab.serving.application import Application
    from collab.serving.teams import read_teams, served_names

    recipes = read_teams(served_names(names, served_as), trust=trust, model=model)
    return Application(recipes, Settings(**settings))


def _check_arguments(names: Iterable[Any], settings: Iterable[str], known: Sequence[str]) -> None:
    from collab.errors import RecipeError, UnknownName

    for name in names:
        if not isinstance(name, str | PathLike):
            raise RecipeError(
                f"a served team is a name, a file or a run's folder, got {name!r:.60}; to use a"
                " collab.Team without HTTP, call `run` in a `with` block"
            )
    for setting in settings:
        if setting not in known:
            raise UnknownName("setting of the server", setting, known)
