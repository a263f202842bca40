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

    Any model of the Hugging Face hub (OWNER/NAME) and any local folder
    (./FOLDER) can be named too. What an engine needs and this machine lacks
    is told by: collab doctor

    [bold]Examples[/]
      collab models
      collab run coding -t humaneval/12 -m smollm2-135m
      collab run coding -t humaneval/12 -m Qwen/Qwen2.5-Coder-0.5B-Instruct
      collab run coding -t humaneval/12 -m anthropic:claude-sonnet-4-5
    """
    from collab.cli.page import Column, Piece, open_page
    from collab.models.store import stored_models
    from collab.recipe.model import ENGINES

    aliases: list[list[Piece]] = [
        [
            (model.alias, "bold"),
            f"{model.size / 1e6:.0f} MB",
            ("cached", "green") if model.folder else "not yet",
            f"{model.description}; {model.license}, {model.source}",
        ]
        for model in stored_models()
    ]
    page = open_page()
    page.table(
        [
            Column("alias"),
            Column("size", right=True),
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
