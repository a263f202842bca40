"""`collab replay`."""

from __future__ import annotations

import sys
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from collab.cli.options import JSON, TRUST, argument, option, print_remarks
from collab.errors import RecipeError
from collab.signals import INTERRUPTED_STATUS
from collab.wording import counted

if TYPE_CHECKING:
    from collab.recipe import Recipe
    from collab.records import Episode

_TRUST_REMEDY = "; to run it again, read these files and add --trust"


def command(
    run: Path = argument("RUN", "The folder of a run."),
    json: bool = JSON,
    out: Path | None = option("--out", "DIR", "Folder for the record. Default: nothing is saved."),
    trust: bool = TRUST,
) -> None:
    """Run a recorded run again without a model, and compare.

    The command parses, joins and scores the recorded responses again. It skips
    expert feedback, which cannot change a recorded response. If the run has
    third-party functions, it only adds up the recorded rewards unless you pass
    --trust. For training runs, it always does only that.

    Examples:
      collab replay runs/first
      collab replay runs/first --json --out runs/again

    Exit status:
      0  everything is equal
      1  a reward, a token or a failure differs
      2  bad usage
    """
    from collab.cli.live.running import open_view, run_with_view
    from collab.passed_functions import passed_function
    from collab.recipe import read_recipe
    from collab.recipe.documents import read_mapping
    from collab.recipe.names import functions_passed_in_python
    from collab.records.run import open_run
    from collab.runs.about import is_training
    from collab.runs.layout import TRAINING
    from collab.runtime.problems import find_problems
    from collab.trust import approve

    record = open_run(run)
    print_remarks(record.complaints)
    if is_training(run):
        if out is not None:
            raise RecipeError(
                f"--out saves replayed episodes, but {run} is a training run; leave out --out"
            )
        why = f"{run} is a training run; collab replays runs, probes and evaluated teams only"
        task = read_mapping(run / TRAINING).get("task") or {}
        raise typer.Exit(
            _add_up_rewards(record.episodes, why, is_game=bool(task.get("environment")))
        )
    recipe, question = read_recipe(str(run))
    if recipe.task is None:
        raise RecipeError(
            f"{run} has no suite, e.g. because a server recorded it, so its tasks cannot be run"
            " again; `collab show` and `collab report` read it"
        )
    is_game = recipe.environment is not None
    if missing := [
        name for name in functions_passed_in_python(recipe) if passed_function(name) is None
    ]:
        why = f"functions passed in Python are not in a file: {', '.join(missing)}"
        raise typer.Exit(_add_up_rewards(record.episodes, why, is_game=is_game))
    functions = question.of_kinds("function", "command", "server")
    if functions.open and not (trust or out):
        raise typer.Exit(
            _add_up_rewards(record.episodes, functions.text(), _TRUST_REMEDY, is_game=is_game)
        )
    approve(functions, trust)
    samples = max((episode.sample + 1 for episode in record.episodes), default=1)
    recipe = _make_replay_recipe(
        recipe.model_copy(update={"samples": samples}),
        run,
        seal=bool(question.of_kinds("isolation").open and not trust),
    )
    tasks = list(dict.fromkeys(episode.task for episode in record.episodes))
    recipe, problems = find_problems(recipe, tasks)
    finished = run_with_view(recipe, problems, out=out, view=open_view(json=json))
    if finished.status == "interrupted":
        raise typer.Exit(INTERRUPTED_STATUS)
    differences = differences_between(record.episodes, finished.episodes)
    print_remarks(differences, "differs")
    if not differences:
        same = f"the same: rewards and tokens of {counted(len(record.episodes), 'episode')}"
        print(same, file=sys.stderr if json else sys.stdout)
    raise typer.Exit(1 if differences else 0)


def _add_up_rewards(episodes: list[Episode], why: str, remedy: str = "", *, is_game: bool) -> int:
    """Add up the recorded rewards, print why nothing was run, and return the exit status."""
    wrong = [
        f"{episode.id}, turn {turn.index}: its parts add up to {points:.9g}, not to {total:.9g}"
        for episode in episodes
        for turn in episode.turns
        if turn.score
        and not is_game  # a game pays without parts
        and abs((points := fsum(p.points for p in turn.score.parts)) - (total := turn.score.reward))
        > 1e-9
    ]
    print_remarks(wrong, "differs")
    print(
        f"{why}\nso collab ran nothing; it added up the recorded rewards of {len(episodes)}"
        f" episodes{remedy}",
        file=sys.stderr,
    )
    return 1 if wrong else 0


def _make_replay_recipe(recipe: Recipe, run: Path, *, seal: bool) -> Recipe:
    """Return the recipe with the record as every agent's model, and a sealed sandbox if `seal`."""
    from collab.recipe.feedback import ExpertFeedbackSpec
    from collab.recipe.model import ReplaySpec

    recipe = recipe.with_agents({name: {"model": None} for name in recipe.team.agents})
    feedback = tuple(s for s in recipe.team.feedback if not isinstance(s, ExpertFeedbackSpec))
    team = recipe.team.model_copy(update={"feedback": feedback})
    sandbox = recipe.sandbox.model_copy(update={"isolation": "sealed"} if seal else {})
    return recipe.model_copy(
        update={"team": team, "sandbox": sandbox, "model": ReplaySpec(name=str(run))}
    )


def differences_between(recorded: list[Episode], replayed: list[Episode]) -> list[str]:
    """Return the differences between episodes of the same id, in words."""
    by_id = {episode.id: episode for episode in replayed}
    differences = []
    for episode in recorded:
        again = by_id.get(episode.id)
        if again is None:
            differences.append(f"{episode.id}: not run this time")
        elif _tokens(episode) != _tokens(again):
            differences.append(f"{episode.id}: token ids")
        elif _rewards(episode) != _rewards(again):
            differences.append(f"{episode.id}: rewards {_rewards(episode)}, now {_rewards(again)}")
        elif _failure(episode) != _failure(again):
            differences.append(f"{episode.id}: {_failure(episode)}, now {_failure(again)}")
    return differences


def _tokens(episode: Episode) -> list[tuple[str, tuple[int, ...]]]:
    return [(d.agent, d.action.token_ids) for d in episode.decisions()]


def _rewards(episode: Episode) -> list[float | None]:
    return [round(turn.score.reward, 9) if turn.score else None for turn in episode.turns]


def _failure(episode: Episode) -> str:
    return episode.failure.type if episode.failure else "no failure"
