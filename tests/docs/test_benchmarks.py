"""The benchmarks run, in their smallest form."""

import subprocess
import sys
from pathlib import Path

import pytest

CLONE = Path(__file__).parents[2]
COMMANDS = [
    "batching.py --model echo",
    "credit.py --groups 20 --warmup 0 --algorithms marloo --games code",
    "runtime.py 20",
    "sandbox.py --rounds 1",
    "scale.py --servers 2 --episodes 16 --steps 1 --seconds 0.2",
    "startup.py 1",
    "training.py --steps 4 --case default 2 1 1",
]
MISSED_A_GOAL = 1


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_runs(command: str) -> None:
    script, *options = command.split()
    done = subprocess.run(
        [sys.executable, str(CLONE / "benchmarks" / script), *options],
        check=False,
        cwd=CLONE,
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, MISSED_A_GOAL), done.stderr
    assert "Traceback" not in done.stderr, done.stderr
    assert done.stdout
