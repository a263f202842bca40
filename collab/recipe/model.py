"""Which model answers, and how its engine is to be run.

A model is written as a string, or as a mapping with the engine's options:

    smollm2-135m                        an alias, run by transformers
    Qwen/Qwen2.5-Coder-3B-Instruct      a hub name, run by transformers
    ./my-model                          a local folder, run by transformers
    vllm:Qwen/Qwen2.5-Coder-3B-Instruct     any of these three, run by vLLM
    anthropic:claude-sonnet-4-6         Claude
    openai:http://localhost:8000/v1#qwen    any server that speaks chat completions
    scripted:answers.yaml  echo  replay:runs/20260101-120000
"""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from collab.errors import RecipeError, UnknownName
from collab.recipe.base import Spec
from collab.recipe.hosted import AnthropicModel, OpenAIModel, address
from collab.records import Sampling


class SamplingSpec(Spec):
    """The settings that differ from those of the level above; unset ones are inherited."""

    temperature: float | None = Field(default=None, ge=0.0, le=5.0)
    """0 is greedy; training wants 1 or the value whose log-probs are to be learned."""
    top_p: float | None = Field(default=None, gt=0.0, le=1.0)
    """Keep the likeliest tokens that make up this probability; 1 keeps all."""
    top_k: int | None = Field(default=None, ge=0)
    """Keep the k likeliest tokens; 0 keeps all."""
    max_new_tokens: int | None = Field(default=None, ge=1)
    """Length limit of a response."""
    stop: tuple[Annotated[str, Field(min_length=1)], ...] | None = None
    """The response ends before the first of these strings."""


def merge_sampling(*levels: SamplingSpec) -> Sampling:
    """Combine levels from the most general to the most particular."""
    settings: dict[str, object] = {}
    for level in levels:
        settings.update(level.model_dump(exclude_none=True))
    return Sampling.model_validate(settings)


class TransformersModel(Spec):
    """A local model, run by transformers; trainable."""

    engine: Literal["transformers"] = "transformers"
    name: str
    """An alias (`collab models`), a hub name, or a local folder."""
    revision: str | None = None
    """A hub revision: branch, tag or commit."""
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    """`auto` takes bfloat16 where the processor is good at it, else float32."""
    load_in: Literal["4bit"] | None = None
    """`4bit` holds the layers' weights in NF4, which takes about a quarter of the memory and makes
    each product slower; adapters can be trained on them (QLoRA). Needs
    `pip install 'collab-agents[4bit]'`."""
    device: str = "auto"
    """`auto`, `cpu`, `cuda` or `cuda:N`."""
    attn_implementation: (
        Literal["sdpa", "eager", "flash_attention_2", "flash_attention_3", "flex_attention"] | None
    ) = None
    """How transformers computes attention; None lets it choose, mostly `sdpa`. With another one
    nothing that responses share is computed once."""
    batch_tokens: int | None = Field(default=None, ge=256)
    """Prompts and new tokens of one padded batch; larger batches are split. Default: 32,768, and on
    a GPU what its free memory holds."""
    renamed = {"packed": "fast"}

    fast: bool = True
    """Sample by `collab.models.local.fast`: the same answers up to rounding, up to several times
    the tokens a second. On a CPU it holds the weights once more, in the layout that products of few
    rows are fastest in; False saves that memory."""


