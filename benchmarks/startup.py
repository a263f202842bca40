"""Start-up of the commands that load no model, against the bare interpreter in the same run.

    python benchmarks/startup.py [ROUNDS]

Prints for each command the best and the median of its wall times, and the ratio of the medians
to that of `python -c pass`. Exit status 1 when a median is above the limit of 250 ms.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

LIMIT_MS = 250
ROUNDS = 9

COMMANDS = (
    "--help",
    "tasks",
    "teams",
    "schema",
    "models",
    "run coding --task humaneval/12 --dry-run",
)


def main() -> int:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    cases = {"python -c pass": [sys.executable, "-c", "pass"]}
    for command in COMMANDS:
        cases[f"collab {command}"] = [sys.executable, "-m", "collab", *command.split()]
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, arguments in cases.items():
            times[name].append(milliseconds(arguments))
    bare = statistics.median(times["python -c pass"])
    print(f"{'command':<52}{'best ms':>9}{'median ms':>11}{'ratio':>8}")
    for name, measured in times.items():
        median = statistics.median(measured)
        print(f"{name:<52}{min(measured):>9.0f}{median:>11.0f}{median / bare:>8.1f}")
    slow = [name for name, measured in times.items() if statistics.median(measured) > LIMIT_MS]
    print(f"limit {LIMIT_MS} ms: {'kept' if not slow else 'passed by ' + ', '.join(slow)}")
    return 1 if slow else 0


def milliseconds(arguments: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(arguments, stdout=subprocess.DEVNULL, check=True)
    return 1000 * (time.perf_counter() - started)


if __name__ == "__main__":
    sys.exit(main())
