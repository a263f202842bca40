"""Which model answers, and how its engine is to be run.

A model is written as a string, or as a mapping with the engine's options:

    smollm2-135m                        an alias, run by transformers
    Qwen/Qwen2.5-Coder-3B-Instruct      a hub name, run by transformers
    ./my-model                          a local folder, run by transformers
    anthropic:claude-sonnet-4-5         Claude
    scripted:answers.yaml  echo  replay:runs/20260101-120000
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator

from collab.errors import UnknownName
from collab.recipe.base import Spec


class TransformersModel(Spec):
    """A local model, run by transformers; trainable."""

    engine: Literal["transformers"] = "transformers"
    name: str
    """An alias (`collab models`), a hub name, or a local folder."""
    revision: str | None = None
    """A hub revision: branch, tag or commit."""
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    """`auto` takes bfloat16 where the processor is good at it, else float32."""
    device: str = "auto"
    """`auto`, `cpu`, `cuda` or `cuda:N`."""
    batch_tokens: int = Field(default=32_768, ge=256)
    """Prompts and new tokens of one padded batch; larger batches are split."""


class ScriptedModel(Spec):
    """Answers from a script, in order; fails when the script is not used up."""

    engine: Literal["scripted"] = "scripted"
    name: str
    """A YAML file: a list of answers, or a mapping from agent to list."""


class EchoModel(Spec):
    """Answers with its last message."""

    engine: Literal["echo"] = "echo"
    name: str = "echo"


class ReplayModel(Spec):
    """Gives the recorded actions of a run again."""

    engine: Literal["replay"] = "replay"
    name: str
    """A run folder, or an `episodes.jsonl`."""


class AnthropicModel(Spec):
    """Claude, through the Messages API. The key comes from ANTHROPIC_API_KEY."""

    engine: Literal["anthropic"] = "anthropic"
    name: str = "claude-sonnet-4-5"
    base_url: str | None = None
    """Another address that speaks the Messages API; default: ANTHROPIC_BASE_URL or Anthropic's."""
    seconds: float = Field(default=120.0, gt=0)
    """Limit of one attempt."""
    retries: int = Field(default=4, ge=0)
    """Further attempts after 429, 5xx, overload or a dropped connection, with backoff."""
    concurrency: int = Field(default=8, ge=1)
    """Requests in flight at the same time."""
    cost_limit: float | None = Field(default=None, gt=0)
    """US dollars that this model may spend in one run."""
    input_price: float = Field(default=3.0, ge=0)
    """US dollars a million prompt tokens."""
    output_price: float = Field(default=15.0, ge=0)
    """US dollars a million new tokens."""


class PluginModel(Spec):
    """An engine of a third party."""

    engine: str
    """`module:function`, `file.py:function`, or a name registered by an installed package (entry
    point group `collab.models`); the function is called with this spec and returns a Model."""
    name: str = ""
    options: dict[str, Any] = {}
    """Passed on to the engine."""

    @field_validator("engine")
    @classmethod
    def _engine_is_known(cls, engine: str) -> str:
        if ":" not in engine and engine not in (registered := _registered()):
            raise ValueError(str(UnknownName("model engine", engine, [*ENGINES, *registered])))
        return engine


ENGINES: dict[str, type[Spec]] = {
    "transformers": TransformersModel,
    "scripted": ScriptedModel,
    "echo": EchoModel,
    "replay": ReplayModel,
    "anthropic": AnthropicModel,
}


def parse_model(text: str) -> dict[str, Any]:
    """Read the string form: `ENGINE`, `ENGINE:NAME`, `FILE.py:FUNCTION`, or a transformers name.

    Raises:
        UnknownName: a prefix that is no engine.
    """
    engine, separator, name = text.partition(":")
    if engine.endswith(".py") and separator:
        return {"engine": text}
    if separator and engine not in ENGINES and not text.startswith(("/", "./", "../", "~")):
        registered = _registered()
        if engine not in registered:
            remedy = f"(a function is written {{engine: '{text}'}})"
            known = [*ENGINES, *registered]
            raise UnknownName("model engine", engine, known, remedy=remedy)
    elif engine not in ENGINES:
        return {"engine": "transformers", "name": text}
    return {"engine": engine, "name": name} if name else {"engine": engine}


def _registered() -> list[str]:
    """Engines of installed packages."""
    return [point.name for point in entry_points(group="collab.models")]


def _dispatch(value: Any) -> Any:
    if isinstance(value, str):
        value = parse_model(value)
    if isinstance(value, dict):
        spec = ENGINES.get(str(value.get("engine", "transformers")), PluginModel)
        return spec.model_validate(value)
    return value


ModelSpec = Annotated[
    TransformersModel | ScriptedModel | EchoModel | ReplayModel | AnthropicModel | PluginModel,
    BeforeValidator(_dispatch),
]
