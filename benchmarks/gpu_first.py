"""The first ten minutes on a GPU: what this card does, row by row.

    python benchmarks/gpu_first.py [--only learn/ sample/] [--out FILE.jsonl]
    python benchmarks/gpu_first.py --table FILE.jsonl       # prints it and runs nothing
    python benchmarks/gpu_first.py --device cpu --tiny      # to see that it works

Each row is a process with a limit of its own and adds a line of JSON. Another start goes on with
the rows that are missing, and then tries again those that failed. Nothing is fetched: weights of
Qwen2.5's shapes are made on the device, and responses are made up, eight to a prompt.

learn    one LoRA adapter of rank 16, with peak memory and its plan. Tokens are those that have
         to be computed, with what responses share counted once and without padding. The share of
         the peak is of the maker's number for dense bfloat16; 4 FLOP count for a weight and token,
         6 where activations are computed twice, and the head's weights for tokens of responses
         alone. Rows with a third part are the default with one option changed.
sample   rows x adapters, with the bytes of the batch and their plan
step     whole steps, by agents: `collab train`, and CoMLRL and TRL where they are installed, with
         the same shapes, prompts, lengths and adapters: 2 prompts of 128 tokens and 8 responses of
         up to 128 to each; long ones have 8 prompts of 512 and responses of up to 256
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

from gpu_parts.rows import OTHERS, ROWS, Machine

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


def lines_of(file: Path) -> list[Line]:
    """The lines of a file, without one that was not written to its end."""
    found = []
    for text in file.read_text().splitlines() if file.exists() else []:
        try:
            found.append(json.loads(text))
        except ValueError:
            continue
    return found


def todo(lines: Sequence[Line], place: str, *, tiny: bool) -> list[str]:
    """The rows that are missing on a machine, then those that have failed."""
    last = {line["row"]: line for line in lines if line["on"] == place}
    again = [name for name, line in last.items() if {"failed", "left_out"} & line.keys()]
    repeated = {*OTHERS, "long"} if tiny else set()
    names = [name for name in ROWS if not repeated & set(name.split("/"))]
    return [name for name in names if name not in last] + [n for n in names if n in again]


def told(line: Line) -> str:
    """A row of the table."""
    numbers = {key: value for key, value in line.items() if key not in ("row", "seconds", "on")}
    cells = "  ".join(f"{key} {_short(value)}" for key, value in numbers.items())
    return f"{line['row']:<20} {line['seconds']:>6.1f} s  {cells}"


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return "(" + ", ".join(f"{key} {_short(each)}" for key, each in value.items()) + ")"
    return f"{value:,.4g}" if isinstance(value, float) else str(value)


def table(lines: Sequence[Line]) -> str:
    """The last line of each row, by machine."""
    last = {(line["on"], line["row"]): line for line in lines}
    order = list(ROWS)
    rows = sorted(last, key=lambda key: order.index(key[1]) if key[1] in order else len(order))
    return "\n".join(
        text
        for place in dict.fromkeys(place for place, _ in last)
        for text in (place, *(told(last[key]) for key in rows if key[0] == place))
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="one tiny model and short loads")
    parser.add_argument("--only", nargs="+", default=[""], help="rows that begin so")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--out", type=Path, default=Path("gpu_first.jsonl"))
    parser.add_argument("--table", type=Path, help="print the table of this file alone")
    parser.add_argument("--row", choices=list(ROWS), help="measure one row in this process")
    options = parser.parse_args(arguments)
    machine = Machine(options.device, options.tiny)
    if options.table:
        print(table(lines_of(options.table)))
        return 0
    if options.row:
        print(json.dumps(ROWS[options.row].measure(machine)), flush=True)
        return 0
    if why := machine.missing:
        print(f"{why}; to see that this works: --device cpu --tiny", file=sys.stderr)
        return 0
    own = [sys.executable, __file__, "--device", options.device, *["--tiny"] * options.tiny]
    until = time.monotonic() + 60 * options.minutes
    about = measured([*own, "--row", "versions"], 60)
    if "device" not in about:
        print(f"torch does not work here: {about['failed']}", file=sys.stderr)
        return 1
    left = todo(lines_of(options.out), about["device"], tiny=options.tiny)
    left = [name for name in left if name.startswith(tuple(options.only))]
    while left and (limit := until - time.monotonic()) > 0:
        name, began = left.pop(0), time.monotonic()
        row = ROWS[name]
        if why := row.lacking(machine):
            found: Line = {"left_out": why}
        else:
            found = measured([*own, "--row", name], min(row.seconds, limit))
        seconds = round(time.monotonic() - began, 1)
        line = {"row": name, "on": about["device"], "seconds": seconds, **found}
        with options.out.open("a") as stream:
            stream.write(json.dumps(line) + "\n")
        print(told(line), flush=True)
    if left:
        print(f"{len(left)} rows are missing; start again to go on")
    return 0


if __name__ == "__main__":
    sys.exit(main())
