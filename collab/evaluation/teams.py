"""The teams of an evaluation, and their problems; checked before any work is done."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from collab.errors import RecipeError, TaskError, UnknownName
from collab.evaluation.identity import identity_of, named_files
from collab.evaluation.overlap import overlap_notes
from collab.recipe import Recipe, TaskSpec, read_recipe
from collab.records import Problem
from collab.runs.layout import RECIPE
from collab.runtime.notes import unused
from collab.runtime.problems import find_problems
from collab.tasks import open_suite, split_address
from collab.trust import NOTHING, Question

DEFAULT_K = (1, 3, 5, 10)

_SHARED = ("kind", "hidden", "reward")
"""Fields of a suite that must be the same for all teams, besides its problems."""


@dataclass(frozen=True)
class EvaluatedTeam:
    """A team that is evaluated, with its problems."""

    label: str
    recipe: Recipe
    """The team's recipe, with the suite as its task and the samples that are evaluated."""
    problems: tuple[Problem, ...]
    rows: tuple[int, ...]
    """The positions of the problems in the suite."""
    identity: str
    """A digest of all that its episodes depend on."""
    notes: tuple[str, ...] = ()
    """Notes that the reader of its numbers should know."""
    question: Question = NOTHING
    """What is to be asked before it plays; what is recorded can be read without a yes."""

    @property
    def suite(self) -> TaskSpec:
        assert self.recipe.task is not None, "find_teams gives every recipe its task"
        return self.recipe.task


def find_teams(
    names: Sequence[str],
    *,
    tasks: Sequence[str] = (),
    split: str | None = None,
    samples: int = 1,
    seed: int = 0,
    greedy: bool = False,
    model: str | None = None,
    settings: Sequence[str] = (),
) -> list[EvaluatedTeam]:
    """The teams by name, file or folder, each with the same problems.

    Raises:
        RecipeError: a name that leads nowhere, teams that cannot be compared, bad settings.
        TaskError: a problem or a split that the suite does not have.
    """
    if not names:
        raise RecipeError("an evaluation takes at least one team, none is given")
    teams = []
    for label, name in zip(_labels(names), names, strict=True):
        recipe, question = read_recipe(
            _checked(name),
            task=split_address(tasks[0])[0] if tasks else None,
            settings=settings,
            model=model,
            samples=samples,
            seed=seed,
        )
        recipe = _greedy(recipe) if greedy else recipe
        team = _team_of(label, recipe, tasks, split)
        notes = (*unused(recipe, model), *overlap_notes(recipe, team.problems))
        teams.append(replace(team, question=question, notes=notes))
    for team in teams[1:]:
        _check_comparable(teams[0], team)
    return teams


def choose_k(wanted: Sequence[int] | None, samples: int) -> tuple[int, ...]:
    """The k of pass@k: those wanted, or the usual ones that so many samples can tell.

    Raises:
        RecipeError: a k below 1, or larger than the number of samples.
    """
    if wanted is None:
        return tuple(k for k in DEFAULT_K if k <= samples)
    for k in wanted:
        if k < 1:
            raise RecipeError(f"pass@{k} has no meaning: k counts tries; leave {k} out of --k")
        if k > samples:
            raise RecipeError(
                f"pass@{k} takes at least {k} samples of each problem, there are {samples}; give"
                f" --samples {k}, or leave {k} out of --k"
            )
    return tuple(sorted(set(wanted)))


def _labels(names: Sequence[str]) -> list[str]:
    """A short name for each: of the team, the file or the folder."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise RecipeError(f"'{twice}' is given twice; a team is compared with others")
    labels: list[str] = []
    for name in names:
        path = Path(name)
        short = path.stem if path.suffix in (".yaml", ".yml") else path.resolve().name
        label, number = short or "team", 1
        while label in labels:
            number += 1
            label = f"{short}-{number}"
        labels.append(label)
    return labels


def _checked(name: str) -> str:
    if Path(name).is_dir() and not (Path(name) / RECIPE).is_file():
        raise RecipeError(
            f"the folder '{name}' holds no {RECIPE}, so there is no team in it; give the folder of"
            " a run, or of a training run that has saved its team"
        )
    return name


def _greedy(recipe: Recipe) -> Recipe:
    if recipe.samples > 1:
        raise RecipeError(
            f"greedy responses are all alike, so {recipe.samples} samples tell no more than 1;"
            " leave out --samples or --greedy"
        )
    return recipe.with_agents(
        {
            name: {"sampling": agent.sampling.model_copy(update={"temperature": 0.0})}
            for name, agent in recipe.team.agents.items()
        }
    )


def _team_of(label: str, recipe: Recipe, tasks: Sequence[str], split: str | None) -> EvaluatedTeam:
    recipe, problems = find_problems(recipe, _addresses(recipe, tasks, split))
    assert recipe.task is not None, "find_problems gives the recipe its task"
    suite = open_suite(recipe.task)
    places = {f"{recipe.task.name}/{name}": row for row, name in enumerate(suite.ids)}
    return EvaluatedTeam(
        label=label,
        recipe=recipe,
        problems=tuple(problems),
        rows=tuple(places[problem.address] for problem in problems),
        identity=identity_of(recipe, suite.rows),
    )


def _addresses(recipe: Recipe, tasks: Sequence[str], split: str | None) -> list[str]:
    if split is None:
        return list(tasks)
    if recipe.task is None:
        raise RecipeError("--split takes a suite; give one, e.g. --task humaneval")
    suites = list(tasks) or [recipe.task.source.path or recipe.task.name]
    for address in suites:
        if split_address(address)[1]:
            raise RecipeError(f"--split takes a whole suite, got --task {address}")
    splits = recipe.task.splits
    if not splits:
        raise TaskError(f"the suite '{recipe.task.name}' names no splits; leave out --split")
    if split not in splits:
        raise UnknownName(f"split of '{recipe.task.name}'", split, splits)
    return [f"{suite}/{split}" for suite in suites]


def _check_comparable(first: EvaluatedTeam, other: EvaluatedTeam) -> None:
    ours, others = (named_files(e.suite.model_dump(mode="json")) for e in (first, other))
    differ = [key for key in _SHARED if ours[key] != others[key]]
    if differ:
        key = differ[-1]
        remedy = "--set task.reward=NAME" if key == "reward" else "--task SUITE"
        raise RecipeError(
            f"'{first.label}' and '{other.label}' cannot be compared: the {key} of their suites"
            f" ('{first.suite.name}', '{other.suite.name}') differ; give one for all with {remedy}"
        )
    if first.problems != other.problems:
        raise RecipeError(
            f"'{first.label}' and '{other.label}' cannot be compared: the problems of their suites"
            f" ('{first.suite.name}', '{other.suite.name}') differ; give one for all with"
            " --task SUITE"
        )
