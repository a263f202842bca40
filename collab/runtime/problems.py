"""Looks up problems by address, and the recipe with their suite."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from collab.errors import RecipeError
from collab.feedback import check_sources
from collab.naming import as_name
from collab.recipe import Recipe, TaskSpec, documents, library, load_task
from collab.recipe.feedback import SolvedFeedbackSpec
from collab.records import Problem
from collab.runtime.rehearsal import gives_feedback
from collab.tasks import Suite, open_suite, split_address
from collab.trust import Consent
from collab.wording import format_option

MAX_EPISODES = 1_000_000
"""Maximum number of episodes of a run, of a training step, or of a held-out evaluation."""


def check_episodes(number: int, settings: str) -> None:
    """Check the number of episodes that `settings` plan at once, all of which are kept in memory.

    Raises:
        RecipeError: there are too many.
    """
    if number > MAX_EPISODES:
        raise RecipeError(f"{settings}: more than {MAX_EPISODES:,} episodes; lower one of them")


def find_problems(
    recipe: Recipe, addresses: Sequence[str], *, trust: Consent = False
) -> tuple[Recipe, list[Problem]]:
    """Return the problems at `addresses`, each once, and the recipe with their suite as `task`.

    The suite of a hub dataset has the commit id that was read. Without an address, the recipe's
    whole suite is selected. If the addresses name another suite, `trust` decides whether
    third-party code in it may run.

    Raises:
        RecipeError: the addresses have different suites, there is no suite, there are too many
            episodes, or a feedback source does not support a problem.
        Untrusted: a third-party suite would run code, and is not approved.
        TaskError: a problem is not in the suite.
    """
    suite, problems = open_problems(recipe, addresses, trust)
    return recipe.model_copy(update={"task": suite.spec}), problems


def open_problems(
    recipe: Recipe, addresses: Sequence[str], trust: Consent
) -> tuple[Suite, list[Problem]]:
    """Return the suite of `find_problems`, and its problems at `addresses`.

    Raises:
        RecipeError, Untrusted, TaskError: see `find_problems`.
    """
    spec, selections = _find_suite(recipe, addresses, trust)
    suite = open_suite(spec)
    problems = [problem for selection in selections for problem in suite.select(selection)]
    unique = {problem.address: problem for problem in problems}
    check_episodes(len(unique) * recipe.samples, "the number of problems, and of samples")
    if gives_feedback(recipe):
        sources = [source for source in recipe.team.feedback if source.required]
        is_scored = spec.reward is not None or spec.environment is not None
        if not is_scored and any(isinstance(source, SolvedFeedbackSpec) for source in sources):
            raise RecipeError(
                f"feedback 'solved' reads the reward, but the problems of '{spec.name}' are not"
                " scored; add a reward to the suite, or use another source"
            )
        for problem in unique.values():
            check_sources(recipe.team.feedback, problem)
    return suite, list(unique.values())


def flatten_addresses(addresses: Sequence[Any]) -> list[str]:
    """Return addresses and lists of addresses as one flat list.

    Raises:
        RecipeError: an item is not text, or a list is empty, which would otherwise select the
            recipe's whole suite.
    """
    flat: list[str] = []
    for item in addresses:
        inner = [item] if isinstance(item, str) else item
        if not isinstance(inner, Sequence) or not all(isinstance(one, str) for one in inner):
            raise RecipeError(f"an address is text such as 'humaneval/12', got {item!r:.80}")
        if not inner:
            raise RecipeError(
                "the list is empty; pass rows or addresses, or leave it out for the whole suite of"
                " the recipe"
            )
        flat += inner
    return flat


def _find_suite(
    recipe: Recipe, addresses: Sequence[str], trust: Consent
) -> tuple[TaskSpec, list[str]]:
    if not addresses:
        if recipe.task is None:
            suite = recipe.team.suite if "suite" in recipe.team.model_fields_set else "SUITE"
            example = format_option("task", f"{suite}/0")
            raise RecipeError(
                f"no task given; choose one, e.g. {example}; `collab tasks` lists the suites"
            )
        return recipe.task, [""]
    pairs = [split_address(address) for address in addresses]
    suites = list(dict.fromkeys(suite for suite, _ in pairs))
    if len(suites) > 1:
        raise RecipeError(
            f"a run takes problems of one suite, got {', '.join(suites)}; run each suite separately"
        )
    selections = [selection for _, selection in pairs]
    if recipe.task is not None and _is_own_suite(suites[0], recipe.task):
        return recipe.task, selections
    return load_task(suites[0], like=recipe.team.suite, trust=trust), selections


def _is_own_suite(suite: str, spec: TaskSpec) -> bool:
    """Return True if an address's suite is the recipe's own, by its name or by its file."""
    path, data = Path(suite), spec.source.path
    if library.is_yaml(path):
        return spec.name in (as_name(path.stem), documents.read_mapping(path).get("name"))
    return suite == spec.name or bool(data and path.resolve() == Path(data))
