"""`collab score`."""

from __future__ import annotations

import asyncio
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from collab.agents.splitting import HELPER, split_program
from collab.cli.options import (
    SANDBOX,
    SETTINGS,
    TRUST,
    Isolation,
    argument,
    consent,
    flag,
    option,
    with_sandbox,
)
from collab.cli.screen.page import Page, open_page
from collab.errors import CollabError, RecipeError, TaskError
from collab.wording import cannot_read

if TYPE_CHECKING:
    from collab.recipe import Recipe
    from collab.records import Failure, Problem, Score
    from collab.rewards import Scorer
    from collab.trust import Consent

_MAX_CHARACTERS = 1 << 26

Work = tuple[str, dict[str, str]]
"""The name of a file, or of several, and the artifacts in it, which are scored together."""

_UNSCORED: dict[str, Any] = {
    **dict.fromkeys(("solved", "tests", "reward", "maximum"), None),
    **{"parts": [], "flags": [], "failures": [], "isolation": None},
}
"""The keys of a score in JSON, and their values without one."""


def command(
    address: str = argument("ADDRESS", "Address of one task, e.g. humaneval/12."),
    programs: list[str] | None = argument("PROGRAM.py", "Files with whole programs.", default=None),
    *,
    agent: list[str] | None = option(
        "--agent", "NAME=FILE", "File with an agent's answer. Repeatable."
    ),
    settings: list[str] | None = SETTINGS,
    sandbox: Isolation | None = SANDBOX,
    trust: bool = TRUST,
    json: bool = flag("--json", "Print one JSON object per program, each on its own line."),
) -> None:
    """Score programs or texts that already exist.

    A whole program is scored as the joint program of the team coding. Its
    function aux (or the name in the problem's field helper_name) counts as the
    work of agent aux, the rest as the work of agent main. A whole text counts
    as the work of one agent. Several programs are scored at the same time.

    Examples:
      collab score humaneval/12 solution.py
      collab score humaneval/12 first.py second.py --json
      collab score humaneval/12 --agent aux=helper.py --agent main=solution.py
      collab score tldr/3 --agent concise=short.txt --agent detailed=long.txt
      collab score mine.jsonl/3 solution.py --set task.reward=code-correct-first

    Exit status: 0 all were scored, regardless of the verdict; 1 one could not be
    scored, e.g. because the sandbox failed; 2 bad usage.
    """
    from collab.recipe.team import HELPER_NAME
    from collab.runtime.problems import find_problems

    recipe = _recipe(address, with_sandbox(settings, sandbox), consent(trust))
    is_code = recipe.task is not None and recipe.task.kind == "code"
    recipe, problems = find_problems(recipe, [address])
    if len(problems) != 1:
        raise TaskError(
            f"collab score needs one problem, but '{address}' has {len(problems)}; choose one, e.g."
            f" {problems[0].address}"
        )
    helper = problems[0].public.get(HELPER_NAME) or HELPER
    works = _read_works(programs or [], agent or [], helper if is_code else None)
    results = asyncio.run(_score_all(recipe, problems[0], works))
    if json:
        for result in results:
            print(result.as_json(problems[0].address))
    else:
        _show(open_page(), problems[0].address, results)
    raise typer.Exit(1 if any(result.failure for result in results) else 0)


@dataclass(frozen=True)
class Result:
    file: str
    score: Score | None
    failure: Failure | None
    seconds: float

    def as_json(self, address: str) -> str:
        from json import dumps

        data: dict[str, Any] = {"task": address, "file": self.file, **_UNSCORED}
        if self.score:
            data |= self.score.model_dump(include=set(_UNSCORED))
            parts = self.score.parts
            data["parts"] = [{**part.model_dump(), "points": part.points} for part in parts]
        failure = self.failure
        data["failure"] = failure.model_dump(include={"type", "message"}) if failure else None
        return dumps({**data, "seconds": round(self.seconds, 6)})


