"""Judging on a ray cluster: the same verdicts, lost nodes, refusals, and nothing left behind."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attack_run import HONEST, descendants, trial
from same_verdicts import verdicts

from collab.errors import SandboxError, SandboxUnavailable
from collab.recipe.sandbox import SandboxSpec
from collab.sandbox import Sandbox
from collab.sandbox.executors.base import Job, Result
from collab.sandbox.executors.on_ray import RayExecutor

pytestmark = pytest.mark.ray
PATIENCE = 30.0
SLOW = "def f(n):\n    while True: pass\n"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head that judges nothing, and two nodes of one processor each."""
    from ray.cluster_utils import Cluster

    sooner = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 500}
    head = {"num_cpus": 0, "_system_config": {**sooner, "health_check_failure_threshold": 6}}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    cluster.add_node(num_cpus=1)
    cluster.add_node(num_cpus=1)
    yield cluster
    cluster.shutdown()


def ours() -> set[int]:
    """The drivers, and the supervisors with their zygotes: all that is not the cluster's."""
    return {pid for pid in descendants(os.getpid()) if is_ours(pid)}


def is_ours(pid: int) -> bool:
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"ray_driver" in line or b"jail.supervisor" in line


def all_gone(pids: set[int]) -> bool:
    """Whether they end within a moment, as the cluster ends the processes of a driver that left."""
    deadline = time.monotonic() + PATIENCE
    while any(map(is_ours, pids)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not any(map(is_ours, pids))


def on(cluster: Any, **settings: Any) -> SandboxSpec:
    return SandboxSpec(executor="ray", address=cluster.address, **settings)


def test_verdicts_are_equal_on_a_cluster_and_here(
    cluster: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    found = verdicts(on(cluster))
    assert found == verdicts(SandboxSpec(workers=1))
    assert capfd.readouterr() == ("", "")


def test_a_node_that_is_lost_is_made_up_for_by_others(cluster: Any) -> None:
    node = cluster.add_node(num_cpus=1)

    async def main() -> None:
        async with Sandbox(on(cluster, workers=3, seconds=2.5)) as sandbox:
            await asyncio.gather(*(sandbox.check(trial(HONEST)) for _ in range(6)))
            waiting = [asyncio.create_task(sandbox.check(trial(SLOW))) for _ in range(3)]
            await asyncio.sleep(1)
            await asyncio.to_thread(cluster.remove_node, node, False)
            for verdict in await asyncio.gather(*waiting):
                assert "time_limit" in verdict.flags

    asyncio.run(main())


def test_what_is_cancelled_killed_or_closed_ends_and_is_no_verdict(cluster: Any) -> None:
    started: set[int] = set()

    async def main() -> None:
        sandbox = Sandbox(on(cluster, workers=1, seconds=60))
        await sandbox.check(trial(HONEST))
        started.update(ours())
        waiting = asyncio.create_task(sandbox.check(trial(SLOW)))
        await asyncio.sleep(0.5)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        waiting = asyncio.create_task(sandbox.check(trial(SLOW)))
        await asyncio.sleep(0.5)
        assert isinstance(sandbox._executor, RayExecutor)
        assert sandbox._executor._driver is not None
        sandbox._executor._driver._process.kill()
        with pytest.raises(SandboxError, match="ended during a trial"):
            await waiting
        assert (await sandbox.check(trial(HONEST))).passed
        started.update(ours())
        waiting = asyncio.create_task(sandbox.check(trial(SLOW)))
        await asyncio.sleep(0.5)
        await sandbox.aclose()
        with pytest.raises(SandboxError):
            await waiting

    asyncio.run(main())
    assert len(started) >= 2 * 4, "a driver, a supervisor and its zygotes, twice"
    assert all_gone(started)


def test_a_trial_that_is_lost_too_often_is_our_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    from ray.exceptions import NodeDiedError

    from collab.sandbox.executors.ray_driver import TRIES, Driver

    begun = []

    async def lost(self: Driver, job: Job) -> Result:
        begun.append(job)
        if len(begun) == 1:
            return {"lost": "its supervisor ended", "node": "n1"}
        raise NodeDiedError("the node is gone")

    monkeypatch.setattr(Driver, "_on_a_node", lost)
    result = asyncio.run(Driver(-1, "sealed", 1)._run({}))
    assert len(begun) == TRIES
    assert result == {
        "trouble": "the trial was lost 3 times, last error: NodeDiedError: the node is gone"
    }


def test_a_cluster_that_is_not_there_is_told_with_its_address() -> None:
    sandbox = Sandbox(SandboxSpec(executor="ray", address="127.0.0.1:9"))
    with pytest.raises(SandboxUnavailable, match=r"'127.0.0.1:9' .* cannot be reached"):
        asyncio.run(sandbox.check(trial(HONEST)))
    sandbox.close()
