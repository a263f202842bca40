"""`collab serve`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from collab.cli.options import (
    Isolation,
    ModelName,
    Settings,
    Trust,
    complete_teams,
    consent,
    one_of,
    send_spans,
    with_sandbox,
)

if TYPE_CHECKING:
    from collab.recipe import Recipe
    from collab.serving.settings import Settings as Serving


PROTECTION = "Who may ask"
LIMITS = "Limits"

Teams = Annotated[
    list[str],
    typer.Argument(
        metavar="TEAM|RECIPE|RUN...",
        help="Teams' names, team or recipe files, folders of runs.",
        autocompletion=complete_teams,
    ),
]
Names = Annotated[
    list[str] | None,
    typer.Option(
        "--name",
        metavar="NAME",
        help="What clients call it; once for each team. Default: its own name.",
    ),
]
Host = Annotated[str, typer.Option("--host", metavar="HOST", help="Address to listen at.")]
Port = Annotated[
    int, typer.Option("--port", metavar="PORT", min=0, max=65535, help="0 for a free one.")
]
Field = Annotated[
    str | None,
    typer.Option(
        "--field",
        metavar="NAME",
        help="The task's field that the user's text fills. Default: the only one, else prompt.",
    ),
]
History = Annotated[
    str,
    typer.Option(
        "--history",
        metavar="refuse|join",
        help="Earlier messages of a conversation: refuse them, or put them before the text.",
    ),
]
AllowSampling = Annotated[
    bool, typer.Option("--allow-sampling", help="Let requests set temperature and top_p.")
]
NoDetails = Annotated[bool, typer.Option("--no-details", help="Leave out what each agent wrote.")]
Mcp = Annotated[
    str | None,
    typer.Option(
        "--mcp",
        metavar="http|stdio",
        help="Each team as an MCP tool: at /mcp beside the rest, or on stdin and stdout only.",
    ),
]
RunCode = Annotated[
    bool, typer.Option("--run-code", help="Let feedback run, sandboxed, what agents write.")
]
Record = Annotated[
    Path | None,
    typer.Option("--record", metavar="DIR", help="Keep all episodes, with what users said."),
]
Keys = Annotated[
    list[str] | None,
    typer.Option(
        "--key",
        metavar="KEY",
        help="A key that clients must send; others of this machine may see it in the list of"
        " processes, and not in COLLAB_API_KEYS (separated by commas).",
        rich_help_panel=PROTECTION,
    ),
]
Origins = Annotated[
    list[str] | None,
    typer.Option(
        "--origin",
        metavar="URL",
        help="Let pages of this origin ask from a browser. Repeatable.",
        rich_help_panel=PROTECTION,
    ),
]
Concurrency = Annotated[
    int | None,
    typer.Option(
        "--concurrency",
        metavar="N",
        min=1,
        help="Episodes at once; a local model answers them in one batch. Default: the recipe's"
        " concurrency, as in collab run.",
        rich_help_panel=LIMITS,
    ),
]
Queue = Annotated[
    int,
    typer.Option(
        "--queue",
        metavar="N",
        min=0,
        help="Requests that wait for a free episode; the next one gets status 429.",
        rich_help_panel=LIMITS,
    ),
]
Seconds = Annotated[
    float,
    typer.Option("--seconds", metavar="S", min=0.1, help="Of one episode.", rich_help_panel=LIMITS),
]
MaxBody = Annotated[
    int,
    typer.Option(
        "--max-body",
        metavar="BYTES",
        min=1,
        help="Of one request.",
        rich_help_panel=LIMITS,
    ),
]
Drain = Annotated[
    float,
    typer.Option(
        "--drain",
        metavar="S",
        min=0,
        help="After SIGTERM, how long answers under way may take.",
        rich_help_panel=LIMITS,
    ),
]


def command(
    teams: Teams,
    *,
    name: Names = None,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    model: ModelName = None,
    settings: Settings = None,
    field: Field = None,
    history: History = "refuse",
    allow_sampling: AllowSampling = False,
    no_details: NoDetails = False,
    mcp: Mcp = None,
    run_code: RunCode = False,
    record: Record = None,
    key: Keys = None,
    origin: Origins = None,
    concurrency: Concurrency = None,
    queue: Queue = 256,
    seconds: Seconds = 600.0,
    max_body: MaxBody = 1_000_000,
    drain: Drain = 30.0,
    sandbox: Isolation = None,
    trust: Trust = False,
) -> None:
    """Serve teams as OpenAI's servers serve models.

    Chat completions and Responses are answered, plain and streamed.

    A client names a team as its model, the user's message is the problem, and
    the team's joint answer is the content. What each agent wrote comes as
    reasoning, and in the object `collab`. Without a key the server is open to
    this machine only. SIGTERM or Ctrl-C let answers under way come to their end.

    [bold]Examples[/]
      collab serve runs/first
      collab serve tldr --model echo --port 8001
      collab serve runs/first runs/second --name old --name new
      COLLAB_API_KEYS=... collab serve runs/first --host 0.0.0.0

    Exit status: 0 ended by a signal, 2 bad usage or something is missing (a
    key, a package, a free port).
    """
    from collab.serving import check_installed, check_mcp
    from collab.serving.keys import local_names, read_keys
    from collab.serving.settings import Settings as Serving
    from collab.serving.teams import named, read_teams, tool_names

    check_installed()
    keys = read_keys(key or ())
    hosts = local_names(host, keys)
    one_of("--history", history, ("refuse", "join"))
    names = named(teams, name or ())
    if mcp is not None:
        one_of("--mcp", mcp, ("http", "stdio"))
        check_mcp()
        tool_names(names)
    recipes = read_teams(
        names, settings=with_sandbox(settings, sandbox), trust=consent(trust), model=model
    )
    serving = Serving(
        keys=keys,
        concurrency=concurrency,
        queue=queue,
        seconds=seconds,
        max_body=max_body,
        details=not no_details,
        allow_sampling=allow_sampling,
        history="join" if history == "join" else "refuse",
        field=field,
        run_code=run_code,
        mcp=mcp == "http",
        record=record,
        hosts=hosts,
        origins=tuple(origin or ()),
    )
    send_spans()
    if mcp == "stdio":
        _serve_stdio(recipes, serving)
    else:
        _serve(recipes, serving, host, port, drain)


def _serve(
    recipes: dict[str, Recipe], serving: Serving, host: str, port: int, drain: float
) -> None:
    import asyncio
    import logging
    import sys

    from collab.serving.application import Application
    from collab.serving.http.server import bind, serve

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
    import asyncio

    from collab.serving.mcp_tools import serve_stdio
    from collab.serving.service import Service

    async def run() -> None:
        service = Service(recipes, serving)
        async with service.open():
            await serve_stdio(service)

    asyncio.run(run())
