"""The first ten minutes on a GPU: what this card does, row by row.

    python benchmarks/gpu_first.py [--only learn/ sample/] [--out FILE.jsonl]
    python benchmarks/gpu_first.py --device cpu --tiny      # to see that it works

Each row is a process with a limit of its own and leaves a line of JSON, so that what ends early
leaves the rows before it. Nothing is fetched: weights of Qwen2.5's shapes are made on the device,
and responses are made up, eight to a prompt. Learning is of one LoRA adapter of rank 16. Tokens are
those that have to be computed, with what responses share counted once and without padding. The
share of the peak is of the maker's number for dense bfloat16; 4 FLOP count for a weight and token,
6 where activations are computed twice, and the head's weights for tokens of responses alone.
Learning rows below the first are the default with one option changed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gpu_parts.rows import ROWS, Machine

from collab.models.vllm.guard import end_tree

Line = dict[str, Any]


def measured(command: Sequence[str], seconds: float) -> Line:
    """The JSON object that a process prints last, or why there is none.

    A process that is late ends with all processes that it has started, which may hold the GPU.
    """
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, text=True, stdout=pipe, stderr=pipe)
    try:
        output, errors = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        end_tree(process.pid)
        process.communicate()
        return {"failed": f"not done in {seconds:g} s"}
    try:
        if process.returncode:
            raise ValueError
        found: Line = json.loads(output.splitlines()[-1])
    except (ValueError, IndexError):
        words = errors.strip() or output.strip() or f"status {process.returncode}, no output"
        return {"failed": words.splitlines()[-1]}
    return found


def told(line: Line) -> str:
    """A row of the table."""
    numbers = {key: value for key, value in line.items() if key not in ("row", "seconds")}
    cells = "  ".join(f"{key} {_short(value)}" for key, value in numbers.items())
    return f"{line['row']:<28} {line['seconds']:>6.1f} s  {cells}"


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{key} {_short(each)}" for key, each in value.items()) + ")"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="one tiny model and short loads")
    parser.add_argument("--only", nargs="+", default=[""], help="rows that begin so")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--out", type=Path, default=Path("gpu_first.jsonl"))
    parser.add_argument("--row", choices=list(ROWS), help="measure one row in this process")
    options = parser.parse_args(arguments)
    machine = Machine(options.device, options.tiny)
    if options.row:
        print(json.dumps(ROWS[options.row].measure(machine)), flush=True)
        return 0
    if why := machine.missing:
        print(f"{why}; to see that this works: --device cpu --tiny", file=sys.stderr)
        return 0
    own = [sys.executable, __file__, "--device", options.device, *["--tiny"] * options.tiny]
    until = time.monotonic() + 60 * options.minutes
    with options.out.open("w") as stream:
        for name, row in ROWS.items():
            if not name.startswith(tuple(options.only)):
                continue
            began = time.monotonic()
            left = until - began
            found = {"left_out": row.needs} if not row.possible(machine) else None
            if found is None:
                limit = min(row.seconds, left)
                found = (
                    measured([*own, "--row", name], limit)
                    if limit > 0
                    else {"left_out": "no time is left"}
                )
            line = {"row": name, "seconds": round(time.monotonic() - began, 1), **found}
            stream.write(json.dumps(line) + "\n")
            stream.flush()
    for text in options.out.read_text().splitlines():
        print(told(json.loads(text)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
