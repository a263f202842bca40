"""Attacks each of the sandbox's layers on this machine separately, to check whether it holds."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from typing import Any, NamedTuple

from collab.errors import SandboxError
from collab.recipe.sandbox import SandboxSpec
from collab.sandbox.client import bare_environment, interpreter
from collab.sandbox.jail.layers.stack import LAYERS, Layer
from collab.sandbox.jail.probes import CANARY
from collab.sandbox.sandbox import CORRECT_TRIAL, Sandbox

PROBE_SECONDS = 20.0
_MAIN_CODE = "from jail.probes import main; main(sys.argv[2], sys.argv[3] == 'on')"


class LayerReport(NamedTuple):
    """The result of the attacks on one layer."""

    name: str
    holds: bool
    detail: str
    remedy: str = ""
    """The remedy if the layer does not hold."""


async def examine() -> list[LayerReport]:
    """Attack every layer with only that layer on, then run one program behind all layers. Return
    the results."""
    layers = await asyncio.gather(*(asyncio.to_thread(_check_layer, layer) for layer in LAYERS))
    return [*layers, await _check_all_layers()]


def probe(layer: str, *, on: bool) -> dict[str, Any]:
    """Run the probes of `layer`, and return `broke` and `held` by name, or `refused`.

    Raises:
        SandboxError: the probes themselves fail.
    """
    environment = bare_environment()
    if layer != "environment" or not on:  # no PYTHON variable changes the probes' interpreter
        others = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
        environment = {**others, CANARY: "secret"}
    command = interpreter(_MAIN_CODE, layer, "on" if on else "off")
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, timeout=PROBE_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise SandboxError(
            f"the probes of {layer} took more than {PROBE_SECONDS:g} s; try again"
        ) from error
    if not done.stdout:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise SandboxError(f"the probes of {layer} ended with {done.returncode}: {' '.join(last)}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def _check_layer(layer: Layer) -> LayerReport:
    result = probe(layer.name, on=True)
    if refused := result.get("refused"):
        detail = f"not available: {refused['reason']}"
        return LayerReport(layer.name, False, detail, refused["remedy"])
    if result["broke"]:
        return LayerReport(layer.name, False, f"could {', '.join(result['broke'])}", layer.remedy)
    return LayerReport(layer.name, True, f"could not {', '.join(result['held'])}")


async def _check_all_layers() -> LayerReport:
    name = "all together"
    try:
        async with Sandbox(SandboxSpec(workers=1)) as sandbox:
            verdict = await sandbox.check(CORRECT_TRIAL)
    except SandboxError as error:
        return LayerReport(name, False, str(error), "see the layer named")
    if not verdict.passed:
        detail = f"a correct program failed: {verdict.error} {' '.join(verdict.flags)}".strip()
        return LayerReport(name, False, detail, "report this system")
    return LayerReport(name, True, f"a correct program passed in {1000 * verdict.seconds:.0f} ms")
