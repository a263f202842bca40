"""Runs the conformance checks one after another on one engine, each within a time limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from typing import Literal

from collab.models.base import Model, as_model
from collab.models.conformance import checks
from collab.models.conformance.bench import Bench, CheckFailed, ConformanceCheck, NotApplicable
from collab.records import Record

CHECK_SECONDS = 300.0
"""Time limit of one check in seconds. The first check also loads the model."""

CHECKS: dict[str, ConformanceCheck] = {
    "answering": checks.answering,
    "batching": checks.batching,
    "streaming": checks.streaming,
    "lengths": checks.lengths,
    "stop": checks.stop,
    "usage": checks.usage,
    "tokens": checks.tokens,
    "seeds": checks.seeds,
    "adapters": checks.adapters,
    "missing adapter": checks.missing_adapter,
    "context": checks.context,
    "cancellation": checks.cancellation,
    "closing": checks.closing,
}


class CheckOutcome(Record):
    """The result of one check."""

    check: str
    outcome: Literal["ok", "failed", "not applicable"]
    why: str
    seconds: float = 0.0


async def conform(model: Model, adapters: Sequence[str] = ()) -> AsyncIterator[CheckOutcome]:
    """Yield the verdict of each check of `model`, and close the model at the end.

    `adapters` are two or more LoRA adapters that fit the model and give different answers. Without
    them, the engine's support for adapters is not checked.
    """
    bench = Bench(as_model(model), tuple(adapters))
    is_silent = False
    for name, check in CHECKS.items():
        if is_silent and check is not checks.closing:
            yield CheckOutcome(check=name, outcome="not applicable", why="it does not answer")
            continue
        verdict = await _run_check(name, check, bench)
        is_silent = is_silent or (check is checks.answering and verdict.outcome == "failed")
        yield verdict


async def _run_check(name: str, check: ConformanceCheck, bench: Bench) -> CheckOutcome:
    """Run one check and return its verdict, even if the engine blocks or raises an unexpected
    error."""
    started = time.monotonic()
    task = asyncio.ensure_future(check(bench))
    try:
        await asyncio.wait([task], timeout=CHECK_SECONDS)
    finally:
        task.cancel()

    def verdict(outcome: Literal["ok", "failed", "not applicable"], why: str) -> CheckOutcome:
        return CheckOutcome(
            check=name, outcome=outcome, why=why, seconds=time.monotonic() - started
        )

    if not task.done():
        return verdict("failed", f"it did not end within {CHECK_SECONDS:g} s")
    try:
        return verdict("ok", task.result())
    except NotApplicable as reason:
        return verdict("not applicable", str(reason))
    except CheckFailed as reason:
        return verdict("failed", str(reason))
    except (Exception, asyncio.CancelledError) as error:
        return verdict("failed", f"{type(error).__name__}: {error}")
