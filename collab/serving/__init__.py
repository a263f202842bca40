"""Serves teams through OpenAI's API, for `collab serve` and for applications that mount them.

`app` is the Python entry point. `team` is one team, and `teams` are all of them with their models.
`reading` parses requests. `reply` is the common part of the answers in `chat` and `responses`.
`server`, `application` and `guard` handle HTTP. `service` has the queue, the counters and the
records. `settings` has the options.
"""

from __future__ import annotations

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
    from collab.errors import RecipeError
    from collab.recipe.load import validate
    from collab.serving.settings import Settings, check_extras

    for name in names:
        if not isinstance(name, str | PathLike):
            raise RecipeError(
                f"a served team is a name, a file or a run's folder, got {name!r:.60}; to use a"
                " collab.Team without HTTP, call `run` in a `with` block"
            )
    serving = validate(Settings, settings, "server")
    check_extras(mcp=serving.mcp)
    from collab.serving.application import Application
    from collab.serving.teams import read_teams, served_names

    recipes = read_teams(served_names(names, served_as), trust=trust, model=model)
    return Application(recipes, serving)
