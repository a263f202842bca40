"""Policies: one adapter per agent on a shared base, one adapter for all, or whole models."""

from __future__ import annotations

import copy
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from collab.errors import RecipeError
from collab.models import Model
from collab.models.base import SamplerReport
from collab.models.local.engine import TransformersEngine
from collab.models.local.multi_lora import can_mix, one_adapter, unwrap, without_adapters
from collab.models.open import ModelPool
from collab.models.out_of_memory import grow_segments
from collab.models.store import StoreProgress
from collab.models.weights import quiet_transformers
from collab.recipe import Recipe, TrainerSpec
from collab.recipe.model import local_weights
from collab.runs.atomic import replacing_files
from collab.runs.layout import ADAPTER_WEIGHTS
from collab.stats import group_by
from collab.trainers.learner import lora
from collab.trainers.learner.device_sizes import check_device


@contextmanager
def acting(module: Any, adapter: str | None) -> Iterator[Any]:
    """Context manager that yields the language model with one of its adapters active, or none."""
    base = unwrap(module)
    active: AbstractContextManager[Any] = nullcontext()
    if can_mix(base):
        active = without_adapters(base) if adapter is None else one_adapter(base, adapter)
    elif adapter is not None:
        module.set_adapter(adapter)
    elif base is not module:
        active = module.disable_adapter()
    with active:
        yield base


def enable_checkpointing(base: Any) -> None:
    """Enable gradient checkpointing in a model of transformers."""
    options = {"use_reentrant": False}
    if hasattr(base, "activation_checkpointing_enable"):
        base.activation_checkpointing_enable(options)
    else:  # transformers before 5.20
        base.gradient_checkpointing_enable(options)


def disable_dropout(module: nn.Module) -> None:
    """Turn off training noise, which would make the log-probabilities differ from the sampler's.

    Dropout is turned off layer by layer, because gradient checkpointing switches back to training
    mode.
    """
    module.eval()
    for part in module.modules():
        if isinstance(part, nn.Dropout):
            part.p = 0.0
        if isinstance(getattr(part, "attention_dropout", None), float):
            setattr(part, "attention_dropout", 0.0)  # noqa: B010


SHARED = "shared"

UNLIMITED_CONCURRENCY = sys.maxsize
"""Value of the concurrency for all episodes at once."""


@dataclass(eq=False)
class Policy:
    """A set of parameters that is trained together, and the agents that use it."""

    name: str
    agents: tuple[str, ...]
    engine: TransformersEngine
    parameters: dict[str, nn.Parameter]
    """Parameters by their names in a file, cached when the policy is made."""
    is_adapter: bool
    checkpointing: bool = False
    frozen: nn.Module | None = None
    """Reference of a whole model: a copy of it before training."""
    start: str | None = None
    """Reference of an adapter that began from another: a frozen copy of the other one, by name."""

    @property
    def device(self) -> torch.device:
        return self.engine.load().device

    def acting_parameters(self) -> list[nn.Parameter]:
        """Return parameters that are currently in the model, looked up at each access."""
        module = self.engine.module
        if self.is_adapter:
            return list(lora.parameters_of(module, self.name).values())
        return list(module.parameters())

    @contextmanager
    def training(self) -> Iterator[Any]:
        """Yield the causal language model with this policy active and its parameters trainable."""
        base = unwrap(self.engine.module)
        if self.checkpointing:  # transformers checkpoints in training mode only
            base.train()
        try:
            with acting(self.engine.module, self.name) if self.is_adapter else nullcontext():
                yield base
        finally:
            if self.checkpointing:
                base.eval()

    @contextmanager
    def reference(self) -> Iterator[Any]:
        """Yield the causal language model as it was before training.

        For an adapter, this is the model with the initial adapter, or the base model if there was
        none.
        """
        with torch.no_grad():
            if self.frozen is not None:
                yield self.frozen
            else:
                with acting(self.engine.module, self.start) as base:
                    yield base

    def enable_gradient_checkpointing(self) -> None:
        """Enable gradient checkpointing: the backward pass recomputes activations."""
        self.checkpointing = True
        enable_checkpointing(unwrap(self.engine.module))

    @property
    def has_reference(self) -> bool:
        return self.is_adapter or self.frozen is not None

    def save(self, folder: Path) -> None:
        """Write the acting weights: an adapter in PEFT's format, or a model with its tokenizer."""
        if self.is_adapter:
            lora.save_adapter(self.engine, self.name, folder)
        else:
            with replacing_files(folder) as partial, quiet_transformers():
                self.engine.module.save_pretrained(partial)
                self.engine.tokenizer.save_pretrained(partial)

    def save_parameters(self, folder: Path) -> None:
        """Write the parameters alone, for a checkpoint."""
        if self.is_adapter:
            lora.save_adapter(self.engine, self.name, folder)
        else:
            with replacing_files(folder) as partial:
                tensors = {k: p.detach() for k, p in self.parameters.items()}
                lora.save_tensors(tensors, partial / ADAPTER_WEIGHTS)

    def load_parameters(self, folder: Path) -> None:
        lora.copy_tensors(self.parameters, lora.read_tensors(folder / ADAPTER_WEIGHTS), folder)


