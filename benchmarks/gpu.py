"""A GPU's numbers: learning and sampling with random weights of Qwen2.5's shapes.

    python benchmarks/gpu.py [--shapes 0.5B 1.5B 7B] [--minutes 8] [--out FILE.json]
    python benchmarks/gpu.py --device cpu --tiny      # seconds, to see that it works

Nothing is fetched: weights are made on the device, and responses are made up, eight to a prompt.
Learning is of one LoRA adapter of rank 16. Tokens are those that have to be computed, with what
responses share counted once and without padding. The share of the peak is of the maker's number for
dense bfloat16; 4 FLOP count for a weight and token, 6 where activations are computed twice, and the
head's weights for tokens of responses alone. Each row below the first is the default with one
option changed. What fails or finds no time left says so.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from gpu_parts.learning import Load, free, measure
from gpu_parts.sampling import by_transformers, by_vllm
from gpu_parts.shapes import SHAPES, opened
from gpu_parts.table import table

CHANGES: dict[str, dict[str, Any]] = {
    "micro-batches of 2,048 tokens": {"micro_batch_tokens": 2048},
    "logits of 96 tokens at once": {"head_chunk_tokens": 96},
    "both, as on a CPU": {"micro_batch_tokens": 2048, "head_chunk_tokens": 96},
    "attention under masks": {"tree_attention": "mask"},
    "attention by varlen": {"tree_attention": "varlen"},
    "activations computed twice": {"gradient_checkpointing": True},
    "compiled layers": {"compile_layers": True},
}
GPU_ALONE = ("tree_attention", "varlen"), ("compile_layers", True)


def changed(engine: Any, load: Load, steps: int, options: dict[str, Any], left: float) -> Any:
    device = engine.load().device
    if left <= 0:
        return {"left_out": "no time is left"}
    if device.type != "cuda" and any((key, value) in GPU_ALONE for key, value in options.items()):
        return {"left_out": "needs a GPU"}
    try:
        return measure(engine, load, steps, **options)
    except Exception as error:  # the other rows are to be told
        free(device)
        return {"failed": f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"}


def of_shape(shape: str, device: torch.device, load: Load, *, tiny: bool, until: float) -> Any:
    """All that is measured of one shape until the time is over."""
    steps, rows = (1, 4) if tiny else (3, 128)

    def left() -> float:
        return until - time.monotonic()

    with opened(shape, device) as engine:
        found = {"learning": changed(engine, load, steps, {}, left()), "changes": {}}
        for name, options in CHANGES.items():
            found["changes"][name] = changed(engine, load, steps, options, left())
        found["sampling"] = {
            "transformers": by_transformers(engine, rows, load.prompt, load.response)
            if left() > 0
            else {"left_out": "no time is left"}
        }
        del engine
    free(device)
    if device.type == "cuda":
        found["sampling"]["vllm"] = by_vllm(shape, rows, load.prompt, load.response, left())
    return found


def main(arguments: list[str] | None = None) -> int:
    from collab.trainers.training.plan.cards import card_of_device

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shapes", nargs="+", choices=list(SHAPES), default=["0.5B", "1.5B", "7B"])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="one tiny model and a short load")
    parser.add_argument("--minutes", type=float, default=8.0)
    parser.add_argument("--out", type=Path, help="a file for all numbers, as JSON")
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("no GPU is here; to see that this works: --device cpu --tiny", file=sys.stderr)
        return 0
    device = torch.device(options.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    card = card_of_device(name) if device.type == "cuda" else None
    shapes = ["tiny"] if options.tiny else options.shapes
    load = Load(2, 32, 16) if options.tiny else Load(8, 512, 256)
    begun, minutes = time.monotonic(), options.minutes
    peak = card.flops if card else None
    about = {"device": name, "torch": torch.__version__, "peak_flops": peak, "load": load._asdict()}
    found: dict[str, Any] = {**about, "shapes": {}}
    for number, shape in enumerate(shapes, start=1):
        until = begun + 60 * minutes * number / len(shapes)
        try:
            found["shapes"][shape] = of_shape(shape, device, load, tiny=options.tiny, until=until)
        except torch.OutOfMemoryError as error:
            free(device)
            found["shapes"][shape] = {"failed": str(error).splitlines()[0]}
    found["seconds"] = round(time.monotonic() - begun, 1)
    print(table(found))
    if options.out:
        options.out.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
