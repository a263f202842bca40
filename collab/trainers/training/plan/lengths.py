"""Upper bounds on the prompts and responses of a step: their number and their lengths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from collab.models import Request
from collab.recipe import TrainerSpec
from collab.runtime.dry_run import CHARACTERS_A_TOKEN, characters
from collab.trainers.credit.shape import Shape

MESSAGE_TOKENS = 16
"""Estimated tokens that a chat template adds per message."""


@dataclass(frozen=True)
class Lengths:
    """One agent's responses at one position in the episodes of a step."""

    prompt: int
    """Most tokens of a prompt."""
    new: int
    """Most tokens of a response."""
    responses: int
    alike: bool
    """Whether the samples of a group have the same prompt."""


def lengths_of(
    requests: Sequence[Request], spec: TrainerSpec, agents: Sequence[str]
) -> dict[str, list[Lengths]]:
    """Return the positions at which each agent acts. `requests` are those of complete episodes."""
    responses = spec.tasks_per_step * spec.group_size
    if spec.turn_structure == "tree":
        responses = episodes_a_step(requests, spec)
    found: dict[str, dict[tuple[int, int, int], Lengths]] = {agent: {} for agent in agents}
    for request in requests:
        call = request.call
        if call.agent not in found:
            continue
        tokens = ceil(characters(request) / CHARACTERS_A_TOKEN)
        tokens += MESSAGE_TOKENS * len(request.messages)
        places, place = found[call.agent], (call.turn, call.round, call.step)
        before = places[place].prompt if place in places else 0
        places[place] = Lengths(
            prompt=max(tokens, before),
            new=request.sampling.max_new_tokens,
            responses=responses,
            alike=call.round == 0 and (call.turn == 0 or spec.turn_structure != "chains"),
        )
    return {agent: list(places.values()) for agent, places in found.items()}


def episodes_a_step(requests: Sequence[Request], spec: TrainerSpec) -> int:
    """Return the episodes of a step; for a tree, its leaves."""
    n_turns = 1 + max((request.call.turn for request in requests), default=0)
    shape = Shape(spec.turn_structure, spec.group_size, n_turns)
    return spec.tasks_per_step * shape.episodes


def longest(lengths: Sequence[Lengths]) -> int:
    """Return the tokens of the longest prompt with its response."""
    return max((item.prompt + item.new for item in lengths), default=0)


@dataclass(frozen=True)
class Rows:
    """The layout of responses in micro-batches."""

    budget: int
    """Tokens of a micro-batch, padding included."""
    shared: bool
    """Whether the responses of a group share one prompt in a row, as many as fit."""
    group_size: int


def learned_tokens(rows: Rows, lengths: Sequence[Lengths]) -> int:
    """Count the tokens to compute for learning from all responses of a step."""
    return sum(_tokens_of_rows(rows, item) for item in lengths)


def micro_batch_tokens(rows: Rows, lengths: Sequence[Lengths]) -> int:
    """Return the tokens of the largest micro-batch."""
    return min(learned_tokens(rows, lengths), max(rows.budget, longest(lengths)))


def _tokens_of_rows(rows: Rows, item: Lengths) -> int:
    fitting = max((rows.budget - item.prompt) // item.new, 1)
    together = min(fitting, rows.group_size) if rows.shared and item.alike else 1
    stems = ceil(item.responses / together)
    return stems * item.prompt + item.responses * item.new