class VLLMModel(Spec):
    """A local model, run by vLLM: in processes of its own, or by servers. Trainable by adapters."""

    engine: Literal["vllm"] = "vllm"
    name: str
    """An alias (`collab models`), a hub name, or a local folder."""
    revision: str | None = None
    """A hub revision: branch, tag or commit."""
    servers: tuple[str, ...] = ()
    """Addresses of vLLM servers with this model, e.g. http://127.0.0.1:8000, which share the load;
    none are needed for vLLM on this machine."""
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    """Of the engine here, and of the trainer's own weights. `auto` takes bfloat16 where the
    processor is good at it, else float32."""
    context: int | None = Field(default=None, ge=16)
    """Most tokens of prompt and response together; less takes less memory. Default: the model's."""
    memory_share: float = Field(default=0.5, gt=0, le=1)
    """Share of the GPU's memory for the engine here; engines of several bases divide it equally. On
    a machine without one: the share of its free memory that the cache of keys and values takes at
    most."""
    kv_cache_gb: float | None = Field(default=None, gt=0)
    """GB of the cache of keys and values, for the engine here. Default: on a GPU what memory_share
    leaves, else room for 64 responses of the whole context."""
    sleep: bool | None = None
    """Whether the engine here gives the GPU's memory back while the trainer learns. Default: where
    both are on one GPU and, as the plan counts, do not fit at once."""
    tensor_parallel: int = Field(default=1, ge=1)
    """GPUs that share each layer of the engine here, for a model that one does not hold."""
    deterministic: bool = False
    """Whether a response's tokens are the same in any batch, for the engine here: by kernels that
    are slower by a quarter or so, on GPUs of compute capability 8.0 and later."""
    seeds: bool = False
    """Whether each request carries the seed of its place in the run, so that the same recipe draws
    the same tokens; `deterministic` sends seeds too. A GPU takes longer to draw each row of a batch
    by a seed of its own."""
    server_command: tuple[str, ...] = ()
    """What starts a server, where each of several ranks has one; options are put behind it, e.g.
    ["/opt/vllm/bin/vllm", "serve"]. Default: vLLM's server of this environment."""
    trainer_device: str = "auto"
    """Where the trainer keeps its own weights: `auto`, `cpu`, `cuda` or `cuda:N`."""
    adapter_folder: str | None = None
    """Where adapters are handed over; servers read them from the same path. Default: memory."""
    seconds: float = Field(default=600.0, gt=0)
    """Limit of one response, waiting in the engine's queue included."""
    ready_seconds: float = Field(default=600.0, gt=0)
    """Limit for the engine to start, or for a server to be there, also when it is restarted."""

    @property
    def is_seeded(self) -> bool:
        """True if requests carry seeds."""
        return self.seeds or self.deterministic

    @property
    def weights(self) -> TransformersModel:
        """The same model for a trainer, which needs its weights."""
        return TransformersModel(
            name=self.name,
            revision=self.revision,
            dtype=self.dtype,
            device=self.trainer_device,
        )

    def among(self, engines: int) -> VLLMModel:
        """The same model, as one of so many engines that divide the memory."""
        return self.model_copy(update={"memory_share": self.memory_share / engines})

    def run_by(self, servers: tuple[str, ...]) -> VLLMModel:
        """The same model, run by servers that were started as it says."""
        kept = self.model_dump(exclude={*_SERVER_FLAGS, "servers", "seeds"})
        return VLLMModel(servers=servers, seeds=self.is_seeded, **kept)

    @field_validator("servers", mode="before")
    @classmethod
    def _one_server(cls, servers: Any) -> Any:
        return (servers,) if isinstance(servers, str) else servers

    @field_validator("servers")
    @classmethod
    def _servers_are_addresses(cls, servers: tuple[str, ...]) -> tuple[str, ...]:
        form, key = "http://HOST:PORT", "a key, VLLM_API_KEY,"
        checked = [address(url, f"server {n}", form, key) for n, url in enumerate(servers, start=1)]
        return tuple(url.removesuffix("/v1") for url in checked)

    @model_validator(mode="after")
    def _servers_have_options_of_their_own(self) -> Self:
        if self.servers:
            for option, flag in _SERVER_FLAGS.items():
                if getattr(self, option) != type(self).model_fields[option].default:
                    raise ValueError(f"{option} is for vLLM on this machine; {flag}")
        return self


_SERVER_FLAGS = {
    "server_command": "the servers that it names are started already; leave out one of the two",
    "tensor_parallel": "start the servers with --tensor-parallel-size, or leave out `servers`",
    "deterministic": "start the servers with VLLM_BATCH_INVARIANT=1, or leave out `servers`",
    "kv_cache_gb": "start the servers with --kv-cache-memory-bytes, or leave out `servers`",
    "memory_share": "start the servers with --gpu-memory-utilization, or leave out `servers`",
    "sleep": "servers keep their memory; remove it, or leave out `servers`",
}


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
    "vllm": VLLMModel,
    "scripted": ScriptedModel,
    "echo": EchoModel,
    "replay": ReplayModel,
    "anthropic": AnthropicModel,
    "openai": OpenAIModel,
}

_NAMED = ENGINES.keys() - {"openai"}
_URL = ("http://", "https://")


def parse_model(text: str) -> dict[str, Any]:
    """Read the string form: `ENGINE`, `ENGINE:NAME`, `FILE.py:FUNCTION`, or a transformers name.

    Raises:
        UnknownName: a prefix that is no engine.
        RecipeError: an address where a name is wanted; it is not repeated, as it may hold a key.
    """
    engine, separator, name = text.partition(":")
    if text.startswith(_URL) or (engine in _NAMED and name.startswith(_URL)):
        raise RecipeError(
            "an address does not say which model and protocol: write openai:URL#MODEL, "
            "{engine: vllm, name: MODEL, servers: [URL]} or {engine: anthropic, base_url: URL}"
        )
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
    TransformersModel
    | VLLMModel
    | ScriptedModel
    | EchoModel
    | ReplayModel
    | AnthropicModel
    | OpenAIModel
    | PluginModel,
    BeforeValidator(_dispatch),
]


def local_weights(model: ModelSpec) -> TransformersModel | None:
    """The model as a trainer holds it; None for one whose weights are not at hand."""
    if isinstance(model, VLLMModel):
        return model.weights
    return model if isinstance(model, TransformersModel) else None
