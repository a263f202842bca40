"""The plan of a run, checked as far as possible without a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from textwrap import shorten
from typing import Any

from collab.cli.options import print_remarks
from collab.cli.screen.page import WARNING, Page, Piece
from collab.recipe import Recipe
from collab.records import Problem, Sampling
from collab.rewards.declared import describe_scoring
from collab.runtime import Session
from collab.runtime.notes import tool_forms
from collab.runtime.problems import find_problems
from collab.runtime.prompt_check import check_prompts, max_episode_usage
from collab.runtime.rehearsal import describe_rounds
from collab.sandbox import describe_concurrency
from collab.wording import counted

_SHOWN_SETTINGS = [name for name in Sampling.model_fields if name != "stop"]


@dataclass(frozen=True)
class RunPlan:
    """Counts of a run's episodes, tokens and responses, and its models and warnings."""

    team: str
    protocol: str
    turns: int
    models: dict[str, str]
    """Model of each agent."""
    problems: list[str]
    samples: int
    episodes: int
    calls: int
    """Maximum number of requests to models, in all episodes."""
    new_tokens: int
    """Maximum number of new tokens, of all agents in all turns of all episodes."""
    isolation: str
    scoring: str
    """Number of programs scored at the same time, and where, or "" without programs."""
    rounds: list[str]
    """The order in which agents act."""
    outlook: list[str]
    """The writer of the answer, its largest reward, and the calls of tools."""
    recipe: Recipe
    """The effective recipe, with its suite."""
    warnings: list[str] = field(default_factory=list)
    """Settings that have no effect or cannot work."""

    def data(self) -> dict[str, Any]:
        """Return the plan as JSON data."""
        return {**vars(self), "recipe": self.recipe.model_dump(mode="json")}


def prepare_run(recipe: Recipe, addresses: Sequence[str]) -> tuple[Recipe, list[Problem]]:
    """Return the recipe with its suite, and its problems, after a check of its prompts.

    Raises:
        RecipeError: the recipe is wrong, or its prompts cannot be rendered.
        TaskError: a problem is not in the suite.
    """
    recipe, problems = find_problems(recipe, addresses)
    print_remarks(check_prompts(recipe, problems).warnings)
    return recipe, problems


async def plan_of(recipe: Recipe, problems: Sequence[Problem]) -> RunPlan:
    """Check a run like `collab run` does before its first request, and return its plan.

    Raises:
        RecipeError: the recipe is wrong, or its prompts cannot be rendered.
        ModelUnavailable, FeedbackUnavailable: something that the run needs is missing.
    """
    result = check_prompts(recipe, problems)
    session = await Session(recipe, serve=False).open()
    models = dict(session.model_names())
    await session.aclose()  # not `async with`, whose end asks whether a script was used up
    episodes = len(problems) * recipe.samples
    turn = result.turn
    responses, new_tokens = max_episode_usage(recipe, result.requests)
    return RunPlan(
        team=recipe.team.name,
        protocol=str(recipe.team.protocol),
        turns=recipe.team.turns,
        models=models,
        problems=[problem.address for problem in problems],
        samples=recipe.samples,
        episodes=episodes,
        calls=episodes * responses,
        new_tokens=episodes * new_tokens,
        isolation=recipe.sandbox.isolation,
        scoring=describe_concurrency(recipe.sandbox) if recipe.uses_sandbox else "",
        rounds=describe_rounds(turn, recipe.team.turns),
        outlook=[
            *describe_scoring(recipe, turn.joined if turn.is_chosen else None),
            *_tool_lines(recipe),
        ],
        recipe=recipe,
        warnings=list(result.warnings),
    )


def _tool_lines(recipe: Recipe) -> list[str]:
    descriptions = {
        "template": "with its model's chat template",
        "text": "as text, because its model's chat template has no tools",
        "service": "in the service's own format",
    }
    return [
        f"tools: {name} calls them {descriptions[how]}" for name, how in tool_forms(recipe).items()
    ]


def show_counts(page: Page, plan: RunPlan) -> None:
    """Print the agents, models and problems of a plan, and its largest counts."""
    turns = counted(plan.turns, "turn")
    sandbox = f", sandbox {plan.isolation}" if plan.scoring else ""
    page.line((plan.team, "bold"), f", {plan.protocol}, {turns}{sandbox}")
    columns = ("agent", "model", *(f">{name}" for name in _SHOWN_SETTINGS))
    page.table(columns, [_agent_row(plan.recipe, *agent) for agent in plan.models.items()])
    for line in (*plan.rounds, *plan.outlook):
        page.line(line)
    if plan.scoring:
        page.line(f"scoring: {plan.scoring}")
    page.line("problems: ", shorten(", ".join(plan.problems), 80, placeholder=" ..."))
    page.line(
        f"{counted(plan.episodes, 'episode')} ({len(plan.problems)} x"
        f" {plan.samples}), at most {plan.new_tokens:,} new tokens"
        f" in {counted(plan.calls, 'response')}"
    )
    for warning in plan.warnings:
        page.line(WARNING, warning)


def _agent_row(recipe: Recipe, name: str, model: str) -> list[Piece]:
    sampling = recipe.sampling_of(name)
    settings = (getattr(sampling, name) for name in _SHOWN_SETTINGS)
    engine = recipe.model_of(name).engine
    shown = model if model.startswith(engine) else f"{model} ({engine})"
    return [name, shown, *map(str, settings)]
