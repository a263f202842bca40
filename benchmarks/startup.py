"""Start-up time of commands that load no model, relative to importing their common packages.

    python benchmarks/startup.py [ROUNDS]

Prints for each command its median CPU time (user and system), the ratio to that of importing the
libraries that `run --dry-run` loads, and the goal for the ratio. The cases alternate, so a
slow minute of the machine affects all of them. The first round is not counted: it may compile the
modules. The exit status is 1 if a goal is missed.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys

ROUNDS = 9
BASE = "import asyncio, jinja2, rich, typer, yaml; from pydantic import BaseModel, TypeAdapter"

GOALS = {
    "--help": 0.6,
    "tasks": 1.3,
    "teams": None,
    "schema": None,
    "models": None,
    "run coding --task humaneval/12 --dry-run": 3.5,
    "train examples/recipes/humaneval-cpu.yaml --dry-run": 3.5,
}


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    cases = {command: ["-m", "collab", *command.split()] for command in GOALS}
    times: dict[str, list[float]] = {name: [] for name in (BASE, *cases)}
    for number in range(rounds + 1):
        for name, arguments in {BASE: ["-c", BASE], **cases}.items():
            used = cpu_milliseconds([sys.executable, *arguments])
            if number:
                times[name].append(used)
    base = statistics.median(times.pop(BASE))
    print(f"{'':<60}{'CPU ms':>8}{'ratio':>8}{'goal':>8}")
    print(f"{'the libraries':<60}{base:>8.0f}{1:>8.2f}")
    missed = []
    for command, measured in times.items():
        median, goal = statistics.median(measured), GOALS[command]
        print(f"{'collab ' + command:<60}{median:>8.0f}{median / base:>8.2f}{goal or '':>8}")
        if goal and median / base > goal:
            missed.append(command)
    print(f"missed by: {', '.join(missed)}" if missed else "every goal is kept")
    return 1 if missed else 0


def cpu_milliseconds(arguments: list[str]) -> float:
    keep_bytecode = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    process = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, env=keep_bytecode)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, arguments)
    return 1000 * (used.ru_utime + used.ru_stime)


if __name__ == "__main__":
    sys.exit(main())
