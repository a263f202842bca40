"""The teams of an evaluation and their problems, checked before any work is done."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from hashlib import blake2b
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from collab.distribution import version
from collab.errors import CollabError, RecipeError, TaskError, UnknownName, Untrusted
from collab.evaluation import DEFAULT_K
from collab.naming import as_name, find_free_name
from collab.recipe import Recipe, RewardSpec, TaskSpec, about_rows, library, read_recipe
from collab.recipe.base import Spec
from collab.recipe.in_python import Overrides, TeamLike
from collab.recipe.model import local_weights
from collab.recipe.names import names_of_spec
from collab.records import Problem
from collab.runs.about import is_training
from collab.runs.layout import RECIPE, REFERENCED_FILES, TRAINING
from collab.runtime.notes import warn_unused_settings
from collab.runtime.problems import open_problems
from collab.tasks import split_address
from collab.trust import NO_QUESTION, Consent, Question, approve
from collab.trust.sources import digest_of, sources_of
from collab.wording import counted, format_option

_COMPARED_FIELDS = ("kind", "hidden", "environment", "reward")
"""Fields of a suite that must be the same for all teams, in addition to its problems."""


@dataclass(frozen=True)
class EvaluatedTeam:
    """A team to evaluate, and the problems to run it on."""

    label: str
    recipe: Recipe
    """The team's recipe, with the suite and the samples that are evaluated."""
    problems: tuple[Problem, ...]
    rows: tuple[int, ...]
    """The positions of the problems in the suite."""
    identity: str
    """Digest of everything that the team's episodes depend on."""
    notes: tuple[str, ...] = ()
    """Notes for readers of the team's numbers."""
    question: Question = NO_QUESTION
    """The question to the user before the team runs. Its record can be read without approval."""

    @property
    def suite(self) -> TaskSpec:
        assert self.recipe.task is not None, "find_teams gives every recipe its task"
        return self.recipe.task


@contextmanager
def name_team_in_errors(team: EvaluatedTeam, teams: Sequence[EvaluatedTeam]) -> Iterator[None]:
    """Name `team` in an error of collab, unless it is the only one of `teams`."""
    try:
        yield
    except CollabError as error:
        if len(teams) > 1:
            error.args = (f"{team.label}: {error}",)
        raise


def find_teams(
    names: Sequence[TeamLike],
    overrides: Overrides,
    *,
    tasks: Sequence[str],
    reward_from: str | None = None,
    split: str | None = None,
    greedy: bool = False,
    trust: Consent,
) -> list[EvaluatedTeam]:
    """Return the teams to evaluate, each with the same problems. `names` are names, files, folders
    or mappings.

    `tasks` are addresses, instead of the task `overrides`. `reward_from` is the team whose reward
    scores all teams. `trust` decides whether a third-party generator may run.

    Raises:
        Untrusted: the generator was not approved.
        RecipeError: a name is unknown, teams cannot be compared, or settings are wrong.
        TaskError: the suite lacks a problem or a split.
    """
    if not names:
        raise RecipeError("an evaluation needs at least one team, got none")
    labels = labels_of(names)
    overrides = replace(overrides, task=split_address(tasks[0])[0]) if tasks else overrides
    recipes = [_read_team(name, overrides) for name in names]
    if reward_from is not None:
        by_name = dict(zip([*map(str, names), *labels], recipes * 2, strict=True))
        recipes = with_reward_of(reward_from, by_name, recipes, trust)
    teams = []
    for label, (written, unapproved) in zip(labels, recipes, strict=True):
        recipe = _make_greedy(written) if greedy else written
        question = _approve_rows(recipe, unapproved, trust)
        team = _make_team(label, recipe, tasks, split, trust)
        notes = (
            *team.notes,
            *warn_unused_settings(written, overrides.keys.get("model"), overrides.settings),
            *overlap_notes(recipe, team.problems, trust),
        )
        teams.append(replace(team, question=question, notes=notes))
    for team in teams[1:]:
        _check_comparable(teams[0], team)
    return teams


def choose_k(wanted: Sequence[int] | None, samples: int) -> tuple[int, ...]:
    """Return the k of pass@k: those requested, or the defaults that the number of samples allows.

    Raises:
        RecipeError: a k below 1, or larger than the number of samples.
    """
    if wanted is None:
        return tuple(k for k in DEFAULT_K if k <= samples)
    for k in wanted:
        if k < 1:
            raise RecipeError(
                f"pass@{k}: k must be at least 1, got {k}; leave {k} out of {format_option('k')}"
            )
        if k > samples:
            raise RecipeError(
                f"pass@{k} needs at least {counted(k, 'sample')} per problem, got {samples}; use"
                f" {format_option('samples', k)}, or leave {k} out of {format_option('k')}"
            )
    return tuple(sorted(set(wanted)))


