"""Checks of adapters: several in one batch, and the failure of one that does not exist."""

from __future__ import annotations

from collab.errors import CollabError
from collab.models.base import ChecksSettings
from collab.models.conformance.bench import Bench, Broken, NotApplicable, demand, request_of
from collab.records import Action

MISSING = "no-such-adapter"
NOISE = 1e-2
"""Difference of log-probabilities below which two responses may come from the same distribution."""


async def mixed(bench: Bench) -> str:
    """Check that two adapters and the base model answer the same in one batch as alone."""
    if not bench.capabilities.adapters:
        raise NotApplicable("it does not serve adapters")
    if len(bench.adapters) < 2:
        raise NotApplicable("give two adapters that fit the model")
    one, two = bench.adapters[:2]
    rows = (None, one, two, None, two, one)
    batch = [request_of(number=n, adapter=adapter) for n, adapter in enumerate(rows)]
    actions = await bench.ask(*batch)
    for adapter, action in zip(rows, actions, strict=True):
        demand(action.adapter == adapter, f"{adapter} was asked, {action.adapter} answered")
    base, first, second, *mirrored = actions
    others = dict(zip(("the base", two, one), mirrored, strict=True))
    for name, action in {"the base": base, one: first, two: second}.items():
        same = action.text == others[name].text
        demand(same, f"{name} gave different answers to the same request in one batch")
    _differ("the base", base, one, first)
    _differ("the base", base, two, second)
    _differ(one, first, two, second)
    return "the base and two adapters gave different answers in one batch"


def _differ(left: str, one: Action, right: str, other: Action) -> None:
    gaps = [abs(p - q) for p, q in zip(one.logprobs, other.logprobs, strict=False)]
    differ = one.text != other.text or max(gaps, default=0.0) > NOISE
    demand(differ, f"{left} and {right} gave the same answer")


async def missing(bench: Bench) -> str:
    """Check that a request for a missing adapter fails, and the base model does not answer it."""
    bench.require_generation()
    request = request_of(adapter=MISSING)
    try:
        if isinstance(bench.model, ChecksSettings):
            bench.model.check(request.sampling, request.adapter)
        _, action = await bench.try_to_ask([request_of(), request])
    except CollabError as error:
        return f"{type(error).__name__} for adapter {MISSING!r}"
    if action.failure is None:
        raise Broken(
            f"adapter {MISSING!r} is not there, and {action.text!r} was answered; give such a "
            "request a failure, or refuse it in `check`"
        )
    return f"{action.failure.type} for adapter {MISSING!r}"
