"""`collab models --check`: the conformance suite on one engine."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from collab.cli.screen.page import Page
    from collab.models import Model
    from collab.models.conformance import Verdict

PATIENCE = 2.0
"""Seconds that an engine's tasks may take to stop, once it is closed."""

MARKS = {"ok": ("ok", "green"), "failed": ("no", "bold red"), "not applicable": ("-", "yellow")}


def check(name: str, settings: Sequence[str], adapters: Sequence[str], *, json: bool) -> None:
    """Hold an engine to the suite, tell what was found, and exit 1 where it fails."""
    from collab.cli.screen.terminal import open_page

    model = _open(name, settings)
    page = None if json else open_page()
    raise typer.Exit(asyncio.run(_check(model, adapters, page)))


async def _check(model: Model, adapters: Sequence[str], page: Page | None) -> int:
    verdicts = await _conform(model, adapters, page)
    conforms = all(verdict.outcome != "failed" for verdict in verdicts)
    _conclude(model.name, verdicts, page, conforms=conforms)
    status = 0 if conforms else 1
    if not await _all_stopped():
        sys.stdout.flush()
        os._exit(status)
    return status


def _conclude(name: str, verdicts: Sequence[Verdict], page: Page | None, *, conforms: bool) -> None:
    from json import dumps

    if page is None:
        checks = [verdict.model_dump() for verdict in verdicts]
        print(dumps({"model": name, "conforms": conforms, "checks": checks}))
    elif conforms:
        page.line((f"{name} conforms", "bold green"))
    else:
        page.line((f"{name} does not conform", "bold red"), ": see the lines marked no")


async def _all_stopped() -> bool:
    """Whether what the engine began ends when it is cancelled; asyncio would wait without end."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    return not tasks or not (await asyncio.wait(tasks, timeout=PATIENCE))[1]


def _open(name: str, settings: Sequence[str]) -> Model:
    from collab.cli.live.views import Stages
    from collab.models.open import open_model
    from collab.recipe import overrides
    from collab.recipe.base import Spec
    from collab.recipe.load import validate
    from collab.recipe.model import ModelSpec, parse_model

    class Checked(Spec):
        model: ModelSpec

    data = parse_model(name)
    for setting in settings:
        overrides.apply(data, setting)
    spec = validate(Checked, {"model": data}, "--check").model
    stages = Stages()
    return open_model(spec, progress=lambda stage, _done, total: stages.see(stage, total))


async def _conform(model: Model, adapters: Sequence[str], page: Page | None) -> list[Verdict]:
    from collab.models.conformance import conform

    verdicts = []
    async for verdict in conform(model, adapters):
        verdicts.append(verdict)
        if page is not None:
            _show(page, verdict)
    return verdicts


def _show(page: Page, verdict: Verdict) -> None:
    mark, style = MARKS[verdict.outcome]
    told = f"  {verdict.check:<15}  {verdict.seconds:6.1f} s  "
    page.line((f"{mark:<2}", style), told, (verdict.why, "dim"))
