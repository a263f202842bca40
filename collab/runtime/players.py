"""A team made ready to act: compiled prompts, parsers, models and sampling settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b

from collab.agents import Template, parser_for
from collab.agents.parsers import Parser
from collab.models import Call, Checks, Model, Request
from collab.recipe import AgentSpec, Recipe
from collab.records import Message, Sampling


@dataclass(frozen=True)
class Player:
    """One agent, ready to act."""

    name: str
    role: Template
    prompt: Template
    revise: Template
    discuss: Template
    parse: Parser
    model: Model
    sampling: Sampling
    adapter: str | None

    def observe(self, template: Template, *, first: bool, **fields: object) -> list[Message]:
        """The messages that a template adds to the agent's history."""
        content = template.render(agent=self.name, **fields)
        message = Message(role="user", content=content)
        if not first:
            return [message]
        role = self.role.render(agent=self.name, **fields)
        return [Message(role="system", content=role), message] if role else [message]


def make_players(recipe: Recipe, models: Mapping[str, Model]) -> dict[str, Player]:
    """Players by agent name, in the team's order.

    Raises:
        RecipeError: a template that does not parse, an unknown parser, or sampling settings that
            an agent's model cannot follow.
    """
    return {
        name: _make_player(name, spec, recipe.sampling_of(name), models[name])
        for name, spec in recipe.team.agents.items()
    }


def _make_player(name: str, spec: AgentSpec, sampling: Sampling, model: Model) -> Player:
    def template(field: str) -> Template:
        return Template(getattr(spec, field), f"team.agents.{name}.{field}")

    if isinstance(model, Checks):
        model.check(sampling, spec.adapter)
    return Player(
        name=name,
        role=template("role"),
        prompt=template("prompt"),
        revise=template("revise"),
        discuss=template("discuss"),
        parse=parser_for(spec.parser),
        model=model,
        sampling=sampling,
        adapter=spec.adapter,
    )


def make_request(player: Player, call: Call, history: list[Message], seed: int) -> Request:
    return Request(
        call=call,
        messages=tuple(history),
        sampling=player.sampling,
        adapter=player.adapter,
        seed=_seed_of(seed, call),
    )


def _seed_of(seed: int, call: Call) -> int:
    """A seed of its own for every decision, the same in every run with the same `seed`."""
    key = f"{seed}|{call.task}|{call.sample}|{call.turn}|{call.round}|{call.agent}"
    return int.from_bytes(blake2b(key.encode(), digest_size=7).digest(), "big")
