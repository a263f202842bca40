"""`collab models`."""

from __future__ import annotations

WRITTEN = {
    "transformers": "NAME, OWNER/NAME, ./FOLDER",
    "scripted": "scripted:FILE.yaml",
    "echo": "echo",
    "replay": "replay:RUN",
    "anthropic": "anthropic:NAME",
}


def command() -> None:
    """List the model aliases, where they come from, and the engines.

    Any model of the Hugging Face hub (OWNER/NAME) and any local folder (./FOLDER) can be named
    too. What an engine needs and this machine lacks is told by: collab doctor

    [bold]Examples[/]
      collab models
      collab run coding --task humaneval/12 --model smollm2-135m
      collab run coding --task humaneval/12 --model Qwen/Qwen2.5-Coder-0.5B-Instruct
      collab run coding --task humaneval/12 --model anthropic:claude-sonnet-4-5
    """
    from collab.cli.page import Column, Piece, open_page
    from collab.models.store import stored_models
    from collab.recipe.model import ENGINES

    aliases: list[list[Piece]] = [
        [
            (model.alias, "bold"),
            f"{model.size / 1e6:.0f} MB",
            ("cached", "green") if model.folder else "not yet",
            model.source,
            model.license,
            model.description,
        ]
        for model in stored_models()
    ]
    titles = ("fetched", "source", "license")
    page = open_page()
    page.table(
        [
            Column("alias"),
            Column("size", right=True),
            *map(Column, titles),
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
