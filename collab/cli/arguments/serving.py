"""The options of `collab serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from collab.cli.arguments import completion

PROTECTION = "Who may ask"
LIMITS = "Limits"

Teams = Annotated[
    list[str],
    typer.Argument(
        metavar="TEAM|RECIPE|RUN...",
        help="Teams' names, team or recipe files, folders of runs.",
        autocompletion=completion.teams,
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
