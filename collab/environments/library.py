"""Environments by name: those that come with collab, and users' own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import isclass
from typing import Any

from collab.environments.base import Environment
from collab.errors import EnvironmentFailed, RecipeError
from collab.lazy import BuiltIn
from collab.plugins import call_function, check_options, find_function
from collab.recipe.base import Component

BUILT_IN = BuiltIn(
    "collab.environments",
    {
        "nim": "nim:Nim",
        "kuhn": "kuhn:Kuhn",
        "tic-tac-toe": "tic_tac_toe:TicTacToe",
        "blocks2d": "blocks2d:Blocks2d",
        "grid-plan": "grid_plan:GridPlan",
        "mini-sudoku": "mini_sudoku:MiniSudoku",
    },
)

MakeEnvironment = Callable[[Mapping[str, Any]], Environment]
"""Makes the environment of a problem's fields."""


def class_of(component: Component) -> type[Environment]:
    """Return the environment class that a task names.

    Raises:
        RecipeError: there is no such class.
    """
    named_class: Any = find_function("environment", component.use, BUILT_IN)
    if isclass(named_class) and issubclass(named_class, Environment):
        return named_class
    raise RecipeError(
        f"environment '{component.use}' is not an environment; write a subclass of"
        " collab.environments.Environment, with reset, step and render"
    )


def environment_for(component: Component) -> MakeEnvironment:
    """Return a function that makes the task's environment. A problem's fields override its options.

    Raises:
        RecipeError: there is no such environment, or it is not an environment class. The returned
            function raises it for options that the environment does not accept.
    """
    environment_class: Any = class_of(component)
    what = f"environment '{component.use}'"

    def make(fields: Mapping[str, Any]) -> Environment:
        values = {**component.options, **fields}
        options = check_options(what, environment_class.__init__, values)
        environment: Environment = call_function(
            what, EnvironmentFailed, lambda: environment_class(**options)
        )
        _check_declarations(what, environment)
        return environment

    return make


def _check_declarations(what: str, environment: Environment) -> None:
    """Raise RecipeError for a class without a required declaration."""
    for name in ("seats", "turns"):
        if not getattr(environment, name, None):
            raise RecipeError(f"{what} declares no {name}; set it in the class or in __init__")
    seats = environment.seats
    if not isinstance(seats, tuple) or not all(isinstance(seat, str) for seat in seats):
        raise RecipeError(f"{what}: seats is {seats!r:.80}; use a tuple of names")
    if len(set(seats)) < len(seats):
        raise RecipeError(f"{what} has two seats with the same name: {', '.join(seats)}")