def _recipe(address: str, settings: list[str], trust: Consent) -> Recipe:
    from collab.recipe import load_recipe
    from collab.tasks import split_address

    for setting in settings:
        if setting.partition("=")[0].partition(".")[0].strip() not in ("task", "sandbox"):
            raise RecipeError(
                f"--set {setting}: scoring reads the keys of 'task' and 'sandbox' only"
            )
    return load_recipe("coding", task=split_address(address)[0], settings=settings, trust=trust)


def _read_works(programs: list[str], agents: list[str], helper: str | None) -> list[Work]:
    """Read programs and split each at the function `helper`. If `helper` is None, read whole
    texts."""
    if bool(programs) == bool(agents):
        raise RecipeError(
            "pass either whole programs (collab score ADDRESS PROGRAM.py) or the agents' answers"
            " (collab score ADDRESS --agent aux=A.py --agent main=B.py)"
        )
    if programs:
        wholes = [(program, _read(program)) for program in programs]
        return [
            (file, split_program(whole, helper) if helper else {"writer": whole})
            for file, whole in wholes
        ]
    artifacts: dict[str, str] = {}
    for given in agents:
        name, equals, file = given.partition("=")
        if not equals or not name.isidentifier() or not file:
            raise RecipeError(f"--agent takes NAME=FILE, got '{given}'")
        if name in artifacts:
            raise RecipeError(f"--agent {name} is given twice")
        artifacts[name] = _read(file)
    return [(" ".join(agents), artifacts)]


def _read(file: str) -> str:
    try:
        with Path(file).open(encoding="utf-8-sig") as stream:
            text = stream.read(_MAX_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(cannot_read(file, error)) from error
    except ValueError as error:  # a NUL in the name
        raise RecipeError(f"{file!r}: cannot be read: {error}") from error
    if len(text) > _MAX_CHARACTERS:
        raise RecipeError(f"{file}: cannot be read: more than {_MAX_CHARACTERS} characters")
    return text


async def _score_all(recipe: Recipe, problem: Problem, works: list[Work]) -> list[Result]:
    from collab.rewards import Scorer
    from collab.sandbox import Sandbox

    assert recipe.task is not None
    recipe.check_scored()
    if recipe.task.reward is None:
        raise RecipeError(
            f"'{recipe.task.name}' is a game, which is played and not scored; play it with: collab"
            f" run TEAM --task {recipe.task.name}"
        )
    async with Sandbox(recipe.sandbox) as sandbox:
        scorer, kind = Scorer(recipe.task.reward, sandbox), recipe.task.kind
        return await asyncio.gather(*(_score(scorer, kind, problem, work) for work in works))


async def _score(scorer: Scorer, kind: str, problem: Problem, work: Work) -> Result:
    from collab.agents import join_for, make_joint
    from collab.records import failure_of
    from collab.sandbox.jail.files import is_files

    started, (file, artifacts) = time.perf_counter(), work
    score: Score | None = None
    failure: Failure | None = None
    written = [text for text in artifacts.values() if text]
    code = "files" if written and all(map(is_files, written)) else "python"
    try:
        joint = make_joint(join_for(code if kind == "code" else "text"), artifacts, problem)
        score = await scorer.score(problem, joint, artifacts, list(artifacts))
    except CollabError as error:
        if error.exit_status == 2:
            raise
        failure = failure_of(error)
    return Result(file, score, failure, time.perf_counter() - started)


def _show(page: Page, address: str, results: list[Result]) -> None:
    from collab.cli.screen.episode import show_score

    for result in results:
        page.line((result.file, "bold"), f" on {address}")
        if result.score:
            show_score(page, result.score, parts=len(results) == 1)
        if result.failure:
            why = f"{result.failure.type}: {result.failure.message}"
            page.line(("failed", "bold red"), f": {why}")
            print(f"error: {result.file}: {why}", file=sys.stderr)
