"""What a run would do, checked as far as that goes without a model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from collab.agents import Template
from collab.cli.page import Block, Column, Page, Piece
from collab.errors import AgentError, RecipeError
from collab.recipe import AgentSpec, ModelSpec, Recipe
from collab.records import Problem
from collab.rewards.outlook import outlook
from collab.runs.folder import dump_recipe
from collab.runtime import Session
from collab.runtime.problems import find_problems
from collab.runtime.rehearsal import rehearsed, rounds_of
from collab.runtime.turn import Round
from collab.wording import counted

_SHOWN = 4


@dataclass(frozen=True)
class Plan:
    team: str
    protocol: str
    turns: int
    models: dict[str, str]
    """By agent."""
    problems: list[str]
    samples: int
    episodes: int
    new_tokens: int
    """At most, of all agents in all turns of all episodes."""
    isolation: str
    outlook: list[str]
    """Who writes the answer, and what it can earn."""
    recipe: str
    """The effective one, as YAML."""


def check(recipe: Recipe, addresses: Sequence[str]) -> tuple[Recipe, list[Problem]]:
    """The recipe with its suite and the problems, once every prompt has its fields.

    Raises:
        RecipeError: also for a template that names a field which a problem lacks.
        TaskError: a problem that is not in the suite.
    """
    recipe, problems = find_problems(recipe, addresses)
    check_prompts(recipe, problems)
    return recipe, problems


def check_prompts(recipe: Recipe, problems: Sequence[Problem]) -> None:
    """Render every template for one problem of each set of fields.

    Raises:
        RecipeError: a template names a field that a problem lacks, or fails otherwise.
    """
    rounds = rounds_of(recipe)
    for problem in {frozenset(problem.public): problem for problem in reversed(problems)}.values():
        for name, agent in recipe.team.agents.items():
            for round_ in rounds:
                if name in round_.agents:
                    _check_agent(recipe, name, agent, problem, round_)


def _check_agent(
    recipe: Recipe, name: str, agent: AgentSpec, problem: Problem, round_: Round
) -> None:
    """Render every template that the agent may be shown in a round."""
    own = {"prompt": agent.prompt, "revise": agent.revise, "discuss": agent.discuss}
    texts = {"role": agent.role, round_.template: round_.otherwise, **own, **agent.templates}
    stages = [("role", 0), (round_.template, 0)]
    if recipe.team.turns > 1 and round_.template == "prompt":
        stages.append(("revise", 1))
    fields: dict[str, Any] = {
        "agent": name,
        "agents": list(recipe.team.agents),
        "task": problem.public,
        "feedback": "",
        "others": round_.others[name],
        **round_.fields.get(name, {}),
    }
    for field, turn in stages:
        if turn and "previous" in fields:
            fields["previous"] = {other: "" for other in recipe.team.agents if other != name}
        template = Template(texts.get(field) or "", f"team.agents.{name}.{field}")
        try:
            template.render(turn=turn, _hidden=tuple(problem.hidden), **fields)
        except AgentError as error:
            raise RecipeError(f"{error}; the problem: {problem.address}") from error


async def make_plan(recipe: Recipe, addresses: Sequence[str]) -> Plan:
    """Check all that a run checks before its first request, and count."""
    recipe, problems = check(recipe, addresses)
    session = await Session(recipe).__aenter__()
    models = dict(session.model_names())
    await session.aclose()  # not `async with`, whose end asks whether a script was used up
    episodes = len(problems) * recipe.samples
    turn = rehearsed(recipe)
    return Plan(
        team=recipe.team.name,
        protocol=str(recipe.team.protocol),
        turns=recipe.team.turns,
        models=models,
        problems=[problem.address for problem in problems],
        samples=recipe.samples,
        episodes=episodes,
        new_tokens=episodes * recipe.team.turns * _tokens_of_a_turn(recipe),
        isolation=recipe.sandbox.isolation,
        outlook=outlook(recipe, turn.joined if turn.is_chosen else None),
        recipe=dump_recipe(recipe),
    )


def _tokens_of_a_turn(recipe: Recipe) -> int:
    rounds = rounds_of(recipe)
    agents = [agent for round_ in rounds for agent in round_.agents]
    return sum(recipe.sampling_of(agent).max_new_tokens for agent in agents)


def show_plan(page: Page, plan: Plan, recipe: Recipe) -> None:
    problems = ", ".join(plan.problems[:_SHOWN])
    if len(plan.problems) > _SHOWN:
        problems += f" and {len(plan.problems) - _SHOWN} more"
    turns = counted(plan.turns, "turn")
    page.line((plan.team, "bold"), f", {plan.protocol}, {turns}, sandbox {plan.isolation}")
    page.table(_COLUMNS, [_agent(recipe, name, model) for name, model in plan.models.items()])
    for line in plan.outlook:
        page.line(line)
    page.line(f"problems: {problems}")
    page.line(
        f"{counted(plan.episodes, 'episode')} ({len(plan.problems)} x"
        f" {plan.samples}), at most {plan.new_tokens:,} new tokens"
    )
    page.line()
    page.blocks([Block("effective recipe", plan.recipe, "yaml")])


_COLUMNS = (
    Column("agent"),
    Column("model"),
    Column("temperature", right=True),
    Column("top_p", right=True),
    Column("top_k", right=True),
    Column("max_new_tokens", right=True),
)


def _agent(recipe: Recipe, name: str, model: str) -> list[Piece]:
    sampling = recipe.sampling_of(name)
    settings = (sampling.temperature, sampling.top_p, sampling.top_k, sampling.max_new_tokens)
    return [name, engine_of(recipe.model_of(name), model), *map(str, settings)]


def engine_of(spec: ModelSpec, name: str) -> str:
    """The model's name, with its engine where the name does not say it."""
    return name if name.startswith(spec.engine) else f"{name} ({spec.engine})"
