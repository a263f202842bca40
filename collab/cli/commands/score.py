"""`collab score`."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from collab.agents.splitting import HELPER, split_program
from collab.cli import options
from collab.cli.options import argument, flag, option
from collab.cli.screen.page import Page, open_page
from collab.errors import CollabError, RecipeError, TaskError, UnknownName
from collab.wording import explain_read_error

if TYPE_CHECKING:
    from collab.recipe import Recipe
    from collab.recipe.team import TeamSpec
    from collab.records import Failure, Problem, Score
    from collab.runtime.scoring import JointScorer

_MAX_CHARACTERS = 1 << 26

_WHOLE_ANSWER = ""
"""Key of a whole program or text, in place of an agent's name."""

Submission = tuple[str, dict[str, str]]
"""The name of a file, or of several, and the artifacts in it, which are scored together."""

_EMPTY_SCORE: dict[str, Any] = {
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
    team: str | None = option(
        "--team",
        "TEAM",
        "Score as in a run of this team: with its join, its parsers and its agents' roles.",
        autocompletion=options.complete_teams,
    ),
    settings: list[str] | None = options.SETTINGS,
    sandbox: options.Isolation | None = options.SANDBOX,
    trust: bool = options.TRUST,
    json: bool = flag("--json", "Print one JSON object per program, each on its own line."),
) -> None:
    """Score programs or texts that already exist.

    A whole program is scored as the joint program of the team coding. Its
    function aux (or the name in the problem's field helper_name) counts as the
    work of agent aux, the rest as the work of agent main. A whole text counts
    as the work of one agent. Several programs are scored at the same time.

    With --team, files are scored as answers of that team. A whole program is
    split if the team has one helper and joins Python code. Otherwise, it counts
    as the work of the team's entry agent.

    Examples:
      collab score humaneval/12 solution.py
      collab score humaneval/12 first.py second.py --json
      collab score humaneval/12 --agent aux=helper.py --agent main=solution.py
      collab score tldr/3 --agent concise=short.txt --agent detailed=long.txt
      collab score classeval/3 --team classeval --agent first=a.py --agent second=b.py
      collab score mine.jsonl/3 solution.py --set task.reward=code-correct-first

    Exit status:
      0  all were scored, regardless of the verdict
      1  one could not be scored, e.g. because the sandbox failed
      2  bad usage
    """
    from collab.recipe import load_recipe
    from collab.runtime.problems import find_problems
    from collab.tasks import split_address

    sections = ("task", "sandbox", "team") if team else ("task", "sandbox")
    changes = options.with_sandbox(settings, sandbox)
    for setting in changes:
        if setting.partition("=")[0].partition(".")[0].strip() not in sections:
            raise RecipeError(
                f"--set {setting}: scoring reads only the keys of {', '.join(sections)}"
                f"{'' if team else '; --team adds those of team'}"
            )
    suite = split_address(address)[0]
    recipe = load_recipe(
        team or "coding", task=suite, settings=changes, trust=options.consent(trust)
    )
    recipe, problems = find_problems(recipe, [address])
    if len(problems) != 1:
        raise TaskError(
            f"collab score needs one problem, but '{address}' has {len(problems)}; choose one, e.g."
            f" {problems[0].address}"
        )
    [problem] = problems
    files = _read_submissions(programs or [], agent or [])
    if team is None:
        recipe = recipe.model_copy(update={"team": _make_team(recipe, files)})
    submissions = [(name, _assign_artifacts(recipe, problem, texts)) for name, texts in files]
    if team is not None:
        submissions = [
            (name, _parse_artifacts(recipe, artifacts)) for name, artifacts in submissions
        ]
    results = asyncio.run(_score_all(recipe, problem, submissions))
    if json:
        for result in results:
            print(result.as_json(problem.address))
    else:
        _show_results(open_page(), problem.address, results)
    raise typer.Exit(1 if any(result.failure for result in results) else 0)


@dataclass(frozen=True)
class Result:
    file: str
    score: Score | None
    failure: Failure | None
    seconds: float

    def as_json(self, address: str) -> str:
        data: dict[str, Any] = {"task": address, "file": self.file, **_EMPTY_SCORE}
        if self.score:
            data |= self.score.model_dump(include=set(_EMPTY_SCORE))
            parts = self.score.parts
            data["parts"] = [{**part.model_dump(), "points": part.points} for part in parts]
        failure = self.failure
        data["failure"] = failure.model_dump(include={"type", "message"}) if failure else None
        return dumps({**data, "seconds": round(self.seconds, 6)})


