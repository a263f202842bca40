"""State that a forked trial process inherits."""

import asyncio
import subprocess

from collab.recipe.sandbox import SandboxSpec
from collab.sandbox import Sandbox, Trial
from collab.sandbox.client import interpreter


def test_only_random_registers_a_fork_handler() -> None:
    main = (
        "import os; callers = []; "
        "by = lambda: sys._getframe(2).f_globals['__name__']; "
        "os.register_at_fork = lambda **_: callers.append(by()); "
        "from jail.preload import preload; preload(); print(callers)"
    )
    done = subprocess.run(interpreter(main), capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['random']"


def test_program_and_test_have_separate_randomness_in_every_trial() -> None:
    program = "import random\n\ndef f():\n    return random.random()\n"
    test = (
        "import random\n\ndef check(candidate):\n    theirs = candidate()\n"
        "    assert theirs != random.random()\n    return str(theirs)\n"
    )
    trial = Trial(program=program, entry_point="f", test=test)
    with_one = Sandbox(SandboxSpec(workers=1))
    try:
        verdicts = [asyncio.run(with_one.check(trial)) for _ in range(2)]
    finally:
        with_one.close()
    assert all(verdict.passed for verdict in verdicts)
    assert verdicts[0].returned != verdicts[1].returned
