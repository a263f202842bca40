"""Runs a corpus with two sandboxes; as a script, runs every n-th program for other users."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from support.attacks.corpus import attacks
from support.attacks.mark import MARK

from collab.recipe.sandbox import SandboxSpec
from collab.sandbox import Sandbox, Trial

LIMIT = 1.0
LATEST = LIMIT + 3.0
"""Seconds until a trial must have ended, including start and end on a busy machine."""
CONCURRENCY = 2
HONEST = "def aux(n):\n    return n\n\ndef f(n):\n    return aux(n) + 1\n"
TEST = """
def check(candidate):
    assert candidate(1) == 2
    assert candidate(5) == 6
    for n in range(3):
        assert candidate(n) == n + 1
    assert abs(candidate(9) - 10) < 1e-12
"""
PLANTED = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/", ".", str(Path.home()))


def trial(program: str, test: str = TEST) -> Trial:
    return Trial(program=program, entry_point="f", test=test)


def descendants(root: int) -> set[int]:
    """All processes below `root`."""
    parents: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            text = path.read_text()
        except OSError:
            continue  # it ended meanwhile
        pid, rest = int(text.split(" ", 1)[0]), text.rsplit(")", 1)[1].split()
        parents.setdefault(int(rest[1]), []).append(pid)
    found, open_ = set(), [root]
    while open_:
        children = parents.get(open_.pop(), [])
        found.update(children)
        open_ += children
    return found


def planted() -> list[str]:
    return [str(p) for place in PLANTED for p in Path(place).glob(f"*{MARK}*")]


async def run_all(
    programs: dict[str, str], test: str = TEST, times: int = 1
) -> dict[str, dict[str, Any]]:
    """Run all programs against one test, like `run_each`."""
    return await run_each({name: (program, test) for name, program in programs.items()}, times)


async def run_each(
    programs: Mapping[str, tuple[str, str]], times: int = 1
) -> dict[str, dict[str, Any]]:
    """Run each program against its test, and an honest program in the same supervisor.

    A program runs `times` times in a row; the last run counts.
    """
    results: dict[str, dict[str, Any]] = {}
    queue = list(programs.items())[::-1]

    async def check_queued() -> None:
        async with Sandbox(
            SandboxSpec(seconds=LIMIT, cpu_seconds=2, memory_mb=256, workers=1)
        ) as sandbox:
            await sandbox.check(trial(HONEST))
            [supervisor] = sandbox._idle
            before = descendants(supervisor.pid)
            while queue:
                name, (program, test) = queue.pop()
                for _ in range(times - 1):
                    await sandbox.check(trial(program, test))
                started = time.monotonic()
                verdict = await sandbox.check(trial(program, test))
                seconds = time.monotonic() - started
                after = await sandbox.check(trial(HONEST))
                results[name] = {
                    "passed": verdict.passed,
                    "error": verdict.error,
                    "flags": verdict.flags,
                    "tests": [verdict.tests.passed, verdict.tests.total],
                    "seconds": seconds,
                    "next_passed": after.passed,
                    "same_supervisor": sandbox._idle == [supervisor],
                    "left": sorted(descendants(supervisor.pid) - before),
                    "planted": planted(),
                }

    await asyncio.gather(*(check_queued() for _ in range(CONCURRENCY)))
    return results


def check_harmless(name: str, outcome: dict[str, Any]) -> None:
    """Check that an attack did not pass, ended in time and left nothing behind."""
    assert not outcome["passed"], ("it was scored as right", name)
    assert outcome["seconds"] <= LATEST, ("it took longer than its limit", name)
    assert outcome["left"] == [], ("it left processes behind", name)
    assert outcome["planted"] == [], ("it left files behind", name)
    assert outcome["next_passed"], ("the next honest program did not pass", name)
    assert outcome["same_supervisor"], ("it ended the supervisor", name)


if __name__ == "__main__":
    os.environ["JUDGE_ATTACK_SECRET"] = MARK
    every = list(attacks().items())[:: int(sys.argv[1])]
    json.dump(asyncio.run(run_all(dict(every))), sys.stdout)
