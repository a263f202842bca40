"""Exports a trained team's weights for other programs: plain PEFT adapters, or whole models."""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from collab.errors import RecordError
from collab.models.local.adapters import ADAPTER_ERRORS, check_harmless
from collab.models.store import read_config, resolve
from collab.models.store.models import public_name
from collab.recipe import Recipe, read_recipe
from collab.recipe.approval import about_adapters
from collab.recipe.model import TransformersSpec, local_weights
from collab.runs.about import check_has_ended
from collab.runs.atomic import creating_folder, replacing_files
from collab.runs.layout import ADAPTER_CONFIG, ADAPTER_WEIGHTS, ADAPTERS, MODELS, RECIPE
from collab.runs.reading import check_within


def adapters_of(run: Path) -> tuple[Recipe, dict[str, Path]]:
    """Return the recipe of a trained team, and each agent's adapter.

    Raises:
        RecordError: the folder does not exist, is still being written, contains no team or a team
            without adapters, or is third-party and uses an adapter outside of it.
    """
    if not (run / RECIPE).is_file():
        raise RecordError(
            f"there is no {run / RECIPE}; specify the folder of a training run: `collab show` lists"
            " your runs, and `collab train RECIPE` starts one"
        )
    check_has_ended(run)
    check_within(run, (run / RECIPE,))
    recipe, question = read_recipe(str(run))
    adapters = {n: Path(a.adapter) for n, a in recipe.team.agents.items() if a.adapter is not None}
    if not adapters:
        whole = run / MODELS
        remedy = (
            f"its whole models are in {whole}"
            if whole.is_dir()
            else "choose the folder of a training run with adapters"
        )
        raise RecordError(f"no agent of {run} has an adapter; {remedy}")
    if question.files and (outside := about_adapters(recipe, question, run).open):
        raise RecordError(
            f"{run} would {outside[0].text}, which is not in this folder; copy the adapter to"
            f" {run / ADAPTERS}, and name it in {RECIPE}"
        )
    for folder in adapters.values():
        if folder.resolve().is_relative_to(run.resolve()):
            check_within(run, (folder / ADAPTER_CONFIG, folder / ADAPTER_WEIGHTS))
    return recipe, adapters


def base_of(recipe: Recipe, agent: str) -> TransformersSpec:
    """Return the base model of an agent's adapter, or raise RecordError if it has no weights."""
    spec = local_weights(recipe.model_of(agent))
    if spec is None:
        raise RecordError(
            f"agent '{agent}' uses the engine {recipe.model_of(agent).engine}, which has no weights"
        )
    return spec


def export_adapters(run: Path, out: Path, *, half: bool = False) -> dict[str, str]:
    """Write each agent's adapter to `out`/AGENT in PEFT's format, and return the base models by
    agent.

    Args:
        half: round the weights to bfloat16, which halves their size.

    Raises:
        RecordError: an adapter is missing or cannot be exported, or `out` is not empty.
    """
    return _export(run, out, partial(_write_adapter, half=half))


def export_merged(run: Path, out: Path) -> dict[str, str]:
    """Write a whole model per agent to `out`/AGENT, its base merged with its adapter, and return
    the bases by agent.

    The sum is computed in float32 and stored in the precision of the base. If training loaded the
    base in 4 bits, its 4-bit values are used, because the adapter was trained on them.

    Raises:
        RecordError: an adapter is missing or cannot be exported, or `out` is not empty.
        ModelUnavailable: a base cannot be loaded.
    """
    return _export(run, out, _write_merged)


def _export(
    run: Path, out: Path, write: Callable[[TransformersSpec, Path, Path], None]
) -> dict[str, str]:
    recipe, adapters = adapters_of(run)
    bases = {agent: base_of(recipe, agent) for agent in adapters}
    for folder in adapters.values():
        with _explain_adapter_errors(folder):
            check_harmless(folder)
    with creating_folder(out):
        for agent, folder in adapters.items():
            with _explain_adapter_errors(folder), replacing_files(out / agent) as target:
                write(bases[agent], folder, target)
    return {agent: public_name(base.name) for agent, base in bases.items()}


@contextmanager
def _explain_adapter_errors(adapter: Path) -> Iterator[None]:
    """Raise one RecordError for the errors of an adapter that cannot be read, or does not fit."""
    from safetensors import SafetensorError

    try:
        yield
    except (*ADAPTER_ERRORS, SafetensorError) as error:
        if "No space left" in str(error):  # safetensors has an error of its own
            raise OSError(errno.ENOSPC, "No space left on device") from error
        raise RecordError(f"adapter {adapter} cannot be exported: {error}") from error


def _write_adapter(base: TransformersSpec, adapter: Path, out: Path, *, half: bool) -> None:
    if half:
        import torch
        from safetensors.torch import load_file, save_file

        weights = load_file(adapter / ADAPTER_WEIGHTS)
        rounded = {name: weight.to(torch.bfloat16) for name, weight in weights.items()}
        save_file(rounded, out / ADAPTER_WEIGHTS, metadata={"format": "pt"})
    else:
        shutil.copyfile(adapter / ADAPTER_WEIGHTS, out / ADAPTER_WEIGHTS)
    config = json.loads((adapter / ADAPTER_CONFIG).read_text())
    config |= {"base_model_name_or_path": public_name(base.name), "revision": base.revision}
    (out / ADAPTER_CONFIG).write_text(json.dumps(config, indent=2) + "\n")


def _write_merged(base: TransformersSpec, adapter: Path, out: Path) -> None:
    import torch
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    from collab.models.local.multi_lora import merge
    from collab.models.weights import (
        check_parameters,
        four_bit_options,
        load_config,
        load_errors,
        load_tokenizer,
        quiet_transformers,
    )

    weights, device = resolve(base.name, base.revision), torch.device("cpu")
    read_config(weights, base.name)
    quantization = four_bit_options(base.name, torch.float32, device) if base.load_in else {}
    with load_errors(base.name, weights):
        check_parameters(weights, base.name)
        dtype = load_config(weights).dtype or torch.float32
        model: Any = AutoModelForCausalLM.from_pretrained(
            weights, dtype=torch.float32, **quantization, trust_remote_code=False
        )
        model = model.dequantize() if base.load_in else model
        tokenizer = load_tokenizer(weights)
    with quiet_transformers():
        module = merge(PeftModel.from_pretrained(model, str(adapter), "export"), "export")
        module.to(dtype).save_pretrained(out)
        tokenizer.save_pretrained(out)
