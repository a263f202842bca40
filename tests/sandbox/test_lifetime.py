"""Starting, canceling, losing and closing: no process remains, and the next trial works."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.attacks.run import HONEST, descendants, trial

import collab
from collab.errors import SandboxError, SandboxUnavailable
from collab.recipe.sandbox import SandboxSpec
from collab.sandbox import Sandbox, Trial
from collab.sandbox.jail import supervisor

PATIENCE = 60.0
"""Time limit in seconds for a wait that could otherwise last forever; long for busy machines."""
SLOW = "def f(n):\n    while True: pass\n"


def have_ended(pids: set[int], seconds: float = 2.0) -> bool:
    """Return whether all processes end within `seconds`."""
    deadline = time.monotonic() + seconds
    while any(map(runs, pids)):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def runs(pid: int) -> bool:
    """Return whether the process is running, rather than a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_nothing_starts_before_the_first_trial() -> None:
    before = descendants(os.getpid())
    sandbox = Sandbox(SandboxSpec())
    assert descendants(os.getpid()) == before
    sandbox.close()


def test_closing_ends_every_process() -> None:
    async def main() -> set[int]:
        async with Sandbox(SandboxSpec(workers=2)) as sandbox:
            await asyncio.gather(*(sandbox.check(trial(HONEST)) for _ in range(4)))
            return descendants(os.getpid())

    before = descendants(os.getpid())
    started = asyncio.run(main()) - before
    assert started
    assert descendants(os.getpid()) - before == set()
    assert have_ended(started, 0)


def test_sandbox_works_in_several_event_loops_and_reopens() -> None:
    sandbox = Sandbox(SandboxSpec(workers=1))
    assert asyncio.run(sandbox.check(trial(HONEST))).passed
    assert asyncio.run(sandbox.check(trial(HONEST))).passed
    sandbox.close()
    assert asyncio.run(sandbox.check(trial(HONEST))).passed
    asyncio.run(sandbox.aclose())


def test_worker_start_does_not_count_as_program_time() -> None:
    async def main() -> None:
        async with Sandbox(SandboxSpec(workers=1, seconds=0.5)) as sandbox:
            before = descendants(os.getpid())
            await sandbox.check(trial(HONEST))
            supervisors = {supervisor.pid for supervisor in sandbox._idle}
            zygotes = descendants(os.getpid()) - before - supervisors
            assert zygotes
            for pid in zygotes:
                os.kill(pid, signal.SIGSTOP)
            waiting = asyncio.create_task(sandbox.check(trial(HONEST)))
            await asyncio.sleep(1.0)
            assert not waiting.done()
            for pid in zygotes:
                os.kill(pid, signal.SIGCONT)
            verdict = await waiting
            assert verdict.passed, verdict
            assert verdict.seconds < 0.5

    asyncio.run(main())


def test_cancelling_a_trial_leaves_no_process() -> None:
    async def main() -> None:
        async with Sandbox(SandboxSpec(seconds=30, workers=2)) as sandbox:
            await sandbox.check(trial(HONEST))
            before = descendants(os.getpid())
            tasks = [asyncio.create_task(sandbox.check(trial(SLOW))) for _ in range(4)]
            await asyncio.sleep(0.4)
            running = descendants(os.getpid()) - before
            started = time.monotonic()
            for task in tasks:
                task.cancel()
            results = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(r, asyncio.CancelledError) for r in results)
            assert time.monotonic() - started < 15  # of 30, on a busy machine
            assert running
            assert have_ended(running, 2)
            assert (await sandbox.check(trial(HONEST))).passed

    asyncio.run(main())


def test_a_timeout_around_a_trial_works() -> None:
    async def main() -> None:
        async with Sandbox(SandboxSpec(seconds=30, workers=1)) as sandbox:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await sandbox.check(trial(SLOW))
            assert (await sandbox.check(trial(HONEST))).passed

    asyncio.run(main())


def test_the_event_loop_is_never_blocked() -> None:
    async def main() -> float:
        async with Sandbox(SandboxSpec(seconds=0.5, workers=1)) as sandbox:
            trials = asyncio.gather(*(sandbox.check(trial(SLOW)) for _ in range(2)))
            longest, last = 0.0, time.monotonic()
            while not trials.done():
                await asyncio.sleep(0.005)
                longest, last = max(longest, time.monotonic() - last), time.monotonic()
            return longest

    assert asyncio.run(main()) < 0.25


@pytest.mark.parametrize("idle", [False, True])
def test_killed_supervisor_is_replaced(idle: bool) -> None:
    async def main() -> None:
        async with Sandbox(SandboxSpec(seconds=30, workers=1)) as sandbox:
            await sandbox.check(trial(HONEST))
            [supervisor] = sandbox._idle
            below = descendants(supervisor.pid)
            if idle:
                os.kill(supervisor.pid, signal.SIGKILL)
            else:
                task = asyncio.create_task(sandbox.check(trial(SLOW)))
                await asyncio.sleep(0.3)
                below |= descendants(supervisor.pid)
                os.kill(supervisor.pid, signal.SIGKILL)
                with pytest.raises(SandboxError, match="during a trial"):
                    await task
            assert have_ended(below)
            assert (await sandbox.check(trial(HONEST))).passed

    asyncio.run(main())


