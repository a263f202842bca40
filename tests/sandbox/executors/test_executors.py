"""The same jobs have the same results, by however many workers and in whichever process."""

from __future__ import annotations

import asyncio
import json
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from same_verdicts import JOBS, verdicts

from collab.errors import SandboxError, SandboxUnavailable
from collab.recipe.sandbox import SandboxSpec
from collab.sandbox import Sandbox, Trial, judging
from collab.sandbox.client import JailClient
from collab.sandbox.executors import local, node, on_ray, open_executor
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
    assert judging(on_a_cluster) == "one program per processor at a time, on the ray cluster h:1"


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


def test_trials_that_wait_when_the_sandbox_is_closed_fail_and_are_not_cancelled() -> None:
    endless = Trial(program="def f(n):\n    while True: pass\n", entry_point="f", test=JOBS[0].test)

    async def main() -> list[object]:
        sandbox = Sandbox(SandboxSpec(workers=1, seconds=60))
        trials = [asyncio.create_task(sandbox.check(endless)) for _ in range(3)]
        while not sandbox._executor._busy:
            await asyncio.sleep(0.01)
        await sandbox.aclose()
        return await asyncio.gather(*trials, return_exceptions=True)

    ended = asyncio.run(main())
    assert [type(error) for error in ended] == [SandboxError] * 3
    assert [str(error).startswith("the sandbox was closed") for error in ended] == [
        False,
        True,
        True,
    ]


def test_a_process_that_starts_while_the_sandbox_is_closed_is_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starting, closing = threading.Event(), threading.Event()
    started: list[JailClient] = []

    def start(isolation: str) -> JailClient:
        starting.set()
        closing.wait(60)
        started.append(JailClient(isolation))
        return started[-1]

    monkeypatch.setattr(local, "JailClient", start)

    async def main() -> None:
        sandbox = Sandbox(SandboxSpec(workers=1))
        trial = asyncio.create_task(sandbox.check(JOBS[0]))
        await asyncio.to_thread(starting.wait, 60)
        closed = asyncio.create_task(sandbox.aclose())
        while sandbox._executor._threads is not None:
            await asyncio.sleep(0.01)
        closing.set()
        await closed
        with pytest.raises(SandboxError, match="was closed"):
            await trial

    asyncio.run(main())
    assert [client.alive for client in started] == [False]


def test_nothing_is_expected_of_a_ray_driver_that_has_just_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(on_ray, "_MODULE", "collab.sandbox.executors.no_such_module")
    driver = on_ray._Driver(("auto", "sealed", "1"))
    driver._thread.join(60)
    # Between its last look at what is expected and its end the thread is alive.
    monkeypatch.setattr(driver._thread, "is_alive", lambda: True)
    _, waiting = driver.expect()
    monkeypatch.undo()
    driver.end()
    assert waiting.done()
    assert isinstance(waiting.exception(), SandboxError)


def test_no_ray_driver_starts_once_the_sandbox_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that would start it is one of a few, and comes to it late."""
    started: list[object] = []
    monkeypatch.setattr(on_ray, "find_spec", lambda _: json.__spec__)
    monkeypatch.setattr(on_ray, "_Driver", started.append)
    busy = threading.Event()

    async def main() -> None:
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        waiting = asyncio.create_task(asyncio.to_thread(busy.wait, 60))
        executor = on_ray.RayExecutor("sealed", 1, "auto")
        trial = asyncio.create_task(executor.run({}))
        await asyncio.sleep(0)
        executor.close()
        busy.set()
        with pytest.raises(SandboxError, match="was closed"):
            await trial
        await waiting

    asyncio.run(main())
    assert started == []