@dataclass
class Policies:
    """All policies of a team, and the model of each agent."""

    by_name: dict[str, Policy]
    models: dict[str, Model]
    """Model of each agent, frozen ones included."""
    _pools: Sequence[ModelPool] = ()
    samplers_are_stale: bool = True
    """True if the parameters differ from those of separate samplers."""
    version: int = 0
    """Number of training steps that the parameters have taken."""

    def __iter__(self) -> Iterator[Policy]:
        return iter(self.by_name.values())

    def of(self, agent: str) -> Policy:
        """Return the policy of a trained agent."""
        return next(policy for policy in self if agent in policy.agents)

    @property
    def agents(self) -> tuple[str, ...]:
        """Names of the trained agents."""
        return tuple(agent for policy in self for agent in policy.agents)

    def recipe_with_adapters(self, recipe: Recipe) -> Recipe:
        """Return the recipe with these policies as adapters, and a suitable concurrency."""
        trained = recipe.with_agents(
            {a: {"adapter": p.name if p.is_adapter else None} for p in self for a in p.agents}
        )
        has_sampler = any(model.has_own_weights for model in self.models.values())
        # A GPU and vLLM sample large batches faster.
        is_fast = has_sampler or any(policy.device.type != "cpu" for policy in self)
        concurrency = recipe.concurrency or (UNLIMITED_CONCURRENCY if is_fast else None)
        return trained.model_copy(update={"concurrency": concurrency})

    async def publish(self) -> bool:
        """Send samplers with their own weights the current ones. Return True if a sampler
        had older weights."""
        samplers = self._samplers() if self.samplers_are_stale else {}
        if samplers and torch.cuda.is_available():
            torch.cuda.empty_cache()  # samplers may need memory that learning left unused
        for sampler, sampled in samplers.items():
            await sampler.publish({policy.name: policy.save for policy in sampled}, self.version)
        self.samplers_are_stale = False
        return bool(samplers)

    async def sleep(self) -> None:
        """Let samplers with their own copy of the weights free memory until the next `publish`."""
        for sampler in self._samplers():
            await sampler.sleep()

    async def report(self) -> SamplerReport:
        """Return the load since the last report, of samplers with their own copy of the weights."""
        metrics: dict[str, float] = {}
        warnings: list[str] = []
        for number, sampler in enumerate(self._samplers()):
            load = await sampler.report()
            which = f"{number + 1}/" if number else ""
            metrics |= {f"{which}{key}": value for key, value in load.metrics.items()}
            warnings += load.warnings
        return SamplerReport(metrics=metrics, warnings=tuple(warnings))

    def _samplers(self) -> dict[Model, tuple[Policy, ...]]:
        """Return the samplers with their own copy of the weights, such as vLLM, and the policies
        that each samples from: none for a frozen agent's. A model that is trained in this process
        samples with its own parameters.
        """
        models = self.models
        acting = [models[agent] for agent in (*self.agents, *models)]
        engines = dict.fromkeys(m for m in acting if m.has_own_weights)
        return {
            engine: tuple(p for p in self if any(models[a] is engine for a in p.agents))
            for engine in engines
        }

    async def aclose(self) -> None:
        for pool in self._pools:
            await pool.aclose()


