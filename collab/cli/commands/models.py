"""`collab models`."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from json import dumps
from typing import TYPE_CHECKING

import typer

from collab.cli.options import flag, option
from collab.cli.screen.page import Page, Piece, open_page
from collab.errors import RecipeError

if TYPE_CHECKING:
    from collab.models import Model

NAME_FORMS = {
    "transformers": "NAME, OWNER/NAME, ./FOLDER",
    "scripted": "scripted:FILE.yaml",
    "echo": "echo",
    "replay": "replay:RUN",
    "openai": "openai:URL#NAME",
}
MARKS = {"ok": ("ok", "green"), "failed": ("no", "bold red"), "not applicable": ("-", "yellow")}


def command(
    check: str | None = option("--check", "MODEL", "Run the conformance suite on this model."),
    adapter: list[str] | None = option(
        "--adapter",
        "DIR",
        "With --check: a LoRA adapter for the model. Repeat the option to check two adapters at"
        " once.",
    ),
    settings: list[str] | None = option(
        "--set", "KEY=VALUE", "With --check: an option of the model. Repeatable."
    ),
    json: bool = flag("--json", "Print one JSON object."),
) -> None:
    """List the model aliases, their sources and the engines.

    You can also name any model on the Hugging Face hub (OWNER/NAME) and any
    local folder (./FOLDER). collab doctor shows what an engine still needs.

    With --check, the command tests what every engine must support: batches,
    lengths, stop strings, token ids, seeds, adapters, failures and
    cancellation. The exit status is 1 if a check fails.

    Examples:
      collab models
      collab run coding -t humaneval/12 -m smollm2-135m
      collab run coding -t humaneval/12 -m Qwen/Qwen2.5-Coder-0.5B-Instruct
      collab models --check qwen2.5-coder-0.5b
      collab run coding -t humaneval/12 -m anthropic:claude-sonnet-4-6
      collab models --check openai:http://localhost:8000/v1#qwen --set tokens=true
      collab models --check engine.py:mine
    """
    if check is not None:
        model = _open_model(check, settings or ())
        page = None if json else open_page()
        raise typer.Exit(asyncio.run(_check_model(model, adapter or (), page)))
    if adapter or settings:
        raise RecipeError("--adapter and --set need --check MODEL")
    _list_models(json=json)


def _list_models(*, json: bool) -> None:
    from collab.models.store import ALIASES, source_of
    from collab.recipe.model import ENGINES

    facts = [
        {
            "alias": model.alias,
            "description": model.description,
            "license": model.license,
            "bytes": model.size,
            "disk_bytes": model.converted_size,
            "source": source_of(model),
            "fetched": model.is_cached,
        }
        for model in ALIASES.values()
    ]
    if json:
        print(dumps({"aliases": facts, "engines": list(ENGINES)}))
        return
    aliases: list[list[Piece]] = [
        [
            (model.alias, "bold"),
            f"{model.size / 1e6:.0f} MB",
            f"{model.converted_size / 1e6:.0f} MB",
            ("cached", "green") if model.is_cached else "not yet",
            (f"{model.description}; {model.license}, {source_of(model)}", "dim"),
        ]
        for model in ALIASES.values()
    ]
    page = open_page()
    page.table(["alias", ">download", ">on disk", "fetched", ""], aliases)
    engines: list[list[Piece]] = [
        [
            (name, "bold"),
            NAME_FORMS.get(name, f"{name}:NAME"),
            ((spec.__doc__ or "").strip().partition("\n")[0], "dim"),
        ]
        for name, spec in ENGINES.items()
    ]
    yours = ("A function that returns a Model.", "dim")
    engines.append([("yours", "bold"), "FILE.py:FUNCTION", yours])
    page.table(["engine", "written", ""], engines)


async def _check_model(model: Model, adapters: Sequence[str], page: Page | None) -> int:
    """Run the conformance suite on a model, show the results, and return the exit status.

    This ends the process if the engine's tasks do not stop.
    """
    from collab.models.conformance import conform

    verdicts = []
    async for verdict in conform(model, adapters):
        verdicts.append(verdict)
        if page is not None:
            mark, style = MARKS[verdict.outcome]
            text = f"  {verdict.check:<15}  {verdict.seconds:6.1f} s  "
            page.line((f"{mark:<2}", style), text, (verdict.why, "dim"))
    conforms = all(verdict.outcome != "failed" for verdict in verdicts)
    if page is None:
        checks = [verdict.model_dump() for verdict in verdicts]
        print(dumps({"model": model.name, "conforms": conforms, "checks": checks}))
    elif conforms:
        page.line((f"{model.name} conforms", "bold green"))
    else:
        page.line((f"{model.name} does not conform", "bold red"), ": see the lines marked no")
    if not await _cancel_tasks():
        sys.stdout.flush()
        os._exit(int(not conforms))
    return int(not conforms)


async def _cancel_tasks() -> bool:
    """Return True if the engine's work ends on cancellation; asyncio would wait forever."""
    from collab.models.base import STOP_SECONDS

    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    return not tasks or not (await asyncio.wait(tasks, timeout=STOP_SECONDS))[1]


def _open_model(name: str, settings: Sequence[str]) -> Model:
    from collab.cli.live.view import View
    from collab.models.open import open_model
    from collab.recipe.base import Spec
    from collab.recipe.load import validate
    from collab.recipe.model import ModelSpec, parse_model
    from collab.recipe.overrides import apply_setting

    class CheckedModel(Spec):
        model: ModelSpec

    data = parse_model(name)
    for setting in settings:
        apply_setting(data, setting)
    spec = validate(CheckedModel, {"model": data}, "--check").model
    return open_model(spec, progress=View().show_loading)
