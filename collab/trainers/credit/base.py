"""What an algorithm of credit is: from groups of episodes to a weight for each response.

A function is enough where a group's weights depend on nothing but the group. A class is for what
keeps state from step to step, or looks at all groups of a step.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from inspect import isclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from collab.errors import RecipeError, TrainingError
from collab.plugins import call, check_call, check_options, check_plain, find
from collab.recipe import Recipe, TrainerSpec
from collab.recipe.component import Component
from collab.records import Action
from collab.trainers.credit.group import Group, Key, Weights

if TYPE_CHECKING:
    from torch import Tensor


class FrozenModel(Protocol):
    """A model that nothing trains: a base with its adapters off, or one beside the team's."""

    @property
    def hidden_size(self) -> int:
        """The length of a hidden state."""

    def encode(self, text: str) -> tuple[int, ...]:
        """The tokens of a text, none of them a control token."""

    async def features(self, sequences: Sequence[Sequence[int]]) -> Tensor:
        """The last layer's state at each sequence's last token: float32, [n, hidden].

        No gradient goes through it. Sequences are as many as one likes: they are read in batches.
        """


class TeamModels(Protocol):
    """The models of a team in training."""

    def base(self, agent: str) -> FrozenModel:
        """The base model of a trained agent, without adapters.

        Raises:
            RecipeError: the agent's whole model is trained, so that it has no frozen base.
        """

    def other(self, name: str) -> FrozenModel:
        """A local model beside the team's, by its name; loaded once, and closed with the run."""

    async def logprobs(
        self, agent: str, actions: Sequence[Action], *, reference: bool = False
    ) -> list[tuple[float, ...]]:
        """The log-probability of each token of some responses of an agent, in nats.

        Under the agent's policy as it is now, or under its `reference`, from before training; at
        the agent's sampling settings.
        """


@runtime_checkable
class UsesModels(Protocol):
    """An algorithm that reads the team's models."""

    async def open(self, models: TeamModels) -> None:
        """Called once, before the first step and before `restore`."""


Rule = Callable[..., Weights]
"""A group in, its weights out; further parameters are options."""


@runtime_checkable
class Algorithm(Protocol):
    """Gives credit to the groups of a step. Options are given to its constructor."""

    async def credit(self, groups: Sequence[Group]) -> Sequence[Weights]:
        """The weights of each group: a number for a response, or one for each of its tokens.

        `await group.score(...)` has further joint actions scored.
        """

    def state(self) -> Mapping[str, Any]:
        """What the next step depends on: numbers, strings, lists, mappings and tensors."""

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from what `state` gave."""


@runtime_checkable
class Prepares(Protocol):
    """An algorithm that can begin with a group before the step's other groups are played."""

    async def prepare(self, group: Group) -> None:
        """Called once a group's episodes are whole, while others are still being sampled.

        Joint actions that it has scored are not scored again when `credit` asks for them.
        """


@runtime_checkable
class Measures(Protocol):
    """An algorithm that has something to tell of each step."""

    def measures(self) -> Mapping[str, float]:
        """Read after every `credit`: numbers by name, which become metrics of the step."""


@runtime_checkable
class Spreads(Protocol):
    """An algorithm whose weights are made of more rewards than those that were played."""

    def spreads(self) -> Sequence[Mapping[Key, float]]:
        """Read after every `credit`: by group, what `normalise: group` divides a weight by.

        A weight that is not named is divided by the deviation of the weights, as ever.
        """


@runtime_checkable
class Describes(Protocol):
    """An algorithm that has something to say before anything is run."""

    def describe(self, recipe: Recipe, spec: TrainerSpec) -> Sequence[str]:
        """Lines of `collab train --dry-run`."""


def pays_as_played(algorithm: object) -> bool:
    """Whether a response's weight is of the joint action that it was part of.

    It is unless the algorithm has an attribute `pays_as_played` that says otherwise: where a
    response is paid what it earns with other responses of its teammates, or a share of the team's
    return, no ratio of the teammates' probabilities belongs to the weight.
    """
    return bool(getattr(algorithm, "pays_as_played", True))


def goes_by_rewards(algorithm: object) -> bool:
    """Whether weights come from the rewards and returns of the groups alone, whatever those are.

    They do unless the algorithm has an attribute `goes_by_rewards` that says otherwise, or has
    joint actions scored beside those that were played.
    """
    asks = isinstance(algorithm, Prepares)
    return not asks and bool(getattr(algorithm, "goes_by_rewards", True))


@runtime_checkable
class ChecksRecipe(Protocol):
    """An algorithm that is not right for every team, or not with every option of a trainer."""

    def check(self, recipe: Recipe, spec: TrainerSpec) -> None:
        """Raise RecipeError, with the remedy, where it is wrong; before any model is loaded."""


class PerGroup:
    """An algorithm without state: one function, asked of every group alone."""

    def __init__(self, rule: Rule, **options: Any) -> None:
        self.rule, self.options = rule, options
        self.compares = False
        """Whether a group of one episode has nothing to be compared with."""

    async def credit(self, groups: Sequence[Group]) -> list[Weights]:
        """As `Algorithm.credit`."""
        return [self.rule(group, **self.options) for group in groups]

    def state(self) -> Mapping[str, Any]:
        """Nothing is kept."""
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Nothing was kept."""


def comparing(rule: Rule) -> Rule:
    """Mark a function whose baseline comes from the other episodes of a group."""
    rule.compares = True  # type: ignore[attr-defined]
    return rule


def make_algorithm(component: Component, built_in: Mapping[str, Any]) -> Algorithm:
    """The algorithm that a recipe names, a function or a class, with its options.

    Raises:
        RecipeError: there is no such algorithm, or it does not take these options.
    """
    found: Callable[..., Any] = find("algorithm", component.use, dict(built_in))
    what = f"algorithm '{component.use}'"
    if isclass(found):
        options = check_options(what, found.__init__, component.options)
        algorithm = call(what, RecipeError, partial(found, **options))
        if not isinstance(algorithm, Algorithm):
            raise RecipeError(
                f"{what} is a class without the methods of an algorithm: credit, state, restore"
            )
        return algorithm
    if component.use not in built_in:
        check_call(what, found, ("group",), component.options)
        check_plain(what, found)
    options = check_options(what, found, component.options)
    rule = found if component.use in built_in else partial(_own, what, found)
    algorithm = PerGroup(rule, **options)
    algorithm.compares = getattr(found, "compares", False)
    return algorithm


def _own(what: str, rule: Rule, group: Group, **options: Any) -> Weights:
    """The weights that a user's function gives; raises TrainingError when it raises."""
    weights = call(what, TrainingError, partial(rule, **options), group)
    if not isinstance(weights, Mapping):
        raise TrainingError(
            f"{what} gave a {type(weights).__name__}; an algorithm gives a mapping from"
            " (episode, turn, agent) to a number, or to a number for each token"
        )
    return weights