def labels_of(names: Sequence[TeamLike]) -> list[str]:
    """Return a short name for each team, from its name, file or folder."""
    texts = [fspath(name) for name in names if isinstance(name, str | PathLike)]
    if len(set(texts)) < len(texts):
        twice = next(name for name in texts if texts.count(name) > 1)
        raise RecipeError(f"'{twice}' is given twice; name each team once")
    labels: list[str] = []
    for name in names:
        path = Path(name if isinstance(name, str | PathLike) else _name_of(name))
        label = as_name(library.name_of(path)) or "team"
        labels.append(find_free_name(label, labels.__contains__))
    return labels


def _name_of(team: Spec | Mapping[str, Any]) -> str:
    """Return the name of a team that is given as data, or "team" if it has none."""
    data = dict(team) if isinstance(team, Spec | Mapping) else {}
    team = data.get("team", data)
    called = dict(team).get("name") if isinstance(team, Spec | Mapping) else team
    return str(called or "team")


def _read_team(name: TeamLike, overrides: Overrides) -> ReadRecipe:
    if (
        isinstance(name, str | PathLike)
        and Path(name).is_dir()
        and not (Path(name) / RECIPE).is_file()
    ):
        inside = sorted(str(file.parent) for file in Path(name).glob(f"*/{RECIPE}"))
        remedy = "the folder of a run, or of a training run that has saved its team"
        raise RecipeError(
            f"the folder '{name}' contains no {RECIPE}, so it is not a team; specify"
            f" {' or '.join(inside[:3]) or remedy}"
        )
    return read_recipe(name, overrides)


def _make_greedy(recipe: Recipe) -> Recipe:
    if recipe.samples > 1:
        raise RecipeError(
            f"greedy samples are all equal, so {recipe.samples} of them add nothing; leave out"
            f" {format_option('samples')} or {format_option('greedy')}"
        )
    return recipe.greedy(recipe.team.agents)


def _approve_rows(recipe: Recipe, question: Question, trust: Consent) -> Question:
    """Return the question that remains after approval of the suite's rows."""
    rows = about_rows(recipe.task, question) if recipe.task else NO_QUESTION
    if rows.open:
        approve(question, trust)
        return NO_QUESTION
    approve(rows, trust)
    return question


def _make_team(
    label: str, recipe: Recipe, tasks: Sequence[str], split: str | None, trust: Consent
) -> EvaluatedTeam:
    suite, problems = open_problems(recipe, _addresses(recipe, tasks, split), trust)
    recipe = recipe.model_copy(update={"task": suite.spec})
    recipe.check_scored()
    places = {f"{suite.spec.name}/{name}": row for row, name in enumerate(suite.ids)}
    return EvaluatedTeam(
        label=label,
        recipe=recipe,
        problems=tuple(problems),
        rows=tuple(places[problem.address] for problem in problems),
        identity=identity_of(recipe, suite.rows),
        notes=(suite.left_out,) if suite.left_out else (),
    )


def _addresses(recipe: Recipe, tasks: Sequence[str], split: str | None) -> list[str]:
    if split is None or recipe.task is None:
        return list(tasks)
    suites = list(tasks) or [recipe.task.source.path or recipe.task.name]
    for address in suites:
        if split_address(address)[1]:
            raise RecipeError(f"{format_option('split')} needs a whole suite, got task {address}")
    splits = recipe.task.splits
    if not splits:
        raise TaskError(
            f"the suite '{recipe.task.name}' has no splits; leave out {format_option('split')}"
        )
    if split not in splits:
        raise UnknownName(f"split of {recipe.task.name}", split, splits)
    return [f"{suite}/{split}" for suite in suites]


def _check_comparable(first: EvaluatedTeam, other: EvaluatedTeam) -> None:
    ours, others = (digest_files(e.suite.model_dump(mode="json")) for e in (first, other))
    differ = [key for key in _COMPARED_FIELDS if ours[key] != others[key]]
    if "reward" in differ:
        raise RecipeError(
            f"'{first.label}' and '{other.label}' cannot be compared: the rewards of their suites"
            f" ('{first.suite.name}', '{other.suite.name}'), or the files of these rewards, differ;"
            f" choose one reward for all with {format_option('reward-from', first.label)}, or the"
            f" one of {other.label}"
        )
    if differ or first.problems != other.problems:
        what, differs = (differ[-1], "differs") if differ else ("problems", "differ")
        raise RecipeError(
            f"'{first.label}' and '{other.label}' cannot be compared: the {what} of their"
            f" suites ('{first.suite.name}', '{other.suite.name}') {differs}; choose one for all"
            f" with {format_option('task', 'SUITE')}"
        )


ReadRecipe = tuple[Recipe, Question]
"""A recipe, and the question before it may run."""


def with_reward_of(
    chosen: str, by_name: Mapping[str, ReadRecipe], recipes: Sequence[ReadRecipe], trust: Consent
) -> list[ReadRecipe]:
    """Return every recipe with the reward of the team `chosen`. If the reward has third-party
    functions, `trust` decides whether they may run.

    Raises:
        RecipeError: no team has that name, or the team has no reward.
        Untrusted: nobody approved the functions of the reward.
    """
    if chosen not in by_name:
        raise UnknownName(f"team for {format_option('reward-from')}", chosen, by_name)
    recipe, question = by_name[chosen]
    reward = recipe.reward
    if reward is None:
        raise RecipeError(
            f"{format_option('reward-from', chosen)}: its recipe has no reward; choose another team"
        )
    approve(question.about_functions(*(text for _, _, text in names_of_spec(reward))), trust)
    return [_replace_reward(other, reward, question) for other, question in recipes]


