"""`collab models`."""

from __future__ import annotations

from typing import Annotated

import typer

WRITTEN = {
    "transformers": "NAME, OWNER/NAME, ./FOLDER",
    "scripted": "scripted:FILE.yaml",
    "echo": "echo",
    "replay": "replay:RUN",
    "anthropic": "anthropic:NAME",
    "openai": "openai:URL#NAME",
}


def command(
    check: Annotated[
        str | None,
        typer.Option("--check", metavar="MODEL", help="Hold its engine to the conformance suite."),
    ] = None,
    adapter: Annotated[
        list[str] | None,
        typer.Option(
            "--adapter", metavar="DIR", help="With --check: a LoRA adapter that fits. Give two."
        ),
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="With --check: an option of the model. Repeatable."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """List the model aliases, where they come from, and the engines.

    Any model of the Hugging Face hub (OWNER/NAME) and any local folder
    (./FOLDER) can be named too. What an engine needs and this machine lacks
    is told by: collab doctor

    With --check a model is asked some short questions that every engine has
    to answer in the same way, one's own included: batches, lengths, stop
    strings, tokens, seeds, adapters, failures, cancellation. Exit status 1
    when one fails.

    [bold]Examples[/]
      collab models
      collab run coding -t humaneval/12 -m smollm2-135m
      collab run coding -t humaneval/12 -m Qwen/Qwen2.5-Coder-0.5B-Instruct
      collab models --check qwen2.5-coder-0.5b
      collab run coding -t humaneval/12 -m anthropic:claude-sonnet-4-6
      collab models --check openai:http://localhost:8000/v1#qwen --set tokens=true
      collab models --check engine.py:mine
    """
    if check is not None:
        from collab.cli.checks import conformance

        conformance.check(check, settings or (), adapter or (), json=json)
    elif adapter or settings:
        raise typer.BadParameter("--adapter and --set are for --check: name the model with it")
    elif json:
        _print_json()
    else:
        _show()


def _print_json() -> None:
    from json import dumps

    from collab.models.store import ALIASES
    from collab.recipe.model import ENGINES

    aliases = [
        {
            "alias": model.alias,
            "description": model.description,
            "license": model.license,
            "bytes": model.size,
            "disk_bytes": model.converted,
            "source": model.source,
            "fetched": model.cached,
        }
        for model in ALIASES.values()
    ]
    print(dumps({"aliases": aliases, "engines": list(ENGINES)}))


def _show() -> None:
    from collab.cli.screen.page import Column, Piece
    from collab.cli.screen.terminal import open_page
    from collab.models.store import ALIASES
    from collab.recipe.model import ENGINES

    aliases: list[list[Piece]] = [
        [
            (model.alias, "bold"),
            f"{model.size / 1e6:.0f} MB",
            f"{model.converted / 1e6:.0f} MB",
            ("cached", "green") if model.cached else "not yet",
            f"{model.description}; {model.license}, {model.source}",
        ]
        for model in ALIASES.values()
    ]
    page = open_page()
    page.table(
        [
            Column("alias"),
            Column("download", right=True),
            Column("on disk", right=True),
            Column("fetched"),
            Column("", wrap=True, style="dim"),
        ],
        aliases,
    )
    engines: list[list[Piece]] = [
        [(name, "bold"), WRITTEN.get(name, f"{name}:NAME"), _first_sentence(spec.__doc__)]
        for name, spec in ENGINES.items()
    ]
    engines.append([("yours", "bold"), "FILE.py:FUNCTION", "A function that returns a Model."])
    page.table([Column("engine"), Column("written"), Column("", wrap=True, style="dim")], engines)


def _first_sentence(text: str | None) -> str:
    return (text or "").strip().partition("\n")[0]
