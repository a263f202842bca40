"""A recipe joins a team, a suite of tasks, a model and a trainer."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import Field, field_validator

from collab.errors import RecipeError
from collab.naming import MAX_NAME_BYTES, Name, is_name
from collab.recipe.base import Component, Spec
from collab.recipe.model import (
    ModelSpec,
    SamplingSpec,
    TransformersSpec,
    VLLMSpec,
    merge_sampling,
)
from collab.recipe.reward import RewardSpec
from collab.recipe.sandbox import SandboxSpec
from collab.recipe.task import TaskSpec
from collab.recipe.team import TeamSpec
from collab.recipe.trainer import TrainerSpec
from collab.records import Sampling
from collab.wording import format_option

DEFAULT_MODEL = "smollm2-135m"
DEFAULT_CONCURRENCY, WIDE_CONCURRENCY = 32, 256
"""Default numbers of parallel episodes: in general, and per vLLM server or model on a GPU."""


class BudgetSpec(Spec):
    """Limits of one episode. An episode that needs more ends with a typed failure."""

    tokens: int | None = Field(default=None, ge=1)
    """New tokens of all agents together. No round begins after the episode has used them."""
    seconds: float | None = Field(default=None, gt=0)
    """Wall time in seconds."""


SECTIONS: dict[str, type[Spec]] = {
    "team": TeamSpec,
    "sampling": SamplingSpec,
    "trainer": TrainerSpec,
    "task": TaskSpec,
    "sandbox": SandboxSpec,
    "budget": BudgetSpec,
}
"""The parts of a recipe."""


class Recipe(Spec):
    """Everything that a run needs. A recipe without a trainer can be run but not trained."""

    renamed = {"judge": "sandbox"}
    sections = SECTIONS

    name: Name = ""
    description: str = ""
    team: TeamSpec
    """The team: its agents and how they work together."""
    task: TaskSpec | None = None
    """The suite of tasks. `--task` on the command line replaces it."""
    model: ModelSpec = TransformersSpec(name=DEFAULT_MODEL)
    """The model of every agent without a model of its own."""
    sampling: SamplingSpec = SamplingSpec()
    """Sampling settings. An agent's own keys win, then the recipe's, then the team's."""
    seed: int = Field(default=0, ge=0)
    """Seed of the run. Every random draw depends on it and on the draw's position in the run."""
    samples: int = Field(default=1, ge=1)
    """Episodes per task in a run."""
    concurrency: int | None = Field(default=None, ge=1)
    """Episodes in progress at the same time. Default: 32, with a local model on a GPU or vLLM 256,
    with vLLM servers 256 per server of a model. Training on a GPU or with vLLM runs all episodes of
    a step at once."""
    sandbox: SandboxSpec = SandboxSpec()
    budget: BudgetSpec = BudgetSpec()
    trainer: TrainerSpec | None = None
    """Settings of the training. A recipe without a trainer can be run but not trained."""

    @field_validator("task", mode="before")
    @classmethod
    def _refuse_address(cls, task: Any) -> Any:
        if isinstance(task, str) and "/" in task:
            suite, _, rows = task.rpartition("/")
            raise ValueError(
                f"takes a suite, got the address '{task}'; write `task: {suite}` and"
                f" `trainer.tasks: '{rows}'`"
            )
        return task

    def _faults(self) -> Iterator[str]:
        for name in self.team.agents:
            if not (name.isidentifier() and is_name(name)):
                yield (
                    f"agent name {name!r:.60} is not a plain word of at most {MAX_NAME_BYTES} bytes"
                )

    @property
    def environment(self) -> Component | None:
        """The environment that the team plays in, if its task is a game."""
        return self.task.environment if self.task else None

    @property
    def reward(self) -> RewardSpec | None:
        """The reward of the task, if there is one."""
        return self.task.reward if self.task else None

    def check_scored(self) -> None:
        """Check that the task pays a reward.

        Raises:
            RecipeError: there is no task, or its problems are not scored.
        """
        if self.task is None:
            raise RecipeError(
                "the recipe has no task, so there is no reward; add one with"
                f" {format_option('task', 'SUITE')}"
            )
        if self.task.reward is None and self.task.environment is None:
            raise RecipeError(
                f"the problems of '{self.task.name}' are not scored; add a reward to the suite"
                " (in Python: rewards=[...])"
            )

    @property
    def uses_sandbox(self) -> bool:
        """True if the task, feedback or a tool runs programs."""
        return (
            (self.task is not None and self.task.kind == "code")
            or any(source.runs_programs for source in self.team.feedback)
            or any("python" in agent.tools for agent in self.team.agents.values())
        )

    def model_of(self, agent: str) -> ModelSpec:
        """Return the model of `agent`: its own, or the recipe's."""
        return self.team.agents[agent].model or self.model

    def key_of_model(self, agent: str) -> str:
        """Return the key of the model of `agent`, for messages."""
        return f"agents.{agent}.model" if self.team.agents[agent].model else "model"

    @property
    def vllm_engines(self) -> list[VLLMSpec]:
        """The distinct vLLM models whose engines collab starts, because they name no `servers`."""
        models = map(self.model_of, self.team.agents)
        return list(dict.fromkeys(m for m in models if isinstance(m, VLLMSpec) and not m.servers))

    def sampling_of(self, agent: str) -> Sampling:
        """Return the agent's sampling settings, merged from the recipe, the team and the agent."""
        return merge_sampling(self.team.sampling, self.sampling, self.team.agents[agent].sampling)

    def greedy(self, agents: Iterable[str]) -> Recipe:
        """Return the recipe in which `agents` give their most likely response."""
        changes = {}
        for name in agents:
            sampling = self.team.agents[name].sampling
            changes[name] = {"sampling": sampling.model_copy(update={"temperature": 0.0})}
        return self.with_agents(changes)

    def with_agents(self, changes: Mapping[str, Mapping[str, Any]]) -> Recipe:
        """Return the recipe with some fields of its agents replaced. `changes` are by agent and
        field.
        """
        agents = {
            name: agent.model_copy(update=dict(changes.get(name, {})))
            for name, agent in self.team.agents.items()
        }
        return self.model_copy(update={"team": self.team.model_copy(update={"agents": agents})})