def test_killed_zygote_is_a_sandbox_error_and_is_replaced() -> None:
    async def main() -> None:
        async with Sandbox(SandboxSpec(seconds=30, workers=1)) as sandbox:
            await sandbox.check(trial(HONEST))
            [supervisor] = sandbox._idle
            for pid in descendants(supervisor.pid):
                os.kill(pid, signal.SIGKILL)
            with pytest.raises(SandboxError):
                await sandbox.check(trial(HONEST))
            assert (await sandbox.check(trial(HONEST))).passed

    asyncio.run(main())


CALLER = """
import asyncio, os, signal, sys
from support.attacks.run import descendants, trial
from collab.sandbox import Sandbox
from collab.recipe.sandbox import SandboxSpec

async def main():
    sandbox = Sandbox(SandboxSpec(seconds=60, workers=1))
    task = asyncio.create_task(sandbox.check(trial("def f(n):\\n    while True: pass\\n")))
    while len(started := descendants(os.getpid())) < 6:
        await asyncio.sleep(0.05)
    print(*started, flush=True)
    if os.fork() == 0:
        os.closerange(1, 3)
        os.read(0, 1)  # a fork that holds the sandbox's pipes open until the test is over
        os._exit(0)
    os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main())
"""


def test_all_processes_end_when_the_caller_is_killed() -> None:
    paths = [Path(module).parents[1] for module in (collab.__file__, __file__)]
    with subprocess.Popen(
        [sys.executable, "-c", CALLER],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as caller:
        assert caller.stdout is not None
        started = {int(pid) for pid in caller.stdout.read().split()}
        assert caller.wait() == -signal.SIGKILL
        assert len(started) >= 6
        assert have_ended(started, PATIENCE)


def test_secrets_of_the_caller_are_not_in_the_supervisor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_SECRET_KEY", "hidden")

    async def main() -> bytes:
        async with Sandbox(SandboxSpec(workers=1)) as sandbox:
            await sandbox.check(trial(HONEST))
            [supervisor] = sandbox._idle
            return Path(f"/proc/{supervisor.pid}/environ").read_bytes()

    assert b"JUDGE" not in asyncio.run(main())


def test_any_string_is_accepted_as_a_program() -> None:
    async def main() -> None:
        async with Sandbox(SandboxSpec(workers=1)) as sandbox:
            for program in ("\ud800", "\0", HONEST.replace("\n", "\r\n")):
                verdict = await sandbox.check(trial(program))
                assert verdict.passed == ("return" in program), program
                assert type(verdict).model_validate_json(verdict.model_dump_json()) == verdict

    asyncio.run(main())


def test_program_that_is_not_a_string_is_refused() -> None:
    with pytest.raises(ValueError, match="instance of str"):
        Trial(program=b"x", entry_point="f", test="")


REFUSED = """
import asyncio, resource, sys
from support.attacks.run import HONEST, trial
from collab.sandbox import Sandbox
from collab.recipe.sandbox import SandboxSpec
async def main():
    async with Sandbox(SandboxSpec(isolation=sys.argv[1])) as sandbox:
        print((await sandbox.check(trial(HONEST))).passed)
asyncio.run(main())
"""


def without_namespaces(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run code where no user namespace can be made, in one that is separate from the rest."""
    before = (
        "import sys; sys.path[:0] = sys.argv[1:3]\n"
        "from collab.sandbox.jail.layers import linux\n"
        "linux.enter_user_namespace(0, 1000)\n"
        "open('/proc/sys/user/max_user_namespaces', 'w').write('0')\n"
        "sys.argv[1:] = sys.argv[3:]\n"
    )
    paths = [str(Path(module).parents[1]) for module in (collab.__file__, __file__)]
    command = [sys.executable, "-c", before + code, *paths, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def test_system_without_isolation_is_refused_with_the_remedy() -> None:
    assert without_namespaces(REFUSED, "unsafe").stdout == "True\n"
    done = without_namespaces(REFUSED, "sealed")
    assert done.stdout == ""
    assert SandboxUnavailable.__name__ in done.stderr
    assert "namespaces" in done.stderr
    assert "max_user_namespaces" in done.stderr
    assert "--sandbox unsafe" in done.stderr


def test_run_without_isolation_ends_before_the_first_response() -> None:
    run = (
        "import collab\n"
        "team = collab.load('coding-single', model='echo', isolation=sys.argv[1])\n"
        "print(len(team.run('humaneval/0').episodes))\n"
    )
    assert without_namespaces(run, "unsafe").stdout == "1\n"
    done = without_namespaces(run, "sealed")
    assert (done.stdout, "programs cannot be isolated here" in done.stderr) == ("", True)


def test_supervisor_ignores_a_second_sigterm_while_it_shuts_down() -> None:
    before = signal.getsignal(signal.SIGTERM)
    try:
        with pytest.raises(SystemExit):
            supervisor._exit_on_signal()
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
