"""Who takes part: agents with their roles, the protocol, the turns, the feedback."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from collab.recipe.base import Spec
from collab.recipe.feedback import FeedbackSpec
from collab.recipe.model import ModelSpec
from collab.recipe.sampling import SamplingSpec

Protocol = Literal["single", "parallel", "sequential", "discussion"]

DISCUSS = """\
{% for name, response in others.items() %}Agent {{ name }} answered:
{{ response }}

{% endfor %}Reconsider your answer in the light of the others' and give your final one in full.
"""
REVISE = """\
{% for name, response in others.items() %}Agent {{ name }} now answers:
{{ response }}

{% endfor %}{% if feedback %}{{ feedback }}

{% endif %}Revise your previous answer and give it in full.
"""


class AgentSpec(Spec):
    """One agent. Its templates are Jinja2 and see `task`, `agent`, `agents` and `turn`."""

    role: str = ""
    """System message."""
    prompt: str
    """First observation; in a sequential team it also sees `others`, the earlier responses."""
    revise: str = REVISE
    """Observation of every later turn; sees `feedback` and what `prompt` sees."""
    discuss: str = DISCUSS
    """Observation of the second round of a discussion; sees `others`, the first answers."""
    parser: str = "text"
    """Turns a response into an artefact: `text`, `python`, or `module:function`."""
    model: ModelSpec | None = None
    """Default: the recipe's model."""
    sampling: SamplingSpec = SamplingSpec()
    adapter: str | None = None
    """A folder with a LoRA adapter in PEFT's format."""
    trainable: bool = True
    """Whether training changes this agent."""


class TeamSpec(Spec):
    """A team and how it works together."""

    name: str = ""
    description: str = ""
    protocol: Protocol = "parallel"
    """`parallel`: agents act at the same time and see nothing of each other. `sequential`: each
    sees the earlier agents' responses. `discussion`: parallel, then one more round in which each
    sees the others' first answers. `single`: one agent."""
    turns: int = Field(default=1, ge=1)
    """H; an episode ends earlier when the task is solved."""
    feedback: tuple[FeedbackSpec, ...] = ()
    """What agents are told between turns."""
    join: str = "text"
    """Makes the joint artefact: `text`, `python`, or `module:function`."""
    suite: str = "code"
    """The suite like which a data file is read that is given as the task, e.g. `posts`."""
    sampling: SamplingSpec = SamplingSpec()
    agents: dict[str, AgentSpec] = Field(min_length=1)
    """By name, in the order in which they act and are joined."""

    @model_validator(mode="after")
    def _protocol_fits(self) -> TeamSpec:
        n_agents = len(self.agents)
        if self.protocol == "single" and n_agents != 1:
            raise ValueError(f"protocol 'single' takes 1 agent, the team has {n_agents}")
        if self.protocol == "discussion" and n_agents < 2:
            raise ValueError("protocol 'discussion' takes 2 agents or more, the team has 1")
        return self
