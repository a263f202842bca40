"""Names the model that answers, and the settings of its engine.

A model is written as a string, or as a mapping with the engine's options:

    smollm2-135m                        an alias, run by transformers
    Qwen/Qwen2.5-Coder-3B-Instruct      a hub name, run by transformers
    ./my-model                          a local folder, run by transformers
    vllm:Qwen/Qwen2.5-Coder-3B-Instruct     any of these three, run by vLLM
    anthropic:claude-sonnet-4-6         Claude
    openai:http://localhost:8000/v1#qwen    any server that speaks chat completions
    scripted:answers.yaml  echo  replay:runs/first
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Annotated, Any, ClassVar, Literal, get_args

from pydantic import BeforeValidator, Field, field_validator

from collab.errors import RecipeError, UnknownName
from collab.recipe.base import Spec
from collab.recipe.hosted import AnyHostedSpec, check_address
from collab.records import Sampling
from collab.trust.blocking import server_key


class SamplingSpec(Spec):
    """Sampling settings of a recipe, a team or an agent. Unset ones come from the level above."""

    temperature: float | None = Field(default=None, ge=0.0, le=5.0)
    """Sampling temperature, greedy at 0. Default: 1. Training needs more than 0, and learns the
    log-probs at this temperature."""
    top_p: float | None = Field(default=None, gt=0.0, le=1.0)
    """Keep the likeliest tokens that make up this probability. Default: 1, which keeps all."""
    top_k: int | None = Field(default=None, ge=0)
    """Keep the k likeliest tokens. Default: 0, which keeps all."""
    max_new_tokens: int | None = Field(default=None, ge=1)
    """Length limit of a response, in tokens. Default: 256."""
    stop: tuple[Annotated[str, Field(min_length=1)], ...] | None = None
    """The response ends before the first of these strings."""


def merge_sampling(*levels: SamplingSpec) -> Sampling:
    """Return sampling settings merged from `levels`, the most general one first."""
    settings: dict[str, object] = {}
    for level in levels:
        settings.update(level.model_dump(exclude_none=True))
    return Sampling.model_validate(settings)


class TransformersSpec(Spec):
    """A local model, run by transformers. It can be trained."""

    engine: Literal["transformers"] = "transformers"
    name: str
    """An alias (`collab models`), a hub name, or a local folder."""
    revision: str | None = None
    """A hub revision: branch, tag or commit."""
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    """`auto` selects bfloat16 if the processor supports it well, otherwise float32."""
    load_in: Literal["4bit"] | None = None
    """`4bit` stores the layers' weights in NF4, which takes about a quarter of the memory but is
    slower. Adapters can be trained on them (QLoRA). Needs `pip install 'collab-agents[4bit]'`."""
    device: str = "auto"
    """`auto`, `cpu`, `cuda` or `cuda:N`."""
    attn_implementation: (
        Literal["sdpa", "eager", "flash_attention_2", "flash_attention_3", "flex_attention"] | None
    ) = None
    """The attention implementation of transformers. None lets transformers choose, mostly `sdpa`.
    With any other than `sdpa`, shared prefixes are computed once per response."""
    batch_tokens: int | None = Field(default=None, ge=256)
    """Prompt and new tokens of one padded batch. Larger batches are split. Default: 32,768 on a
    CPU, and as many as the free memory holds on a GPU."""
    renamed = {"packed": "fast"}

    fast: bool = True
    """Sample with `collab.models.local.fast`, which is up to several times faster and gives the
    same answers up to rounding. On a CPU, it keeps a second copy of the weights in a faster layout.
    False saves that memory."""


class VLLMSpec(Spec):
    """A local model run by vLLM, in its own processes or on servers. It can be trained."""

    key: ClassVar[str] = "VLLM_API_KEY"

    engine: Literal["vllm"] = "vllm"
    name: str
    """An alias (`collab models`), a hub name, or a local folder."""
    revision: str | None = None
    """A hub revision: branch, tag or commit."""
    servers: tuple[str, ...] = ()
    """Addresses of vLLM servers with this model, e.g. http://127.0.0.1:8000, among which requests
    are divided. If empty, vLLM runs on this machine."""
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    """Number format of the local engine and of the trainer's own weights. `auto` selects bfloat16
    if the processor supports it well, otherwise float32."""
    context: int | None = Field(default=None, ge=16)
    """Largest number of tokens of prompt and response together. Lower it to save memory. Default:
    the model's."""
    memory_share: float = Field(default=0.5, gt=0, le=1)
    """Share of the GPU's memory for the local engine. Engines of several bases divide it equally.
    On a machine without a GPU: the largest share of its free memory that the KV cache may take."""
    kv_cache_gb: float | None = Field(default=None, gt=0)
    """Size of the local engine's KV cache, in GB. Default: on a GPU the rest of memory_share,
    otherwise room for 64 responses of the whole context."""
    sleep: bool | None = None
    """Make the local engine release the GPU's memory while the trainer learns. Default: only if
    both share one GPU and do not fit on it together."""
    tensor_parallel: int = Field(default=1, ge=1)
    """GPUs that share each layer of the local engine, for a model too large for one."""
    deterministic: bool = False
    """Make a response's tokens independent of its batch, in the local engine. This needs GPUs of
    compute capability 8.0 or later, and its kernels are slower."""
    seeds: bool = False
    """Send a seed with each request, derived from its position in the run. The same recipe then
    samples the same tokens, in most cases also on a GPU. `deterministic` also sends seeds."""
    server_command: tuple[str, ...] = ()
    """The command that starts a server on each rank, without options, e.g. ["/opt/vllm/bin/vllm",
    "serve"]. Default: the vLLM server of this environment."""
    trainer_device: str = "auto"
    """Device of the trainer's own weights: `auto`, `cpu`, `cuda` or `cuda:N`."""
    adapter_folder: str | None = None
    """Folder in which servers find new adapters. It must have the same path for all of them.
    Default: a folder in this machine's memory, for servers on this machine."""
    seconds: float = Field(default=600.0, gt=0)
    """Time limit of one response in seconds, including its wait in the engine's queue."""
    ready_seconds: float = Field(default=600.0, gt=0)
    """Seconds that the engine may take to start, or a server to be ready, including restarts."""

    @property
    def command_words(self) -> tuple[str, ...]:
        """The command that starts a server; empty for the one of this environment."""
        return self.server_command

    @property
    def approval_key(self) -> str:
        """The command's key in `collab.trust.blocking`."""
        return server_key(self.server_command, ())

    @property
    def is_seeded(self) -> bool:
        """True if requests carry seeds."""
        return self.seeds or self.deterministic

    @property
    def weights(self) -> TransformersSpec:
        """The same model for the engine `transformers`, in which the trainer changes the
        weights."""
        return TransformersSpec(
            name=self.name,
            revision=self.revision,
            dtype=self.dtype,
            device=self.trainer_device,
        )

    def divide_memory(self, engines: int) -> VLLMSpec:
        """Return this model with its share of the memory divided by `engines`."""
        return self.model_copy(update={"memory_share": self.memory_share / engines})

    def with_servers(self, servers: tuple[str, ...]) -> VLLMSpec:
        """Return this model with its engine replaced by running servers that were started with its
        settings."""
        kept = self.model_dump(exclude={*_SERVER_FLAGS, "servers", "seeds"})
        return VLLMSpec(servers=servers, seeds=self.is_seeded, **kept)

    @field_validator("servers", mode="before", json_schema_input_type=str | tuple[str, ...])
    @classmethod
    def _list_servers(cls, servers: Any) -> Any:
        return (servers,) if isinstance(servers, str) else servers

    @field_validator("servers")
    @classmethod
    def _servers_are_addresses(cls, servers: tuple[str, ...]) -> tuple[str, ...]:
        form, key = "http://HOST:PORT", f"a key, {cls.key},"
        checked = [
            check_address(url, f"server {n}", form, key) for n, url in enumerate(servers, start=1)
        ]
        return tuple(url.removesuffix("/v1") for url in checked)

    def _faults(self) -> Iterator[str]:
        for option, flag in _SERVER_FLAGS.items() if self.servers else ():
            if getattr(self, option) != type(self).model_fields[option].default:
                yield f"{option} works only with vLLM on this machine; {flag}"


