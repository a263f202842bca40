"""Defines a team: its agents and roles, the protocol, the turns, the feedback."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field, model_validator

from collab.naming import Name, joint_name
from collab.recipe.base import Component, NamedComponent, Spec
from collab.recipe.feedback import FeedbackSpec
from collab.recipe.hosted import ToolName
from collab.recipe.model import ModelSpec, SamplingSpec
from collab.records import Style, WhenSolved

ENTRY_PLACEHOLDER = "$entry"
"""Placeholder in a reward part's options for the agent with the entry role."""
HELPER_PLACEHOLDER = "$helper"
"""Placeholder in a reward part's options for each helper in turn."""
HELPER_NAME_FIELD = "helper_name"
"""The field of a code problem with the name of the function that its helper writes."""


@dataclass(frozen=True)
class Roles:
    """Agents grouped by role, each group in the team's order."""

    contributors: tuple[str, ...]
    """Agents that write the answer. The join receives their artifacts."""
    entry: str
    """The agent that writes a code problem's entry point."""
    helpers: tuple[str, ...]
    """Agents that write functions which the entry agent may call."""

    def limited_to(self, agents: Collection[str]) -> Roles:
        """Return the roles for a joint artifact of these agents' answers only, as a protocol may
        choose."""
        contributors = tuple(agent for agent in self.contributors if agent in agents)
        writers = [agent for agent in contributors if agent in (self.entry, *self.helpers)]
        entry = self.entry if self.entry in writers else [*contributors, *writers][-1]
        return Roles(contributors, entry, tuple(agent for agent in writers if agent != entry))

    def function_of(self, agent: str, public: Mapping[str, Any]) -> str:
        """Return the function that a helper writes for a problem, or the agent's own name for other
        agents."""
        named = public.get(HELPER_NAME_FIELD) if agent in self.helpers else None
        return str(named or agent)

    def lacks(self, name: str, agents: Collection[str]) -> str:
        """Return an error text if a team of `agents` has no agent or role called `name`, otherwise
        ""."""
        if name == HELPER_PLACEHOLDER and not self.helpers:
            return f"the team has no helper: only {self.entry} writes code"
        if name not in (ENTRY_PLACEHOLDER, HELPER_PLACEHOLDER) and name not in agents:
            return f"the team has no agent '{name}'"
        return ""


NO_ROLES = Roles((), "", ())


def roles_of(
    contributors: Sequence[str], *, parsers: Mapping[str, str] | None = None, entry: str = ""
) -> Roles:
    """Return the roles of agents that write the answer together.

    If some of them have a parser for code, those with the parser `text` write no function.

    Args:
        parsers: by agent; agents without an entry write code.
        entry: default `main`, if it writes; otherwise the last agent that writes functions.
    """
    known = parsers or {}
    writers = [agent for agent in contributors if known.get(agent) != "text"] or [*contributors]
    entry = entry or ("main" if "main" in writers else writers[-1])
    return Roles(tuple(contributors), entry, tuple(agent for agent in writers if agent != entry))


MAX_TURNS = 1000
"""Maximum number of turns of an episode. The length of its prompts grows with each turn."""

MAX_AGENTS = 256

CODE_JOINS = ("python", "python-owned", "files", "class")
"""Joins that make a program."""
CODE_FIELDS = ("prompt", "entry_point", HELPER_NAME_FIELD)
"""Fields of a problem that the joins of code read."""
DEFAULT_DISCUSS = """\
{% for name, response in others.items() %}Agent {{ name }} answered:
{{ response }}

{% endfor %}Reconsider your answer in the light of the others' and give your final one in full.
"""
DEFAULT_REVISE = """\
{% for name, response in others.items() %}Agent {{ name }} now answers:
{{ response }}

{% endfor %}{% if feedback %}{{ feedback }}

{% endif %}Revise your previous answer and give it in full.
"""


DEFAULT_PROMPT = "{{ task.prompt }}"
GAME_PROMPT = "{{ observation }}"
TEMPLATE_FIELDS = ("prompt", "revise", "discuss")
"""Templates that every agent has."""


