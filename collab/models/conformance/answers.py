"""Checks of the answers themselves: order, streaming, length, stop strings, counts."""

from __future__ import annotations

from collections import Counter

from collab.models.base import Request
from collab.models.conformance.bench import Bench, demand, request_of

WIDTH = 8


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
        for n in range(WIDTH)
    ]
    actions = await bench.ask(*requests)
    if bench.capabilities.generates:
        for request, action in zip(requests, actions, strict=True):
            limit = request.sampling.max_new_tokens
            counted = action.usage.new_tokens
            demand(counted <= limit, f"{counted} new tokens although max_new_tokens is {limit}")
        prompts = [action.usage.prompt_tokens for action in actions]
        demand(prompts == sorted(prompts), f"out of order: growing prompts counted as {prompts}")
    return f"{WIDTH} requests with their own settings, {WIDTH} actions in order"


async def streaming(bench: Bench) -> str:
    """Check that the pieces passed to `progress` add up to the answer."""
    reports: list[tuple[int, str]] = []

    def progress(_request: Request, count: int, text: str) -> None:
        reports.append((count, text))

    [action] = await bench.ask(request_of(), progress=progress)
    counts, text = [count for count, _ in reports], "".join(text for _, text in reports)
    demand(counts == sorted(counts), f"progress counts tokens backwards: {counts}")
    demand(
        text in ("", action.text), f"progress reported {text!r}, and the answer is {action.text!r}"
    )
    return f"{len(reports)} reports, {len(text)} of {len(action.text)} characters"


async def lengths(bench: Bench) -> str:
    """Check that `max_new_tokens` ends an answer, with the right finish reason."""
    bench.require_generation()
    short, longer = await bench.ask(request_of(max_new_tokens=4), request_of(max_new_tokens=12))
    ended = short.finish_reason
    demand(ended == "length", f"4 tokens ended by finish_reason {ended!r}, not length")
    demand(len(short.text) < len(longer.text), "12 tokens gave no more text than 4")
    for action, limit in ((short, 4), (longer, 12)):
        counted = action.usage.new_tokens
        demand(counted <= limit, f"{counted} new tokens although max_new_tokens is {limit}")
    return "truncated at 4 and 12 tokens, finish_reason length"


async def stop(bench: Bench) -> str:
    """Check that an answer ends before a stop string."""
    bench.require_generation()
    [whole] = await bench.ask(request_of(max_new_tokens=32))
    text = whole.text.strip()
    demand(len(text) > 4, f"32 tokens gave {whole.text!r}, too short to test stop strings")
    if bench.capabilities.seeds:
        middle = whole.text.index(text) + len(text) // 2
        string = whole.text[middle : middle + 3]
    else:
        [(string, _)] = Counter(text[1:].replace(" ", "")).most_common(1)
    [cut] = await bench.ask(request_of(max_new_tokens=32, stop=("\x00never", string)))
    demand(string not in cut.text, f"the answer continues past the stop string {string!r}")
    demand(cut.finish_reason == "stop", f"finish_reason is {cut.finish_reason!r}, not stop")
    if bench.capabilities.seeds:
        before = whole.text.partition(string)[0]
        demand(cut.text == before, f"with stop {string!r}: {cut.text!r} instead of {before!r}")
    return f"ended before {string!r}"


async def usage(bench: Bench) -> str:
    """Check that an answer's usage counts its tokens."""
    [action] = await bench.ask(request_of())
    counted = action.usage
    demand(counted.new_tokens > 0, "usage.new_tokens is 0, so budgets have no effect")
    demand(counted.prompt_tokens > 0, "usage.prompt_tokens is 0, so budgets have no effect")
    given = len(action.token_ids)
    demand(given in (0, counted.new_tokens), f"{given} token_ids, {counted.new_tokens} counted")
    cost = "" if counted.cost is None else f", ${counted.cost:.6f}"
    return f"{counted.prompt_tokens} prompt and {counted.new_tokens} new tokens{cost}"