_SERVER_FLAGS = {
    "server_command": "`servers` are already running; leave out one of the two",
    "tensor_parallel": "start the servers with --tensor-parallel-size, or leave out `servers`",
    "deterministic": "start the servers with VLLM_BATCH_INVARIANT=1, or leave out `servers`",
    "kv_cache_gb": "start the servers with --kv-cache-memory-bytes, or leave out `servers`",
    "memory_share": "start the servers with --gpu-memory-utilization, or leave out `servers`",
    "sleep": "servers keep their memory; remove the option, or leave out `servers`",
}


class ScriptedSpec(Spec):
    """Answers from a script, in order. The run fails if answers are left."""

    engine: Literal["scripted"] = "scripted"
    name: str
    """A YAML file: a list of answers, or a mapping from agent to list."""


class EchoSpec(Spec):
    """Answers with the last message of the prompt."""

    engine: Literal["echo"] = "echo"
    name: str = "echo"


class ReplaySpec(Spec):
    """Replays the recorded actions of a run."""

    engine: Literal["replay"] = "replay"
    name: str
    """A run folder, or an `episodes.jsonl`."""


class PluginSpec(Spec):
    """A third-party engine."""

    engine: str
    """`module:function`, `file.py:function`, or a name registered by an installed package (entry
    point group `collab.models`). The function is called with this spec and returns a Model."""
    name: str = ""
    options: dict[str, Any] = {}
    """Options passed on to the engine."""

    @field_validator("engine")
    @classmethod
    def _engine_is_known(cls, engine: str) -> str:
        if ":" not in engine and engine not in (registered := _registered_engines()):
            raise ValueError(str(_unknown_engine_error(engine, registered)))
        return engine


