"""`collab serve`."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from collab.cli import options
from collab.cli.options import flag, option
from collab.errors import RecipeError
from collab.serving.settings import KEYS_VARIABLE, History
from collab.serving.settings import Settings as Serving

if TYPE_CHECKING:
    from collab.recipe import Recipe

HOST, PORT = "127.0.0.1", 8000


def command(
    teams: list[str] = options.TEAMS,
    *,
    name: list[str] | None = option(
        "--name",
        "NAME",
        "Name under which clients see a team. Use it once per team. Default: the team's name.",
    ),
    host: str | None = option("--host", "HOST", f"Address to listen on. Default: {HOST}."),
    port: int | None = option(
        "--port",
        "PORT",
        f"Port to listen on; 0 picks a free port. Default: {PORT}.",
        min=0,
        max=65535,
    ),
    model: str | None = options.MODEL,
    settings: list[str] | None = options.SETTINGS,
    field: str | None = options.setting_option(Serving, "field", "NAME"),
    history: History = options.setting_option(Serving, "history", "refuse|join"),
    allow_sampling: bool = options.setting_option(Serving, "allow_sampling"),
    no_details: bool = flag("--no-details", "Omit the text of each agent from answers."),
    mcp: Literal["http", "stdio"] | None = option(
        "--mcp",
        "http|stdio",
        "Offer each team as an MCP tool. http adds /mcp; stdio uses only stdin and stdout.",
    ),
    run_code: bool = options.setting_option(Serving, "run_code"),
    record: Path | None = options.setting_option(Serving, "record", "DIR"),
    key: list[str] | None = option(
        "--key",
        "KEY",
        "Key that clients must send. Others can see it in process lists, so prefer the variable"
        f" {KEYS_VARIABLE}=KEY,KEY.",
    ),
    origin: list[str] | None = option(
        "--origin", "URL", "Allow requests from web pages of this origin. Repeatable."
    ),
    concurrency: int | None = options.setting_option(Serving, "concurrency", "N"),
    queue: int = options.setting_option(Serving, "queue", "N"),
    seconds: float = options.setting_option(Serving, "seconds", "S"),
    max_body: int = options.setting_option(Serving, "max_body", "BYTES"),
    drain: float = option(
        "--drain",
        "S",
        "Seconds to finish answers in progress after SIGTERM or Ctrl-C.",
        min=0,
        default=30.0,
    ),
    sandbox: options.Isolation | None = options.SANDBOX,
    trust: bool = options.TRUST,
) -> None:
    """Serve teams through an OpenAI-compatible API.

    The server implements OpenAI's chat completions and Responses APIs, with and
    without streaming. Clients pass the team's name as the model, and the task
    as the user's message. The response contains the team's joint answer as its
    content, and each agent's text as reasoning and in the object `collab`.
    Without a key, only this machine can use the server. On SIGTERM or Ctrl-C,
    the server finishes the answers in progress.

    Examples:
      collab serve runs/first
      collab serve tldr --model echo --port 8001
      collab serve runs/first runs/second --name old --name new
      COLLAB_API_KEYS=... collab serve runs/first --host 0.0.0.0

    Exit status:
      0  stopped by a signal
      2  bad usage, or a key, a package or a free port is missing
    """
    from collab.recipe.load import validate
    from collab.runtime.notes import warn_unused_settings
    from collab.serving.settings import allowed_hosts, check_extras, read_keys
    from collab.serving.teams import read_teams, served_names, tool_names

    check_extras(mcp=mcp is not None)
    if mcp == "stdio" and (host is not None or port is not None):
        raise RecipeError("--mcp stdio uses only stdin and stdout; leave out --host and --port")
    host, port = host or HOST, PORT if port is None else port
    keys = read_keys(key or ())
    hosts = allowed_hosts(host, keys)
    names = served_names(teams, name or ())
    if mcp is not None:
        tool_names(names)
    recipes = read_teams(
        names,
        settings=options.with_sandbox(settings, sandbox),
        trust=options.consent(trust),
        model=model,
    )
    for team, recipe in recipes.items():
        notes = warn_unused_settings(recipe, model, settings or ())
        options.print_remarks([f"{team}: {note}" for note in notes], "note")
    chosen = {
        "keys": keys,
        "concurrency": concurrency,
        "queue": queue,
        "seconds": seconds,
        "max_body": max_body,
        "details": not no_details,
        "allow_sampling": allow_sampling,
        "history": history,
        "field": field,
        "run_code": run_code,
        "mcp": mcp == "http",
        "record": record,
        "hosts": hosts,
        "origins": tuple(origin or ()),
    }
    serving = validate(Serving, chosen, "server")
    options.set_up_tracing()
    if mcp == "stdio":
        _serve_stdio(recipes, serving)
    else:
        _serve(recipes, serving, host, port, drain)


def _serve(
    recipes: dict[str, Recipe], serving: Serving, host: str, port: int, drain: float
) -> None:
    from collab.serving.application import Application
    from collab.serving.server import bind, serve

    logging.basicConfig(stream=sys.stderr, format="%(asctime)s %(message)s", level=logging.WARNING)
    logging.getLogger("collab.serving").setLevel(logging.INFO)
    listener = bind(host, port)

    async def run() -> None:
        app = Application(recipes, serving)
        async with app.lifespan():
            place = f"[{host}]" if ":" in host else host
            print(
                f"serving {', '.join(recipes)} at http://{place}:{listener.getsockname()[1]}/v1",
                flush=True,
            )
            await serve(app, app.service, listener, drain)

    with listener:
        asyncio.run(run())


def _serve_stdio(recipes: dict[str, Recipe], serving: Serving) -> None:
    from collab.serving.mcp_tools import serve_stdio
    from collab.serving.service import Service

    async def run() -> None:
        service = Service(recipes, serving)
        async with service.open():
            await serve_stdio(service)

    asyncio.run(run())
