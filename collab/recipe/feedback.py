"""Feedback: remarks to each agent between turns.

A source is written as its name (`static`) or as a mapping with options
(`{source: static, tools: [ruff, mypy]}`).
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BeforeValidator, Field

from collab.errors import UnknownName
from collab.recipe.base import Spec
from collab.recipe.hosted import AnthropicSpec
from collab.recipe.model import ModelSpec


class FeedbackBase(Spec):
    reads_programs: ClassVar[bool] = False
    """True if the source needs a problem that asks for a program."""
    runs_programs: ClassVar[bool] = False
    """True if the source runs programs in the sandbox."""

    required: bool = True
    """If the source fails: True ends the episode with a typed failure, False continues without
    it."""
    seconds: float = Field(default=30.0, gt=0)
    """Time limit for one turn's feedback."""


class SelfFeedbackSpec(FeedbackBase):
    """The agent's own history and the request to revise, nothing else."""

    source: Literal["self"] = "self"


class StaticFeedbackSpec(FeedbackBase):
    """Findings of static analysis, mapped to each agent's own lines."""

    reads_programs = True

    source: Literal["static"] = "static"
    tools: tuple[Literal["ast", "ruff", "mypy"], ...] = Field(default=("ast", "ruff"), min_length=1)
    """`ast` reports syntax errors, the functions that are defined and who calls whom. `ruff`
    is a linter, and `mypy` a type checker, which must be installed next to collab."""
    functions: dict[str, str] = {}
    """Maps each agent to the function it must define, "" for none. Default: the team's `entry`
    agent defines the problem's entry point, each helper the problem's `helper_name` or a function
    of its own name."""
    limit: int = Field(default=10, ge=1)
    """Largest number of findings shown to one agent."""


class ExecutionFeedbackSpec(FeedbackBase):
    """Results of the examples in the prompt, run in the sandbox. Hidden tests are never used."""

    reads_programs = runs_programs = True

    source: Literal["execution"] = "execution"
    limit: int = Field(default=5, ge=1)
    """Largest number of failing examples shown."""


class SolvedFeedbackSpec(FeedbackBase):
    """One bit: whether the task is solved, e.g. because all hidden tests pass."""

    source: Literal["solved"] = "solved"


class ExpertFeedbackSpec(FeedbackBase):
    """A stronger model reads the task and the joint artifact and proposes edits for each agent."""

    source: Literal["expert"] = "expert"
    model: ModelSpec = AnthropicSpec()
    """The model that judges. Any model that a recipe can name is possible."""
    seconds: float = Field(default=300.0, gt=0)
    """Time limit for one turn's feedback, with all attempts."""
    max_new_tokens: int = Field(default=1024, ge=1)
    """Length limit of the expert's answer."""
    retries: int = Field(default=1, ge=0)
    """Further attempts if the answer is malformed."""


class PluginFeedbackSpec(FeedbackBase):
    """Your own feedback source."""

    source: str = Field(pattern=r"^[^:]+:[A-Za-z_]\w*$")
    """The source's function: `module:function` or `file.py:function`."""
    options: dict[str, Any] = {}
    """Options passed on to the source's function."""


_BuiltIn = (
    SelfFeedbackSpec
    | StaticFeedbackSpec
    | ExecutionFeedbackSpec
    | SolvedFeedbackSpec
    | ExpertFeedbackSpec
)
SOURCES: dict[str, type[FeedbackBase]] = {
    spec.model_fields["source"].default: spec for spec in get_args(_BuiltIn)
}


def _to_spec(value: Any) -> Any:
    if isinstance(value, str):
        value = {"source": value}
    if not isinstance(value, dict):
        return value
    source = value.get("source")
    if isinstance(source, str) and source not in SOURCES and ":" not in source:
        raise ValueError(
            str(UnknownName("feedback", source, SOURCES, remedy="(or file.py:function)"))
        )
    return SOURCES.get(str(source), PluginFeedbackSpec).model_validate(value)


_Spec = _BuiltIn | PluginFeedbackSpec
FeedbackSpec = Annotated[_Spec, BeforeValidator(_to_spec, json_schema_input_type=str | _Spec)]
