"""Reward parts for the form of programs: their definitions, and whether they parse."""

from __future__ import annotations

from collections import Counter

from collab.agents.classes import CLASS_PREFIX, collect_methods
from collab.analysis import returns_value
from collab.errors import RewardError
from collab.rewards.context import RewardContext
from collab.sandbox.programs import parse_program
from collab.syntax import parse


def defines(context: RewardContext, agent: str, function: str = "") -> tuple[float, str]:
    """The agent defines a function at module level, and the function returns a value.

    Args:
        function: the function's name; `entry_point` means the problem's. "" means the agent's own
            name, and for a helper the problem's `helper_name` if it has one.
    """
    name = function_name(context, agent, function)
    source = context.artifacts[agent]
    if not source.strip():
        return 0.0, f"{agent} wrote no code"
    try:
        returns = returns_value(parse(source), name)
    except SyntaxError as error:
        return 0.0, f"{agent}'s code does not parse: {describe_syntax_error(error)}"
    if returns is None:
        return 0.0, f"{agent} does not define '{name}'"
    if not returns:
        return 0.0, f"'{name}' returns nothing"
    return 1.0, f"'{name}' is defined and returns a value"


def parses(context: RewardContext) -> tuple[float, str]:
    """The joint program parses."""
    try:
        parse_program(context.answer)
    except SyntaxError as error:
        place = context.joint.locate(error.lineno or 0)
        written = f" (line {place[1]} of {place[0]})" if place else ""
        return 0.0, f"the joint program does not parse: {describe_syntax_error(error)}{written}"
    return 1.0, "the joint program parses"


def function_name(context: RewardContext, agent: str, function: str) -> str:
    """Return the name of the function that an agent writes. Options: see `defines`."""
    if function == "entry_point":
        return context.field("entry_point")
    return function or context.roles.function_of(agent, context.problem.public)


def describe_syntax_error(error: SyntaxError) -> str:
    """Return a syntax error as one line of text, with its line number."""
    place = f"line {error.lineno}: " if error.lineno else ""
    return f"{place}{error.msg}"


def methods(context: RewardContext) -> tuple[float, str]:
    """Return the share of the class's methods that at least one agent wrote, and an explanation.

    The share is 0 if the class does not parse.
    """
    wanted = _required_methods(context)
    try:
        parse_program(context.answer)
    except SyntaxError as error:
        return 0.0, f"the joint class does not parse: {describe_syntax_error(error)}"
    missing = sorted(wanted - set(_count_writers(context, wanted)))
    lacking = f"; {', '.join(missing)} missing" if missing else ""
    n_written = len(wanted) - len(missing)
    return n_written / len(wanted), f"{n_written} of {len(wanted)} methods are written{lacking}"


def overlap(context: RewardContext) -> tuple[float, str]:
    """Return the share of the class's methods that several agents wrote, and an explanation."""
    wanted = _required_methods(context)
    twice = sorted(name for name, writers in _count_writers(context, wanted).items() if writers > 1)
    names = f": {', '.join(twice)}" if twice else ""
    counted = f"{len(twice)} of {len(wanted)} methods are written by several agents"
    return len(twice) / len(wanted), counted + names


def _required_methods(context: RewardContext) -> frozenset[str]:
    methods = context.problem.public.get("methods")
    names = frozenset(str(method["name"]) for method in methods or [])
    if not names:
        raise RewardError(
            f"{context.problem.address} has no field 'methods' with the methods to write;"
            " read the rows with source.adapt: classeval"
        )
    return names


def _count_writers(context: RewardContext, wanted: frozenset[str]) -> Counter[str]:
    """Count the agents that wrote each method."""
    name, counts = context.field("entry_point").removeprefix(CLASS_PREFIX), Counter[str]()
    for source in context.contributions.values():
        try:
            counts.update(wanted & collect_methods(source, name, wanted).methods.keys())
        except SyntaxError:
            continue
    return counts
