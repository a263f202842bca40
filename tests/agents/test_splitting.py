"""A program split into two answers behaves the same after joining."""

import pytest

from collab.agents import join_for
from collab.agents.splitting import split_program
from collab.records import Problem

MAIN = "\n\n\ndef f(x):\n    return aux(x)\n"
AUX = "def aux(x):\n    return x + 1\n"

PROGRAMS = {
    "before": AUX + MAIN,
    "after": MAIN + AUX,
    "default": "import math\nN = math.floor(1.5)\ndef aux(x, n=N):\n    return x + n\n" + MAIN,
    "decorator": "def same(g):\n    return g\n@same\n" + AUX + MAIN,
    "annotation": "from typing import List as L\ndef aux(x: L) -> L:\n    return x + 1\n" + MAIN,
    "twice": "def aux(x):\n    return 0\n" + AUX + MAIN,
    "future": "from __future__ import annotations\ndef aux(x: A):\n    return x + 1\n" + MAIN,
    "one line": "def aux(x): return x + 1\ndef f(x): return aux(x)\n",
    "later import": "def aux(x):\n    return math.floor(x) + 1\nimport math\n" + MAIN,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_parts_make_the_same_program(name: str) -> None:
    artifacts = split_program(PROGRAMS[name])
    assert "def aux" in artifacts["aux"]
    assert "def aux" not in artifacts["main"]
    assert "def f" in artifacts["main"]
    joint = join_for("python")(artifacts, Problem(address="p", public={}))
    space: dict[str, object] = {}
    exec(joint.text, space)
    assert space["f"](4) == 5  # type: ignore[operator]


def test_the_helpers_function_may_have_another_name() -> None:
    source = (AUX + MAIN).replace("aux", "add")
    artifacts = split_program(source, "add")
    assert artifacts["aux"].startswith("def add(x)")
    assert "def add" not in artifacts["main"]


@pytest.mark.parametrize(
    "source", ["def f(x:\n", "aux = lambda x: x\n", "class A:\n    def aux(self): ...\n", "", "\0"]
)
def test_program_without_aux_definition_goes_to_main(source: str) -> None:
    assert split_program(source) == {"aux": "", "main": source}


def test_a_program_of_several_files_is_not_split() -> None:
    source = f"# file: aux.py\n{AUX}# file: main.py\nfrom aux import aux{MAIN}"
    assert split_program(source) == {"aux": "", "main": source}
