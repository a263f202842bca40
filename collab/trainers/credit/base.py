"""The base class of credit algorithms, and the construction of a recipe's algorithm.

A function is enough if a group's weights depend on that group alone. A class can keep state from
step to step, or read all groups of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import isclass, iscoroutinefunction, unwrap
from typing import TYPE_CHECKING, Any, Protocol

from collab.errors import RecipeError, TrainingError
from collab.plugins import call_function, check_call, check_not_async, check_options, find_function
from collab.recipe import Recipe, TrainerSpec
from collab.recipe.base import Component
from collab.trainers.credit.group import Group, ResponseKey, Weights
from collab.trainers.credit.library import BUILT_IN

if TYPE_CHECKING:
    from torch import Tensor


class FrozenModel(Protocol):
    """A base model without adapters, for algorithms that read hidden states."""

    @property
    def hidden_size(self) -> int:
        """The length of a hidden state."""

    def encode(self, text: str) -> tuple[int, ...]:
        """Return the tokens of a string. None of them is a control token."""

    async def features(self, sequences: Sequence[Sequence[int]]) -> Tensor:
        """Return the last layer's state at each sequence's last token: float32, [n, hidden], no
        gradient.

        Sequences are read in batches, so pass any number of them.
        """


class TeamModels(Protocol):
    """The models of a team in training."""

    def base(self, agent: str) -> FrozenModel:
        """Return the base model of a trained agent, without adapters.

        Raises:
            RecipeError: the agent's whole model is trained, so it has no frozen base.
        """


GroupFunction = Callable[..., Weights]
"""An algorithm that computes the weights of one group. Its other parameters are options."""


class Algorithm:
    """Computes the weights of a step's responses. The constructor takes the recipe's options.

    `credit` is required. Every other method is a hook that may stay empty.
    """

    compares: bool = False
    """True if the algorithm compares an episode with others of its group."""
    scores_unplayed: bool = False
    """True if the algorithm scores combinations, with `group.score`."""
    is_centered: bool = True
    """False if the weights of a group do not add up to about 0, because the baseline comes from
    other steps. `normalize: group` would make them larger the more similar the rewards are."""

    async def open(self, models: TeamModels) -> None:
        """Store the team's models. Called once, before the first step and before `restore`."""

    async def prepare(self, group: Group) -> None:
        """Start work on a finished group while other groups of the step are still being sampled.

        Joint actions that were scored here are not scored again in `credit`.
        """

    async def credit(self, groups: Sequence[Group]) -> Sequence[Weights]:
        """Return the weights of each group: one number per response, or one per token of a
        response.

        To score joint actions that the team did not play, use `await group.score(...)`.
        """
        raise NotImplementedError

    def measures(self) -> Mapping[str, float]:
        """Return the step's metrics, by name. They are read after every `credit`."""
        return {}

    def spreads(self) -> Sequence[Mapping[ResponseKey, float]]:
        """Return, for each group, the divisors that `normalize: group` uses. They are read after
        every `credit`.

        A weight without a divisor is divided by the standard deviation of the weights that it is
        compared with.
        """
        return ()

    def check(self, recipe: Recipe, spec: TrainerSpec) -> None:
        """Check that the algorithm fits a recipe, before any model is loaded.

        Raises:
            RecipeError: the algorithm does not fit. The message gives the remedy.
        """

    def describe(self, recipe: Recipe, spec: TrainerSpec) -> Sequence[str]:  # noqa: ARG002
        """Return lines about the algorithm for `collab train --dry-run`."""
        return ()

    def state(self) -> Mapping[str, Any]:
        """Return the state for a checkpoint: numbers, strings, lists, mappings and tensors.

        A defaultdict comes back as a dict.
        """
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Restore a `state` from a checkpoint."""


class PerGroup(Algorithm):
    """An algorithm that applies one function to each group, and keeps no state."""

    def __init__(self, function: GroupFunction, **options: Any) -> None:
        self.function, self.options = function, options

    async def credit(self, groups: Sequence[Group]) -> list[Weights]:
        return [self.function(group, **self.options) for group in groups]


def comparing(function: GroupFunction) -> GroupFunction:
    """Mark an algorithm whose baseline comes from the other episodes of a group, and return it."""
    function.compares = True  # type: ignore[attr-defined]
    return function


def algorithm_for(component: Component) -> Algorithm:
    """Return the algorithm that a recipe names, a function or a class, with its options.

    Raises:
        RecipeError: there is no such algorithm, or it does not take these options.
    """
    named: Callable[..., Any] = find_function("algorithm", component.use, BUILT_IN)
    what = f"algorithm '{component.use}'"
    if isclass(named):
        options = check_options(what, named.__init__, component.options)
        algorithm: Algorithm = call_function(
            what, RecipeError, partial(_complete_class(what, named), **options)
        )
        return algorithm
    function, options = named, check_options(what, named, component.options)
    if component.use not in BUILT_IN:
        check_call(what, named, ("group",), options)
        check_not_async(what, named)
        function = partial(_call_function, what, named)
    algorithm = PerGroup(function, **options)
    algorithm.compares = getattr(named, "compares", Algorithm.compares)
    return algorithm


def _complete_class(what: str, named: type) -> type:
    """Return the class, with the hooks of `Algorithm` added if it lacks them."""
    is_subclass = issubclass(named, Algorithm)
    required = () if is_subclass else ("state", "restore")
    credit = getattr(named, "credit", Algorithm.credit)
    if credit is Algorithm.credit or not all(hasattr(named, method) for method in required):
        methods = ", ".join(("credit", *required))
        raise RecipeError(f"{what} is a class without the methods of an algorithm: {methods}")
    if not iscoroutinefunction(unwrap(credit)):
        raise RecipeError(f"{what}: its method credit is not async; use async def credit")
    if is_subclass:
        return named
    return type(named.__name__, (named, Algorithm), {})


def _call_function(what: str, function: GroupFunction, group: Group, **options: Any) -> Weights:
    """Return the weights from a user's function.

    Raises:
        TrainingError: the function raises or returns no mapping.
    """
    weights = call_function(what, TrainingError, partial(function, **options), group)
    if not isinstance(weights, Mapping):
        raise TrainingError(
            f"{what} returned {type(weights).__name__}; an algorithm returns a mapping from"
            " (episode, turn, agent) to a number, or to one number per token"
        )
    return weights
