"""`collab export`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from pathlib import Path

from collab.cli.options import argument, complete_runs, flag, option
from collab.errors import RecipeError

VLLM_MAX_RANK = 16
"""vLLM's default for the largest rank of an adapter."""


def command(
    run: Path = argument("RUN", "The folder of a trained team.", autocompletion=complete_runs),
    *,
    adapters: Path | None = option(
        "--adapters", "DIR", "Write one adapter per agent, in PEFT's format."
    ),
    half: bool = flag("--half", "Write --adapters in bfloat16, at half the size."),
    merged: Path | None = option(
        "--merged", "DIR", "Write one model per agent, with its adapter merged."
    ),
) -> None:
    """Write a trained team's weights for other programs.

    Give --adapters, --merged or both. PEFT and vLLM load the adapters as they
    are. Merged models need no PEFT: transformers loads one folder per agent.

    Examples:
      collab export runs/first --adapters adapters
      collab export runs/first --merged models

    Exit status:
      0  success
      2  bad usage, or the weights cannot be written
    """
    from collab.sharing.export import export_adapters, export_merged

    if adapters is None and merged is None:
        raise RecipeError(
            "nothing to write; use --adapters DIR (one LoRA adapter per agent), --merged DIR"
            " (complete models), or both"
        )
    if half and adapters is None:
        raise RecipeError("--half needs --adapters; add that, or leave out --half")
    if adapters is not None:
        bases = export_adapters(run, adapters, half=half)
        for agent, base in bases.items():
            print(f"{adapters / agent}: an adapter of {base}")
        for base in dict.fromkeys(bases.values()):
            folders = {a: adapters / a for a, of in bases.items() if of == base}
            max_rank = _max_rank_option(folders.values())
            modules = [f"{agent}={folder}" for agent, folder in folders.items()]
            words = ["vllm", "serve", base, "--enable-lora", *max_rank, "--lora-modules", *modules]
            print(shlex.join(words))
    if merged is not None:
        for agent, base in export_merged(run, merged).items():
            print(f"{merged / agent}: {base} with the adapter of {agent}")


def _max_rank_option(folders: Iterable[Path]) -> list[str]:
    """Return vLLM's option for adapters above its default rank, otherwise []."""
    from collab.models.vllm.adapter_files import SERVED_RANKS
    from collab.runs.layout import ADAPTER_CONFIG

    largest = max(json.loads((f / ADAPTER_CONFIG).read_text())["r"] for f in folders)
    size = next((size for size in SERVED_RANKS if size >= largest), largest)
    return ["--max-lora-rank", str(size)] if size > VLLM_MAX_RANK else []