def _read_submissions(programs: list[str], agents: list[str]) -> list[Submission]:
    """Read whole programs or texts, each as a `_WHOLE_ANSWER`, or the answers of agents."""
    if bool(programs) == bool(agents):
        raise RecipeError(
            "pass either whole programs (collab score ADDRESS PROGRAM.py) or the agents' answers"
            " (collab score ADDRESS --agent aux=A.py --agent main=B.py)"
        )
    if programs:
        return [(program, {_WHOLE_ANSWER: _read_file(program)}) for program in programs]
    answers: dict[str, str] = {}
    for text in agents:
        name, equals, file = text.partition("=")
        if not equals or not name.isidentifier() or not file:
            raise RecipeError(f"--agent takes NAME=FILE, got '{text}'")
        if name in answers:
            raise RecipeError(f"--agent {name} is given twice")
        answers[name] = _read_file(file)
    return [(" ".join(agents), answers)]


def _make_team(recipe: Recipe, submissions: Sequence[Submission]) -> TeamSpec:
    """Return a team of the submissions' agents, whose join suits the suite's kind and the texts."""
    from collab.recipe.team import AgentSpec, TeamSpec
    from collab.sandbox.jail.files import is_files

    agents = list(submissions[0][1])
    is_code = recipe.task is not None and recipe.task.kind == "code"
    if agents == [_WHOLE_ANSWER]:
        agents = [HELPER, "main"] if is_code else ["writer"]
    has_files = {is_files(text) for _, texts in submissions for text in texts.values() if text}
    if is_code and len(has_files) > 1:
        raise RecipeError("some programs have several files, others one; score them apart")
    join = "files" if True in has_files else "python"
    agent = AgentSpec(parser="python" if is_code else "text")
    return TeamSpec(agents=dict.fromkeys(agents, agent), join=join if is_code else "text")


def _assign_artifacts(recipe: Recipe, problem: Problem, texts: dict[str, str]) -> dict[str, str]:
    """Return the artifacts of the team's agents, from their answers or from a whole program."""
    team = recipe.team
    if _WHOLE_ANSWER not in texts:
        for name in texts:
            if name not in team.agents:
                raise UnknownName("agent", name, list(team.agents))
        for name in team.roles.contributors:
            if name not in texts:
                raise RecipeError(
                    f"there is no answer of '{name}'; add --agent {name}=FILE, where an empty file"
                    " is an empty answer"
                )
        return {name: texts.get(name, "") for name in team.agents}
    roles = team.roles
    if len(roles.helpers) != 1 or not team.join.startswith("python"):
        return {**dict.fromkeys(roles.contributors, ""), roles.entry: texts[_WHOLE_ANSWER]}
    [helper] = roles.helpers
    parts = split_program(texts[_WHOLE_ANSWER], roles.function_of(helper, problem.public))
    return dict(zip((helper, roles.entry), parts.values(), strict=True))


def _parse_artifacts(recipe: Recipe, artifacts: dict[str, str]) -> dict[str, str]:
    from collab.agents import parser_for

    agents = recipe.team.agents
    return {name: parser_for(agents[name].parser)(text) for name, text in artifacts.items()}


def _read_file(file: str) -> str:
    try:
        with Path(file).open(encoding="utf-8-sig") as stream:
            text = stream.read(_MAX_CHARACTERS + 1)
    except (OSError, UnicodeDecodeError) as error:
        raise RecipeError(explain_read_error(file, error)) from error
    except ValueError as error:  # a NUL in the name
        raise RecipeError(f"{file!r}: cannot be read: {error}") from error
    if len(text) > _MAX_CHARACTERS:
        raise RecipeError(f"{file}: cannot be read: more than {_MAX_CHARACTERS} characters")
    return text


async def _score_all(
    recipe: Recipe, problem: Problem, submissions: list[Submission]
) -> list[Result]:
    from collab.runtime.scoring import JointScorer
    from collab.sandbox import Sandbox

    recipe.check_scored()
    if recipe.reward is None:
        assert recipe.task is not None
        raise RecipeError(
            f"'{recipe.task.name}' is a game, which is played and not scored; play it with: collab"
            f" run TEAM --task {recipe.task.name}"
        )
    async with Sandbox(recipe.sandbox) as sandbox:
        scorer = JointScorer(recipe, sandbox)
        return await asyncio.gather(
            *(_score(scorer, problem, submission) for submission in submissions)
        )


async def _score(scorer: JointScorer, problem: Problem, submission: Submission) -> Result:
    from collab.records import failure_of

    started, (file, artifacts) = time.perf_counter(), submission
    score: Score | None = None
    failure: Failure | None = None
    try:
        score = await scorer.score(problem, artifacts)
    except CollabError as error:
        if error.exit_status == 2:
            raise
        failure = failure_of(error)
    return Result(file, score, failure, time.perf_counter() - started)


def _show_results(page: Page, address: str, results: list[Result]) -> None:
    from collab.cli.screen.episode import show_score

    for result in results:
        page.line((result.file, "bold"), f" on {address}")
        if result.score:
            show_score(page, result.score, parts=len(results) == 1)
        if result.failure:
            why = f"{result.failure.type}: {result.failure.message}"
            page.line(("failed", "bold red"), f": {why}")
            print(f"error: {result.file}: {why}", file=sys.stderr)
