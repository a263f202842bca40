"""State that a forked trial process inherits."""

import asyncio

from collab.recipe.sandbox import SandboxSpec
from collab.sandbox import Sandbox, Trial


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