class AgentSpec(Spec):
    """One agent. Its templates are Jinja2 and see `task`, `agent`, `agents` and `turn`.

    In a sequential team or a discussion, they also see `previous`, the others' responses in the
    previous turn.
    """

    role: str = ""
    """System message."""
    prompt: str | None = None
    """First observation. In a sequential team it also sees `others`, the earlier responses.
    Default: `{{ task.prompt }}`, and `{{ observation }}` in an environment."""
    revise: str = DEFAULT_REVISE
    """Observation in place of `prompt` once the agent has acted. It also sees `feedback`."""
    discuss: str = DEFAULT_DISCUSS
    """Observation of the second round of a discussion. It sees `others`, the first answers."""
    prefix: str = ""
    """Fixed beginning of every response: a template with the same variables as `prompt`. Training
    ignores it. Blanks and line ends are kept. It must end where a token of the model ends."""
    style: Style = "chat"
    """`chat` renders the messages with the model's chat template. `completion` lets the model
    continue plain text: the messages, separated by blank lines, with the prefix on the line below.
    It suits base models, and small models that need worked examples."""
    templates: dict[str, str] = {}
    """Further observations by name, for protocols that use them, e.g. `rebut` in a debate."""
    harness: NamedComponent = Component(use="respond")
    """The agent's behavior during its move. `respond` generates one response. `tools` lets the
    agent call tools until it answers, with limits such as `{use: tools, options: {calls: 4}}`.
    `file.py:function` is your own."""
    tools: tuple[ToolName, ...] = ()
    """Tools that the agent may call before it answers. `python` runs code in the sandbox,
    `file.py:function` is your own function, and `{mcp: [COMMAND, ...]}` or `{mcp: URL}` is an
    MCP server with all of its tools. With tools, `harness` is `tools` by default."""
    parser: str = "text"
    """Turns a response into an artifact: `text`, `python`, `program`, `files` or
    `module:function`."""
    contributes: bool | None = None
    """True if the agent's artifact is part of the team's answer. Agents that only plan or review do
    not contribute, but are still trained. Default: true, except for agents with the parser `text`
    if the join makes a program from other agents' code."""
    model: ModelSpec | None = None
    """The agent's model. Default: the recipe's model."""
    sampling: SamplingSpec = SamplingSpec()
    """Sampling settings. An agent's own keys win, then the recipe's, then the team's."""
    adapter: str | None = None
    """A folder with a LoRA adapter in PEFT's format."""
    trainable: bool = True
    """True if training changes this agent."""

    @model_validator(mode="before")
    @classmethod
    def _with_tools(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("tools") and "harness" not in data:
            return {**data, "harness": "tools"}
        return data

    def _faults(self) -> Iterator[str]:
        if self.tools and (self.prefix or self.style == "completion"):
            yield (
                "an agent with tools needs style 'chat' and no prefix; leave out tools, or prefix"
                " and style"
            )
        if self.harness.use == "respond" and self.tools:
            yield (
                "harness 'respond' calls no tools, and tools names"
                f" {', '.join(map(str, self.tools))}; leave harness out, set it to 'tools', or"
                " leave tools out"
            )
        if self.harness.use == "tools" and not self.tools:
            yield (
                "harness 'tools' has no tools to call; set tools, e.g. [python], or harness to"
                " 'respond'"
            )


class TeamSpec(Spec):
    """A team and how it works together."""

    name: Name = ""
    """Name of the team. Default: the names of its agents, such as `aux+main`."""
    description: str = ""
    protocol: NamedComponent = Component(use="parallel")
    """The order of moves, and what each agent sees of the others: `single`, `parallel`,
    `sequential`, `discussion`, `debate`, `pipeline`, `critic_loop`, `repair`, or your own,
    `file.py:function`. Options are given as `{use: debate, options: {rebuttals: 2}}`."""
    turns: int = Field(default=1, ge=1, le=MAX_TURNS)
    """H, the number of turns of an episode. `when_solved` defines what happens after the task is
    solved."""
    when_solved: WhenSolved = "absorb"
    """`absorb` ends the episode and counts its last reward for every remaining turn, so solving a
    task early loses nothing. `stop` ends the episode, and the remaining turns earn nothing.
    `continue` runs all turns."""
    feedback: tuple[FeedbackSpec, ...] = ()
    """Sources of feedback to the agents between turns."""
    join: str = "text"
    """Makes the joint artifact: `text`, `python`, `python-owned` (a helper's function is taken from
    that helper only), `files`, `class` or `module:function`."""
    entry: str | None = None
    """The agent that writes the entry point of a code problem. All other agents that write code are
    its helpers. Default: `main`, otherwise the last agent that writes code."""
    model: ModelSpec | None = None
    """The model for which the team's prompts were written, used if neither the recipe nor `-m`
    specifies a model."""
    suite: str = "code"
    """The suite that provides kind and reward if the task is a data file, e.g. `tldr`."""
    sampling: SamplingSpec = SamplingSpec()
    """Sampling settings. An agent's own keys win, then the recipe's, then the team's."""
    agents: dict[str, AgentSpec] = Field(min_length=1, max_length=MAX_AGENTS)
    """Agents by name, in the order in which they act and are joined."""

    @model_validator(mode="before")
    @classmethod
    def _add_default_name(cls, data: Any) -> Any:
        agents = data.get("agents") if isinstance(data, dict) else None
        if not isinstance(agents, dict) or data.get("name"):
            return data
        return {**data, "name": joint_name(agents)}

    def _faults(self) -> Iterator[str]:
        contributors = self._contributors()
        if not contributors:
            yield "no agent writes the team's answer; set 'contributes: true' for one"
        elif self.entry is not None and self.entry not in contributors:
            yield (
                f"entry is '{self.entry}', which does not contribute to the team's answer;"
                f" contributing agents: {', '.join(contributors)}"
            )

    @property
    def roles(self) -> Roles:
        """The agents that write the answer, and those that write the functions of a code
        problem."""
        parsers = {name: agent.parser for name, agent in self.agents.items()}
        return roles_of(self._contributors(), parsers=parsers, entry=self.entry or "")

    @property
    def trained(self) -> list[str]:
        """The agents that a training changes."""
        return [name for name, agent in self.agents.items() if agent.trainable]

    def _contributors(self) -> tuple[str, ...]:
        parsers = {agent.parser for agent in self.agents.values()}
        excludes_text = self.join in CODE_JOINS and parsers != {"text"}

        def contributes(agent: AgentSpec) -> bool:
            if agent.contributes is None:
                return not (excludes_text and agent.parser == "text")
            return agent.contributes

        return tuple(name for name, agent in self.agents.items() if contributes(agent))
