"""The same jobs have the same results, by however many workers and in whichever process."""

from __future__ import annotations

import asyncio
import json
import pickle

import pytest
from same_verdicts import JOBS, verdicts

from collab.errors import SandboxUnavailable
from collab.recipe.sandbox import SandboxSpec
from collab.sandbox import Sandbox, judging
from collab.sandbox.executors import node, on_ray, open_executor
from collab.sandbox.executors.node import judge, sandbox_code


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
    on_a_cluster = SandboxSpec(executor="ray", address="h:1")
    assert judging(on_a_cluster) == "a program for each processor at a time, on the ray cluster h:1"


def test_without_the_extra_a_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_ray, "find_spec", lambda _: None)
    with pytest.raises(SandboxUnavailable, match=r"pip install 'collab-agents\[ray\]'"):
        Sandbox(SandboxSpec(executor="ray"))


def test_an_address_without_a_cluster_is_refused() -> None:
    with pytest.raises(ValueError, match="set executor: ray"):
        SandboxSpec(address="10.0.0.5:6379")


def test_a_node_that_cannot_isolate_is_named() -> None:
    refused = {"layer": "namespaces", "reason": "none left", "remedy": "allow more"}
    with pytest.raises(SandboxUnavailable, match=r"on the node n7: the layer `namespaces`"):
        Sandbox()._verdict({"refused": refused, "node": "n7"})


def test_a_node_judges_as_this_machine_does_and_refuses_other_code() -> None:
    job = Sandbox()._job(JOBS[0])
    result = judge(job, "sealed", sandbox_code())
    try:
        assert result.pop("node")
        assert Sandbox()._verdict(result).passed
    finally:
        node._clients.pop("sealed").end()
    assert "another version" in judge(job, "sealed", "other code")["unavailable"]
