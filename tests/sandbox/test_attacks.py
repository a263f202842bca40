"""Every attack of the corpus is scored as failed, in time, and leaves nothing behind."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pydantic
import pytest
from support.attacks.corpus import attacks
from support.attacks.mark import MARK
from support.attacks.run import LIMIT, check_harmless, run_all

import collab

Outcomes = dict[str, dict[str, Any]]
EVERY = attacks()
FLAGS = {
    "exit/os_exit/main": "worker_died",
    "equal/int_subclass": "non_builtin_value",
    "resource/fork_bomb/module": "denied_system_call",
    "channel/forged_answers/main": "protocol_violation",
    "answer/huge_string": "answer_limit",
    "resource/memory/aux": "memory_limit",
    "time/forever/main": "time_limit",
}
SOME = {name for number, name in enumerate(EVERY) if number % 8 == 0} | FLAGS.keys()
"""Attacks that run by default; the slow tests run the others."""
ORDINARY_UID = 12345
SYSTEM_PYTHON = Path("/usr/bin/python3")
CORPUS = Path("support", "attacks")


@pytest.fixture(scope="module")
def outcomes() -> Outcomes:
    return outcomes_of([name for name in EVERY if name in SOME])


def outcomes_of(names: list[str]) -> Outcomes:
    os.environ["JUDGE_ATTACK_SECRET"] = MARK
    try:
        return asyncio.run(run_all({name: EVERY[name] for name in names}))
    finally:
        del os.environ["JUDGE_ATTACK_SECRET"]


def outcomes_of_an_unprivileged_user(step: int) -> Outcomes:
    """Run every `step`th attack as an unprivileged user with a Python that this user can read."""
    setpriv = shutil.which("setpriv")
    if os.getuid() != 0 or setpriv is None:
        pytest.skip("needs root and setpriv to become another user")
    if not _same_version(SYSTEM_PYTHON):
        pytest.skip(f"needs {SYSTEM_PYTHON} of this Python's version")
    user = [setpriv, f"--reuid={ORDINARY_UID}", f"--regid={ORDINARY_UID}", "--clear-groups"]
    with tempfile.TemporaryDirectory() as name:
        folder = _copied(Path(name))
        paths = (folder, Path(pydantic.__file__).parents[1])
        done = subprocess.run(
            [*user, str(SYSTEM_PYTHON), str(folder / CORPUS / "run.py"), str(step)],
            env={
                "HOME": name,
                "PYTHONPATH": os.pathsep.join(map(str, paths)),
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            cwd="/",
            capture_output=True,
            timeout=600,
            check=False,
        )
    assert done.returncode == 0, done.stderr.decode()
    results: Outcomes = json.loads(done.stdout)
    return results


def _same_version(python: Path) -> bool:
    if not python.exists():
        return False
    code = "import sys; print(*sys.version_info[:2])"
    version = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    return version.stdout.split() == [str(part) for part in sys.version_info[:2]]


def _copied(folder: Path) -> Path:
    """Copy our package and the corpus to a place where every user can read them."""
    folder.chmod(0o755)
    unread = shutil.ignore_patterns("__pycache__")
    shutil.copytree(Path(collab.__file__).parent, folder / "collab", ignore=unread)
    shutil.copytree(Path(__file__).parents[1] / CORPUS, folder / CORPUS, ignore=unread)
    return folder


def test_some_attacks(outcomes: Outcomes) -> None:
    for name, outcome in outcomes.items():
        check_harmless(name, outcome)


@pytest.mark.slow
def test_every_other_attack() -> None:
    outcomes = outcomes_of([name for name in EVERY if name not in SOME])
    assert outcomes.keys() | SOME == EVERY.keys()
    for name, outcome in outcomes.items():
        check_harmless(name, outcome)
    _check_timeouts_are_not_crashes(outcomes)


@pytest.mark.parametrize("step", [24, pytest.param(1, marks=pytest.mark.slow)])
def test_attacks_by_an_unprivileged_user(step: int) -> None:
    outcomes = outcomes_of_an_unprivileged_user(step)
    assert outcomes.keys() == set(list(EVERY)[::step])
    for name, outcome in outcomes.items():
        check_harmless(name, outcome)


def test_attacks_are_flagged(outcomes: Outcomes) -> None:
    assert {name: flag for name, flag in FLAGS.items() if flag not in outcomes[name]["flags"]} == {}


def test_killed_programs_are_distinguished_from_crashed_ones(outcomes: Outcomes) -> None:
    _check_timeouts_are_not_crashes(outcomes)


def _check_timeouts_are_not_crashes(outcomes: Outcomes) -> None:
    for outcome in outcomes.values():
        if "time_limit" in outcome["flags"]:
            assert "worker_died" not in outcome["flags"]
            assert outcome["error"] == f"time limit of {LIMIT:g} s reached"
