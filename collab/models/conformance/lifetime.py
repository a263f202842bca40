"""Checks of a prompt beyond the context, of canceling a call, and of closing the engine."""

from __future__ import annotations

import asyncio
import time

from collab.models.conformance.bench import Bench, Broken, demand, request_of

ENDLESS = 2_200_000
"""Number of words in a prompt that exceeds every model's context."""
PATIENCE = 2.0
"""Seconds that an engine may take to stop after it was canceled or closed."""


async def context(bench: Bench) -> str:
    """Check that a prompt beyond the context fails alone, and the rest of its batch is answered."""
    bench.require_generation()
    words = bench.capabilities.context or ENDLESS
    good, bad = await bench.try_to_ask([request_of(), request_of("a " * words, number=1)])
    if bad.failure is None:
        raise Broken(
            f"a prompt of {words} words was answered: {bad.text[:80]!r}; give one beyond the "
            "context a failure (ContextOverflow)"
        )
    demand(bad.failure.boundary == "model", f"it failed as {bad.failure.type}, no ModelError")
    demand(good.failure is None, f"another request of the batch failed with it: {good.failure}")
    return f"{bad.failure.type}; the other request was answered"


async def cancellation(bench: Bench) -> str:
    """Check that a canceled call ends soon, and the engine keeps working."""
    begun = asyncio.Event()
    batch = [request_of(number=n, seed=n, max_new_tokens=100) for n in range(4)]
    call = asyncio.ensure_future(bench.model.generate(batch, lambda *_: begun.set()))
    waiting = asyncio.ensure_future(begun.wait())
    await asyncio.wait([call, waiting], timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    started = time.monotonic()
    in_time = not call.cancel() or (await asyncio.wait([call], timeout=PATIENCE))[0]
    demand(bool(in_time), f"a canceled call had not returned after {PATIENCE:g} s")
    seconds = time.monotonic() - started
    await bench.ask(request_of(max_new_tokens=4))
    if not call.cancelled():
        return "it answered before the cancellation, and still answers"
    return f"returned after {seconds:.2f} s, and still answers"


async def closing(bench: Bench) -> str:
    """Check that an engine can be closed twice."""
    await bench.model.aclose()
    await bench.model.aclose()
    return "closed twice"