_BuiltIn = TransformersSpec | VLLMSpec | ScriptedSpec | EchoSpec | ReplaySpec | AnyHostedSpec
ENGINES: dict[str, type[Spec]] = {
    spec.model_fields["engine"].default: spec for spec in get_args(_BuiltIn)
}

_NAMED_ENGINES = ENGINES.keys() - {"openai"}
_URL_PREFIXES = ("http://", "https://")


def parse_model(text: str) -> dict[str, Any]:
    """Return the data of a model's string form: `ENGINE`, `ENGINE:NAME`, `FILE.py:FUNCTION`, or a
    transformers name.

    Raises:
        UnknownName: the prefix is not an engine.
        RecipeError: an address is given where a name is needed. The message omits it, because it
            may hold a key.
    """
    engine, separator, name = text.partition(":")
    if text.startswith(_URL_PREFIXES) or (
        engine in _NAMED_ENGINES and name.startswith(_URL_PREFIXES)
    ):
        raise RecipeError(
            "an address does not say which model and protocol: write openai:URL#MODEL, "
            "{engine: vllm, name: MODEL, servers: [URL]} or {engine: anthropic, base_url: URL}"
        )
    if engine.endswith(".py") and separator:
        return {"engine": text}
    if separator and engine not in ENGINES and not text.startswith(("/", "./", "../", "~")):
        registered = _registered_engines()
        if engine not in registered:
            raise _unknown_engine_error(
                engine, registered, f"; your own function: {{engine: '{text}'}}"
            )
    elif engine not in ENGINES:
        return {"engine": "transformers", "name": text}
    return {"engine": engine, "name": name} if name else {"engine": engine}


def _unknown_engine_error(engine: str, registered: list[str], function: str = "") -> UnknownName:
    remedy = f"(a server: openai:URL#MODEL{function})"
    return UnknownName("model engine", engine, [*ENGINES, *registered], remedy=remedy)


def _registered_engines() -> list[str]:
    """Return the engines of installed packages."""
    return [point.name for point in entry_points(group="collab.models")]


def _to_spec(value: Any) -> Any:
    """Make a model's spec from a string or mapping, by its engine."""
    if isinstance(value, str):
        value = parse_model(value)
    if isinstance(value, dict):
        spec = ENGINES.get(str(value.get("engine", "transformers")), PluginSpec)
        return spec.model_validate(value)
    if not isinstance(value, Spec):
        raise ValueError(f"must be a model's name or a mapping, got {value!r:.60}")
    return value


_Spec = _BuiltIn | PluginSpec
ModelSpec = Annotated[_Spec, BeforeValidator(_to_spec, json_schema_input_type=str | _Spec)]


def local_weights(model: ModelSpec) -> TransformersSpec | None:
    """Return the model as a trainer loads it, or None for a model without local weights, e.g. a
    hosted one."""
    if isinstance(model, VLLMSpec):
        return model.weights
    return model if isinstance(model, TransformersSpec) else None