def _replace_reward(recipe: Recipe, reward: RewardSpec, question: Question) -> ReadRecipe:
    task = recipe.task and recipe.task.model_copy(update={"reward": reward})
    changed = recipe.model_copy(update={"task": task})
    return changed, question.limited_to(text for _, _, text in names_of_spec(changed))


def overlap_notes(
    recipe: Recipe, problems: Sequence[Problem], trust: Consent = False
) -> Iterator[str]:
    """Yield a sentence for each training run of the team's adapters or models that used some of
    these problems.

    Problems are compared by their fields; the suite's name does not matter. `trust` decides whether
    a third-party function may generate the training problems.
    """
    for run in _training_runs(recipe):
        try:
            trained = _training_problems(run, trust)
        except Untrusted:
            yield (
                f"the training problems of {run.name} are unknown: a third-party function"
                f" generates them; read {run / TRAINING}, and add {format_option('trust')}"
            )
            continue
        except CollabError as error:
            yield f"the training problems of {run.name} are unknown: {error}"
            continue
        seen = sum(_problem_fields(problem) in trained for problem in problems)
        if seen:
            yield (
                f"{seen} of {len(problems)} problems are in the training split of {run.name}: the"
                " team may have memorized them"
            )


def _training_runs(recipe: Recipe) -> list[Path]:
    """Return the training runs whose folders hold weights of the team, also of checkpoints."""
    weights = [
        Path(path).resolve()
        for name, agent in recipe.team.agents.items()
        if (model := local_weights(recipe.model_of(name)))
        for path in (agent.adapter, model.name)
        if path and Path(path).is_dir()
    ]
    above = [folder for path in weights for folder in list(path.parents)[:4]]
    return list(dict.fromkeys(folder for folder in above if is_training(folder)))


def _training_problems(run: Path, trust: Consent) -> list[Any]:
    from collab.trainers.training.data import choose_tasks

    recipe, question = read_recipe(str(run / TRAINING))
    if recipe.task is not None:
        approve(about_rows(recipe.task, question), trust)
    assert recipe.trainer is not None, "a training run's recipe has a trainer"
    return [_problem_fields(problem) for problem in choose_tasks(recipe, recipe.trainer).training]


def _problem_fields(problem: Problem) -> dict[str, Any]:
    return {**problem.public, **problem.hidden}


_KEYS_WITHOUT_EFFECT = {
    "": {"name", "description", "samples", "trainer", "concurrency"},
    "team": {"name", "description"},
    "task": {"description", "source", "splits"},
    "sandbox": {"workers"},
}
"""Keys of a recipe that change no episode. A suite is identified by its rows."""

_LARGE_FILE_BYTES = 2**28
"""A file of this many bytes or more is identified by its size and time, not by its content."""


def identity_of(recipe: Recipe, rows: Iterable[Any]) -> str:
    """Return a digest of the recipe, of the files that it names, and of its suite's rows."""
    settings = recipe.model_dump(mode="json")
    for part, keys in _KEYS_WITHOUT_EFFECT.items():
        for key in keys:
            (settings[part] if part else settings).pop(key, None)
    data = [version(), [*recipe.team.agents], digest_files(settings), list(rows)]
    return _digest(json.dumps(data, sort_keys=True, default=str).encode())


def digest_files(value: Any) -> Any:
    """Return the settings with each file and folder replaced by a digest of its content."""
    if isinstance(value, dict):
        return {key: digest_files(item) for key, item in value.items()}
    if isinstance(value, list):
        return [digest_files(item) for item in value]
    return _digest_if_file(value) if isinstance(value, str) else value


def _digest_if_file(text: str) -> str:
    if "\n" in text or len(text) > 1024 or not {".", "/"} & {*text}:  # a prompt, or a plain name
        return text
    file, _, function = text.partition(".py:")
    try:
        path = Path(f"{file}.py" if function else text).expanduser()
        if path.is_file():
            return f"{digest_of(sources_of(path)) if function else _file_digest(path)} {function}"
        if any((path / name).is_file() for name in REFERENCED_FILES):
            inside = sorted(item for item in path.iterdir() if item.is_file())
            return _digest(" ".join(f"{f.name} {_file_digest(f)}" for f in inside).encode())
    except (OSError, ValueError, RuntimeError):  # not a path, or of an unknown user
        return text
    return text


def _file_digest(path: Path) -> str:
    about = path.stat()
    if about.st_size < _LARGE_FILE_BYTES:
        return _digest(path.read_bytes())
    return f"{about.st_size} {about.st_mtime_ns}"


def _digest(data: bytes) -> str:
    return blake2b(data, digest_size=16).hexdigest()
