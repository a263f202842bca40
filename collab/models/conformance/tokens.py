"""Checks of the data that training needs: recorded tokens, and seeds."""

from __future__ import annotations

import math

from collab.models.conformance.bench import Bench, NotApplicable, demand, request_of
from collab.records import Action


async def record(bench: Bench) -> str:
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
            demand(bool(action.token_ids), "token_ids are declared but missing")
            demand(bool(action.logprobs), "logprobs are declared but missing")
            demand(bool(action.prompt_ids), "prompt_ids are declared but missing")
        _agree(action)
    return _read_back(bench, actions)


def _agree(action: Action) -> None:
    tokens, logprobs = len(action.token_ids), action.logprobs
    demand(len(logprobs) in (0, tokens), f"{tokens} token_ids and {len(logprobs)} logprobs")
    wrong = [p for p in logprobs if not math.isfinite(p) or p > 1e-4]
    demand(not wrong, f"{wrong[:1]} is not a log-probability")
    if action.prompt_ids:
        counted, given = action.usage.prompt_tokens, len(action.prompt_ids)
        demand(counted == given, f"{given} prompt_ids, and usage.prompt_tokens is {counted}")


def _read_back(bench: Bench, actions: list[Action]) -> str:
    """The decoded token ids are the text, if the engine has a tokenizer to decode them."""
    tokenizer = getattr(bench.model, "tokenizer", None)
    if tokenizer is None:
        return "ids and log-probabilities agree; no tokenizer to check the text with"
    for action in actions:
        decoded = tokenizer.decode(list(action.token_ids), skip_special_tokens=True)
        demand(
            decoded == action.text, f"the tokens decode to {decoded!r}, the text {action.text!r}"
        )
    return "ids, log-probabilities and text agree"


async def seeds(bench: Bench) -> str:
    """Check that the same batch gives the same tokens, and other seeds give others."""
    if not bench.capabilities.seeds:
        raise NotApplicable("it does not declare reproducible seeds")
    batch = [request_of(number=n, seed=n, temperature=1.0) for n in range(4)]
    first, again = [_answers(await bench.ask(*batch)) for _ in range(2)]
    demand(first == again, "the same batch with the same seeds gave different answers")
    demand(len(set(first)) > 1, "four seeds gave the same answer at temperature 1")
    return "the same batch gave the same answers twice, and four seeds gave different ones"


def _answers(actions: list[Action]) -> list[tuple[int, ...] | str]:
    return [action.token_ids or action.text for action in actions]