def open_policies(
    recipe: Recipe, spec: TrainerSpec, *, loading: StoreProgress | None = None
) -> Policies:
    """Open every model of the team, load the trained ones, and return the policies.

    Raises:
        RecipeError: an agent cannot be trained.
        ModelUnavailable, ModelError: a model cannot be loaded.
    """
    grow_segments(recipe)
    shared = ModelPool(progress=loading)
    pools = [shared]
    trained = recipe.team.trained
    models: dict[str, Model] = {}
    for name in recipe.team.agents:
        pool = shared
        if spec.policies == "full" and name in trained:  # whole models are not shared
            pool = ModelPool(progress=loading)
            pools.append(pool)
        models[name] = pool.open(recipe.model_of(name))
    engines = {name: _engine_of(name, recipe, models[name], shared) for name in trained}
    policies = _make_policies(recipe, spec, engines)
    for policy in policies:
        check_device(spec, policy.device.type)
        disable_dropout(policy.engine.module)
        if spec.gradient_checkpointing is True:
            policy.enable_gradient_checkpointing()
    return Policies({policy.name: policy for policy in policies}, models, pools)


def _engine_of(name: str, recipe: Recipe, model: Model, pool: ModelPool) -> TransformersEngine:
    """Return the model of a trained agent, or its weights next to the engine that samples."""
    if model.has_own_weights and (weights := local_weights(recipe.model_of(name))):
        model = pool.open(weights)
    assert isinstance(model, TransformersEngine), "check_recipe has passed"
    return model


def _make_policies(
    recipe: Recipe, spec: TrainerSpec, engines: Mapping[str, TransformersEngine]
) -> list[Policy]:
    if spec.policies == "full":
        return [_full_policy(name, engine, recipe, spec) for name, engine in engines.items()]
    if spec.policies == "adapters":
        return [_adapter_policy(name, (name,), e, recipe, spec) for name, e in engines.items()]
    groups = group_by(engines, lambda name: id(engines[name]))
    names = [SHARED] if len(groups) == 1 else [f"{SHARED}_{n}" for n in range(len(groups))]
    return [
        _adapter_policy(name, tuple(agents), engines[agents[0]], recipe, spec)
        for name, agents in zip(names, groups.values(), strict=True)
    ]


def _adapter_policy(
    name: str,
    agents: tuple[str, ...],
    engine: TransformersEngine,
    recipe: Recipe,
    spec: TrainerSpec,
) -> Policy:
    starts = {recipe.team.agents[agent].adapter for agent in agents}
    if len(starts) > 1:
        raise RecipeError(
            f"agents {', '.join(agents)} start from different adapters, so they cannot share one;"
            " set trainer.policies to 'adapters'"
        )
    start, frozen = starts.pop(), None
    if start is not None:
        frozen = f"{name}-start"  # cannot be an agent's name: these are plain words
        lora.add_adapter(engine, frozen, spec.lora, seed=recipe.seed, start=start)
    parameters = lora.add_adapter(engine, name, spec.lora, seed=recipe.seed, start=start)
    return Policy(name, agents, engine, parameters, is_adapter=True, start=frozen)


def _full_policy(
    name: str, engine: TransformersEngine, recipe: Recipe, spec: TrainerSpec
) -> Policy:
    start = recipe.team.agents[name].adapter
    if start is not None:
        lora.merge_adapter(engine, start)
    module = engine.module
    frozen = copy.deepcopy(module).eval().requires_grad_(False) if spec.kl_coef else None
    parameters = dict(module.named_parameters())
    return Policy(name, (name,), engine, parameters, is_adapter=False, frozen=frozen)
