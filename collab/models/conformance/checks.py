"""The checks of an engine: its answers, tokens, adapters, and the end of its work."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter

from collab.errors import CollabError
from collab.models.base import STOP_SECONDS, Request
from collab.models.conformance.bench import Bench, CheckFailed, NotApplicable, request_of, require
from collab.records import Action

BATCH_SIZE = 8


async def answering(bench: Bench) -> str:
    """Check that one request gets one answer, and return the beginning of its text.

    If this check fails, no other check runs.
    """
    [action] = await bench.ask(request_of())
    return f"{action.text[:40]!r}"


async def batching(bench: Bench) -> str:
    """Check that a batch of different prompts and settings gives one action per request, in
    order.
    """
    requests = [
        request_of(
            " ".join(["Count"] * (1 + 2 * n)),
            number=n,
            seed=n,
            temperature=(0.0, 0.7, 1.0)[n % 3],
            max_new_tokens=2 + 3 * n,
            stop=("###",) if n % 2 else (),
        )
        for n in range(BATCH_SIZE)
    ]
    actions = await bench.ask(*requests)
    if bench.capabilities.generates:
        for request, action in zip(requests, actions, strict=True):
            limit = request.sampling.max_new_tokens
            counted = action.usage.new_tokens
            require(counted <= limit, f"{counted} new tokens although max_new_tokens is {limit}")
        prompts = [action.usage.prompt_tokens for action in actions]
        require(prompts == sorted(prompts), f"out of order: growing prompts counted as {prompts}")
    return f"{BATCH_SIZE} requests with their own settings, {BATCH_SIZE} actions in order"


async def streaming(bench: Bench) -> str:
    """Check that the pieces passed to `progress` add up to the answer."""
    reports: list[tuple[int, str]] = []

    def progress(_request: Request, count: int, text: str) -> None:
        reports.append((count, text))

    [action] = await bench.ask(request_of(), progress=progress)
    counts, text = [count for count, _ in reports], "".join(text for _, text in reports)
    require(counts == sorted(counts), f"progress counts tokens backwards: {counts}")
    require(
        text in ("", action.text), f"progress reported {text!r}, and the answer is {action.text!r}"
    )
    return f"{len(reports)} reports, {len(text)} of {len(action.text)} characters"


async def lengths(bench: Bench) -> str:
    """Check that `max_new_tokens` ends an answer, with the right finish reason."""
    bench.require_generation()
    short, longer = await bench.ask(request_of(max_new_tokens=4), request_of(max_new_tokens=12))
    ended = short.finish_reason
    require(ended == "length", f"4 tokens ended by finish_reason {ended!r}, not length")
    require(len(short.text) < len(longer.text), "12 tokens gave no more text than 4")
    for action, limit in ((short, 4), (longer, 12)):
        counted = action.usage.new_tokens
        require(counted <= limit, f"{counted} new tokens although max_new_tokens is {limit}")
    return "truncated at 4 and 12 tokens, finish_reason length"


async def stop(bench: Bench) -> str:
    """Check that an answer ends before a stop string."""
    bench.require_generation()
    [whole] = await bench.ask(request_of(max_new_tokens=32))
    text = whole.text.strip()
    require(len(text) > 4, f"32 tokens gave {whole.text!r}, too short to test stop strings")
    if bench.capabilities.seeds:
        middle = whole.text.index(text) + len(text) // 2
        string = whole.text[middle : middle + 3]
    else:
        [(string, _)] = Counter(text[1:].replace(" ", "")).most_common(1)
    [cut] = await bench.ask(request_of(max_new_tokens=32, stop=("\x00never", string)))
    require(string not in cut.text, f"the answer continues past the stop string {string!r}")
    require(cut.finish_reason == "stop", f"finish_reason is {cut.finish_reason!r}, not stop")
    if bench.capabilities.seeds:
        before = whole.text.partition(string)[0]
        require(cut.text == before, f"with stop {string!r}: {cut.text!r} instead of {before!r}")
    return f"ended before {string!r}"


async def usage(bench: Bench) -> str:
    """Check that an answer's usage counts its tokens."""
    [action] = await bench.ask(request_of())
    counted = action.usage
    require(counted.new_tokens > 0, "usage.new_tokens is 0, so budgets have no effect")
    require(counted.prompt_tokens > 0, "usage.prompt_tokens is 0, so budgets have no effect")
    n_ids = len(action.token_ids)
    require(n_ids in (0, counted.new_tokens), f"{n_ids} token_ids, {counted.new_tokens} counted")
    cost = "" if counted.cost is None else f", ${counted.cost:.6f}"
    return f"{counted.prompt_tokens} prompt and {counted.new_tokens} new tokens{cost}"


