"""Reward parts for classes whose methods are shared out: what is written, and what twice."""

from __future__ import annotations

from collections import Counter

from collab.agents.classes import CLASS, written
from collab.errors import RewardError
from collab.rewards.code.structure import explain
from collab.rewards.context import RewardContext
from collab.sandbox.programs import parse_program


def methods(context: RewardContext) -> tuple[float, str]:
    """The share of the class's methods that some agent wrote; 0 where the class does not parse."""
    wanted = _wanted(context)
    try:
        parse_program(context.joint.text)
    except SyntaxError as error:
        return 0.0, f"the joint class does not parse: {explain(error)}"
    missing = sorted(wanted - set(_written(context, wanted)))
    told = f"; {', '.join(missing)} missing" if missing else ""
    n_written = len(wanted) - len(missing)
    return n_written / len(wanted), f"{n_written} of {len(wanted)} methods are written{told}"


def overlap(context: RewardContext) -> tuple[float, str]:
    """The share of the class's methods that more than one agent wrote."""
    wanted = _wanted(context)
    twice = sorted(name for name, writers in _written(context, wanted).items() if writers > 1)
    told = f": {', '.join(twice)}" if twice else ""
    counted = f"{len(twice)} of {len(wanted)} methods are written twice"
    return len(twice) / len(wanted), counted + told


def _wanted(context: RewardContext) -> frozenset[str]:
    found = context.problem.public.get("methods")
    names = frozenset(str(method["name"]) for method in found or [])
    if not names:
        raise RewardError(
            f"{context.problem.address} has no field 'methods' that names what is to be written;"
            " read the rows with source.adapt: classeval"
        )
    return names


def _written(context: RewardContext, wanted: frozenset[str]) -> Counter[str]:
    """How many agents wrote each method."""
    name, found = context.field("entry_point").removeprefix(CLASS), Counter[str]()
    for source in context.contributions.values():
        try:
            found.update(wanted & written(source, name, wanted).methods.keys())
        except SyntaxError:
            continue
    return found
