"""From answers to the joint answer, and from its lines back to their agents."""

from collab.agents.joins import join_python, join_text, preamble
from collab.records import Problem

PROMPT = '''\
from typing import List


def helper(x):
    return x


def task(xs: List[int]) -> int:
    """Adds."""
'''
PROBLEM = Problem(address="t/0", public={"prompt": PROMPT, "entry_point": "task"})


def test_preamble_is_the_prompts_imports_and_helpers() -> None:
    assert preamble(PROMPT, "task").split("\n") == [
        "from typing import List",
        "def helper(x):",
        "    return x",
    ]
    assert preamble("not ( python", "task") == ""


def test_preamble_keeps_decorators() -> None:
    given = (
        "from dataclasses import dataclass\n@dataclass(\n    frozen=True)\nclass Point:\n    x: int"
    )
    prompt = f'{given}\n\nasync def task():\n    """Moves a Point."""\n'
    assert preamble(prompt, "task") == given


def test_join_python_locates_every_agents_lines() -> None:
    artifacts = {"aux": "def aux():\n    return 1", "main": "def task(xs):\n    return aux()"}
    joint = join_python(artifacts, PROBLEM)
    lines = joint.text.split("\n")
    for agent, artifact in artifacts.items():
        for number, line in enumerate(artifact.split("\n"), start=1):
            [position] = [n for n, text in enumerate(lines, start=1) if text == line and line]
            assert joint.locate(position) == (agent, number)
    assert joint.locate(1) is None
    scope: dict[str, object] = {}
    exec(joint.text, scope)
    assert scope["task"]([1]) == 1  # type: ignore[operator]


def test_future_imports_go_to_the_top_and_lines_keep_their_numbers() -> None:
    main = "x = 1\nfrom __future__ import annotations\ndef task(xs: Unknown): ..."
    joint = join_python({"main": main}, PROBLEM)
    exec(joint.text, {})
    lines = joint.text.split("\n")
    assert lines[0] == "from __future__ import annotations"
    assert joint.locate(lines.index("def task(xs: Unknown): ...") + 1) == ("main", 3)


def test_future_import_of_several_lines_moves_as_a_whole() -> None:
    main = "from __future__ import (\n    annotations,\n)\ndef task(xs: Unknown): ..."
    joint = join_python({"aux": "def aux(): ...", "main": main}, PROBLEM)
    exec(joint.text, {})
    lines = joint.text.split("\n")
    assert joint.locate(lines.index("def task(xs: Unknown): ...") + 1) == ("main", 4)


def test_empty_artifacts_leave_no_trace() -> None:
    joint = join_python({"aux": "", "main": "x = 1"}, PROBLEM)
    assert set(joint.spans) == {"main"}
    assert join_text({"a": "", "b": ""}, PROBLEM).text == ""


def test_join_text_stacks_in_order() -> None:
    joint = join_text({"a": "one\ntwo", "b": "three"}, PROBLEM)
    assert joint.text == "one\ntwo\n\nthree"
    assert joint.locate(4) == ("b", 1)