async def tokens(bench: Bench) -> str:
    """Check that an answer has one log-probability per token id, and that the ids spell its
    text.
    """
    greedy = request_of(max_new_tokens=12)
    drawn = request_of(number=1, seed=1, temperature=1.0, max_new_tokens=12)
    actions = await bench.ask(greedy, drawn)
    if not bench.capabilities.tokens and not any(action.token_ids for action in actions):
        raise NotApplicable("it returns no tokens, so its agents cannot be trained")
    for action in actions:
        if bench.capabilities.tokens:
            require(bool(action.token_ids), "token_ids are declared but missing")
            require(bool(action.logprobs), "logprobs are declared but missing")
            require(bool(action.prompt_ids), "prompt_ids are declared but missing")
        _check_counts(action)
    return _check_text(bench, actions)


def _check_counts(action: Action) -> None:
    tokens, logprobs = len(action.token_ids), action.logprobs
    require(len(logprobs) in (0, tokens), f"{tokens} token_ids and {len(logprobs)} logprobs")
    wrong = [p for p in logprobs if not math.isfinite(p) or p > 1e-4]
    require(not wrong, f"{wrong[:1]} is not a log-probability")
    if action.prompt_ids:
        counted, n_ids = action.usage.prompt_tokens, len(action.prompt_ids)
        require(counted == n_ids, f"{n_ids} prompt_ids, and usage.prompt_tokens is {counted}")


def _check_text(bench: Bench, actions: list[Action]) -> str:
    """Check that the token ids decode to the text, if the engine has a tokenizer."""
    tokenizer = getattr(bench.model, "tokenizer", None)
    if tokenizer is None:
        return "ids and log-probabilities agree; no tokenizer to check the text with"
    for action in actions:
        decoded = tokenizer.decode(list(action.token_ids), skip_special_tokens=True)
        require(
            decoded == action.text, f"the tokens decode to {decoded!r}, the text {action.text!r}"
        )
    return "ids, log-probabilities and text agree"


async def seeds(bench: Bench) -> str:
    """Check that the same batch gives the same tokens, and other seeds give others."""
    if not bench.capabilities.seeds:
        raise NotApplicable("it does not declare reproducible seeds")
    batch = [request_of(number=n, seed=n, temperature=1.0) for n in range(4)]
    actions = [await bench.ask(*batch) for _ in range(2)]
    first, again = [[action.token_ids or action.text for action in each] for each in actions]
    require(first == again, "the same batch with the same seeds gave different answers")
    require(len(set(first)) > 1, "four seeds gave the same answer at temperature 1")
    return "the same batch gave the same answers twice, and four seeds gave different ones"


MISSING_ADAPTER = "no-such-adapter"
LOGPROB_NOISE = 1e-2
"""Difference of log-probabilities below which two responses may come from the same distribution."""


async def adapters(bench: Bench) -> str:
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
        require(action.adapter == adapter, f"{adapter} was asked, {action.adapter} answered")
    base, first, second, *mirrored = actions
    others = dict(zip(("the base", two, one), mirrored, strict=True))
    for name, action in {"the base": base, one: first, two: second}.items():
        same = action.text == others[name].text
        require(same, f"{name} gave different answers to the same request in one batch")
    _check_difference("the base", base, one, first)
    _check_difference("the base", base, two, second)
    _check_difference(one, first, two, second)
    return "the base and two adapters gave different answers in one batch"


def _check_difference(left: str, one: Action, right: str, other: Action) -> None:
    gaps = [abs(p - q) for p, q in zip(one.logprobs, other.logprobs, strict=False)]
    differ = one.text != other.text or max(gaps, default=0.0) > LOGPROB_NOISE
    require(differ, f"{left} and {right} gave the same answer")


async def missing_adapter(bench: Bench) -> str:
    """Check that a request for a missing adapter fails, and the base model does not answer it."""
    bench.require_generation()
    request = request_of(adapter=MISSING_ADAPTER)
    try:
        bench.model.check(request.sampling, request.adapter)
        _, action = await bench.try_to_ask([request_of(), request])
    except CollabError as error:
        return f"{type(error).__name__} for adapter {MISSING_ADAPTER!r}"
    if action.failure is None:
        raise CheckFailed(
            f"adapter {MISSING_ADAPTER!r} is not there, and {action.text!r} was answered; give such"
            " a request a failure, or refuse it in `check`"
        )
    return f"{action.failure.type} for adapter {MISSING_ADAPTER!r}"


TOO_MANY_WORDS = 2_200_000
"""Number of words in a prompt that exceeds every model's context."""


async def context(bench: Bench) -> str:
    """Check that a prompt beyond the context fails alone, and the rest of its batch is answered."""
    bench.require_generation()
    words = bench.capabilities.context or TOO_MANY_WORDS
    good, bad = await bench.try_to_ask([request_of(), request_of("a " * words, number=1)])
    if bad.failure is None:
        raise CheckFailed(
            f"a prompt of {words} words was answered: {bad.text[:80]!r}; give one beyond the "
            "context a failure (ContextOverflow)"
        )
    require(bad.failure.boundary == "model", f"it failed as {bad.failure.type}, no ModelError")
    require(good.failure is None, f"another request of the batch failed with it: {good.failure}")
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
    in_time = not call.cancel() or (await asyncio.wait([call], timeout=STOP_SECONDS))[0]
    require(bool(in_time), f"a canceled call had not returned after {STOP_SECONDS:g} s")
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
