"""Prepares a team to act: compiled prompts, parsers, models and sampling settings."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from collab.agents import Template, parser_for
from collab.agents.parsers import Parser
from collab.errors import CollabError, ModelError, RecipeError, format_error
from collab.models import Call, Model
from collab.recipe import AgentSpec, Recipe
from collab.recipe.team import DEFAULT_PROMPT, DEFAULT_REVISE, GAME_PROMPT, TEMPLATE_FIELDS
from collab.records import Feedback, Message, Problem, Sampling, Style
from collab.runtime.harness import Harness, harness_for
from collab.seeds import derive_seed
from collab.tools import Tool, Toolboxes


@dataclass(frozen=True)
class RunningAgent:
    """One agent, ready to act."""

    name: str
    role: Template
    prefix: Template
    """Template of the prefix, the fixed beginning of every response."""
    style: Style
    templates: Mapping[str, Template]
    """Templates by name: `prompt`, `revise`, `discuss`, and those that its protocol uses."""
    harness: Harness
    parse: Parser
    model: Model
    sampling: Sampling
    adapter: str | None
    tools: Mapping[str, Tool]

    def observe(
        self, template: str, otherwise: str | None, is_first: bool, /, **fields: Any
    ) -> list[Message]:
        """Return the messages that a template adds to the history; `otherwise` is its default.

        Raises:
            RecipeError: neither the agent nor the protocol has such a template.
            AgentError: the template fails.
        """
        content = self._template(template, otherwise).render(agent=self.name, **fields)
        message = Message(role="user", content=content)
        if not is_first:
            return [message]
        role = self.role.render(agent=self.name, **fields)
        return [Message(role="system", content=role), message] if role else [message]

    def _template(self, name: str, otherwise: str | None) -> Template:
        if name not in self.templates and otherwise is not None:
            return Template(otherwise, f"team.agents.{self.name}.templates.{name}")
        check_template(self.name, name, self.templates)
        return self.templates[name]


def check_template(agent: str, name: str, known: Collection[str]) -> None:
    """Check that an agent has a template that its protocol needs.

    Raises:
        RecipeError: the name is not `known`.
    """
    if name not in known:
        raise RecipeError(
            f"agent '{agent}' has no template '{name}', which its protocol needs; add it under"
            f" team.agents.{agent}.templates (it has: {', '.join(known)})"
        )


def make_agents(
    recipe: Recipe, models: Mapping[str, Model], tools: Toolboxes
) -> dict[str, RunningAgent]:
    """Return the agents by name, in the team's order.

    Raises:
        RecipeError: a template does not parse, a parser is unknown, or an agent's model does not
            support its sampling settings.
    """
    is_game = recipe.environment is not None
    return {
        name: _make_agent(
            name,
            _fill_default_templates(spec, is_game=is_game),
            recipe.sampling_of(name),
            models[name],
            tools[name],
        )
        for name, spec in recipe.team.agents.items()
    }


def _fill_default_templates(spec: AgentSpec, *, is_game: bool) -> AgentSpec:
    """Fill in the default templates. In a game, every turn has a new observation."""
    default = GAME_PROMPT if is_game else DEFAULT_PROMPT
    prompt = default if spec.prompt is None else spec.prompt
    revise = prompt if is_game and spec.revise == DEFAULT_REVISE else spec.revise
    return spec.model_copy(update={"prompt": prompt, "revise": revise})


def _make_agent(
    name: str, spec: AgentSpec, sampling: Sampling, model: Model, tools: Mapping[str, Tool]
) -> RunningAgent:
    def template(field: str) -> Template:
        return Template(getattr(spec, field), f"team.agents.{name}.{field}")

    try:
        model.check(sampling, spec.adapter)
    except CollabError:
        raise
    except Exception as error:
        raise ModelError(f"check of model {model.name!r} failed: {format_error(error)}") from error
    if spec.prefix or spec.style == "completion":
        _check_accepts_prefix(name, model)
    return RunningAgent(
        name=name,
        role=template("role"),
        prefix=prefix_of(name, spec),
        style=spec.style,
        templates={
            **{field: template(field) for field in TEMPLATE_FIELDS},
            **{
                key: Template(text, f"team.agents.{name}.templates.{key}")
                for key, text in spec.templates.items()
            },
        },
        harness=harness_for(spec.harness),
        parse=parser_for(spec.parser),
        model=model,
        sampling=sampling,
        adapter=spec.adapter,
        tools=tools,
    )


def template_fields(
    recipe: Recipe,
    problem: Problem,
    *,
    turn: int,
    others: Mapping[str, str],
    feedback: Sequence[Feedback],
) -> dict[str, Any]:
    """Return the fields that every template of an agent sees.

    Args:
        others: the answers of the turn that the agent sees, by their authors.
        feedback: the agent's feedback after the previous turn.
    """
    return {
        "task": problem.public,
        "_hidden": tuple(problem.hidden),
        "agents": list(recipe.team.agents),
        "turn": turn,
        "others": others,
        "feedback": "\n\n".join(item.text for item in feedback if item.text),
    }


def prefix_of(name: str, spec: AgentSpec) -> Template:
    """Return the template of an agent's forced beginning, with all whitespace kept."""
    return Template(spec.prefix, f"team.agents.{name}.prefix", as_written=True)


def _check_accepts_prefix(agent: str, model: Model) -> None:
    """Raise RecipeError for a model that does not accept the beginning of its answer."""
    offered = model.capabilities
    if not (offered.continues or not offered.generates):
        raise RecipeError(
            f"agent '{agent}' has a prefix or style 'completion', but model {model.name!r}"
            f" accepts only chat messages; leave out team.agents.{agent}.prefix and style, or give"
            " the agent a local model"
        )


def call_seed(seed: int, call: Call) -> int:
    """Return a separate seed for every decision, the same in every run with the same `seed`."""
    step = (call.step,) if call.step else ()
    return derive_seed(seed, call.task, call.sample, call.turn, call.round, call.agent, *step)
