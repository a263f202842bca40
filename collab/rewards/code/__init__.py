"""Rewards for programs: their form, their behavior, and the agents' cooperation."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from collab.recipe.reward import AlarmSpec
from collab.records import Score
from collab.rewards.measures import Measure, share_of

_SENTENCE_END = re.compile(r"(?<=\.)\s|>>>|\"{3}|'{3}")


def title_of(public: Mapping[str, Any]) -> str | None:
    """Return the signature of the function or class to write, and the first sentence of its
    docstring, or None."""
    name = public.get("entry_point")
    lines = iter(str(public.get("prompt", "")).splitlines())
    for line in lines:
        if line.startswith((f"def {name}", f"class {name}")):
            text = " ".join(map(str.strip, lines)).strip("\"' ")
            return f"{line} {_SENTENCE_END.split(text)[0]}".strip()
    return None


def language_of(score: Score) -> str | None:
    """Return the language of the joint artifact for highlighting, or None for plain text."""
    return "python" if score.isolation is not None else None


TESTS = Measure(
    lambda score: score.tests.fraction if score.tests else None,
    best_of="accuracy",
    metric="tests",
    title="Hidden tests passed",
    column="tests",
    cell=lambda score: f"{score.tests.passed}/{score.tests.total}" if score.tests else "",
    describe=lambda score: (
        f"{score.tests.passed} of {score.tests.total} tests" if score.tests else ""
    ),
    alarm=AlarmSpec(
        behind_return=True,
        says="the return rose by {gain:.2f} while the share of hidden tests passed did not"
        " ({first:.0%} to {now:.0%}); the team may earn reward without solving the task",
    ),
)

MEASURES = (
    TESTS,
    Measure(share_of("cooperation"), best_of="coop", level="cooperation"),
)

PARTS = {
    "code.structure": ("defines", "parses", "methods", "overlap"),
    "code.hidden_tests": ("tests", "solved", "part_tests", "written_tests", "gain"),
    "code.cooperation": ("calls", "not_wrapper", "ignores"),
}
"""Parts by module, as in `library.py`."""

ALARMS = {
    "parses": AlarmSpec(
        below_best=0.5,
        says="most joint programs no longer parse; one agent's syntax error breaks the whole"
        " program",
    ),
    "part_tests": AlarmSpec(
        below_best=0.5,
        says="on average {now:.0%} of the agent's own tests pass, less than half of the"
        " best step: its teammates may do its work; join with `python-owned`, or give this"
        " part more weight",
    ),
    "calls": AlarmSpec(
        below=0.2,
        while_solved=0.5,
        says="the team solves tasks without calling the helper; these tasks might not be worth"
        " splitting",
    ),
}
"""Default alarms by part, unless the recipe sets others."""
