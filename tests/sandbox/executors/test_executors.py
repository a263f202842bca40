"""The same jobs have the same results, by however many workers and in whichever process."""

from __future__ import annotations

import asyncio
import json
import pickle

from same_verdicts import JOBS, verdicts

from collab.recipe.sandbox import SandboxSpec
from collab.sandbox import Sandbox, judging
from collab.sandbox.executors import open_executor


def test_verdicts_are_equal_by_one_worker_and_by_three() -> None:
    one = verdicts(SandboxSpec(workers=1))
    assert verdicts(SandboxSpec(workers=3)) == one
    assert one[: len(JOBS)] == one[len(JOBS) :]


def test_at_most_so_many_programs_run_at_the_same_time() -> None:
    async def main() -> None:
        async with Sandbox(SandboxSpec(workers=2)) as sandbox:
            await asyncio.gather(*(sandbox.check(job) for job in JOBS))
            assert len(sandbox._executor._idle) == 2

    asyncio.run(main())


def test_a_job_and_its_result_are_plain_data() -> None:
    sandbox, executor = Sandbox(), open_executor(SandboxSpec(workers=1))
    job = sandbox._job(JOBS[0])
    result = asyncio.run(executor.run(job))
    executor.close()
    for plain in (job, result):
        assert pickle.loads(pickle.dumps(plain)) == plain == json.loads(json.dumps(plain))


def test_how_many_are_judged_is_told() -> None:
    assert judging(SandboxSpec(workers=1)) == "1 program at a time, on this machine"
    assert judging(SandboxSpec(workers=3)) == "3 programs at a time, on this machine"
    assert judging(SandboxSpec()).endswith(" at a time, on this machine")
