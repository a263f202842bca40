"""Methods of several agents in one class."""

import pytest
from support.classes.shelf import ADD, HEAD, MOVE, SKELETON, SORT, TOTAL

from collab.agents import join_for
from collab.errors import AgentError
from collab.records import Problem

PUBLIC = {"prompt": SKELETON, "entry_point": "class Shelf"}


def joined(*sources: str, **public: str) -> str:
    artifacts = {f"agent{number}": source for number, source in enumerate(sources)}
    problem = Problem(address="own/0", public={**PUBLIC, **public}, hidden={})
    joint = join_for("class")(artifacts, problem)
    assert joint.spans == {}
    return joint.text


def run(text: str) -> type:
    space: dict[str, type] = {}
    exec(text, space)
    return space["Shelf"]


def bare(method: str) -> str:
    """Dedent a method to a function."""
    return "\n".join(line.removeprefix("    ") for line in method.split("\n"))


def tabs(text: str) -> str:
    return text.replace("    ", "\t")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (HEAD + ADD + MOVE, HEAD + TOTAL + SORT),
        ("class Shelf:\n" + ADD + MOVE, "class Shelf:\n" + TOTAL + SORT),
        (bare(ADD) + bare(MOVE), bare(TOTAL) + bare(SORT)),
        (bare(ADD) + bare(MOVE), bare(TOTAL) + bare(SORT).replace("@staticmethod\n", "")),
        (bare(ADD) + "class Shelf:\n" + MOVE, "class Shelf:\n" + TOTAL + "\n" + bare(SORT)),
        ("class Shelf:\n" + tabs(ADD + MOVE), bare(TOTAL) + tabs(bare(SORT))),
    ],
)
def test_methods_inside_and_outside_a_class_are_joined_in_one(first: str, second: str) -> None:
    shelf = run(joined(first, second))(9)
    names = ["bb", "a"]
    assert (shelf.add("nuts", 2), shelf.total(), shelf.sort(names)) == (2, 2, 2)
    assert (names, shelf.room) == (["a", "bb"], 9)


def test_first_definition_wins_and_unwritten_methods_are_kept() -> None:
    text = joined(bare(TOTAL), "def total(self):\n    return -1\ndef move(self, other, name): ...")
    shelf = run(text)(9)
    assert shelf.total() == 0
    assert shelf.move(None, "nuts") is None
    assert text.count("def ") == 5
    assert "Move all boxes" in text


def test_helpers_constants_and_imports_are_kept() -> None:
    source = (
        "from __future__ import annotations\nimport math\n\nSMALL = 1\n\n"
        "def half(n):\n    return math.floor(n / 2)\n\n"
        "class Shelf:\n    LARGE = 7\n    def total(self):\n        return self._own() + SMALL\n"
        "    def _own(self):\n        return half(self.LARGE)\n"
    )
    text = joined("import math\n" + bare(SORT), source)
    assert text.startswith("from __future__ import annotations\nfrom collections import Counter\n")
    assert text.count("import math") == 1
    assert run(text)(1).total() == 4


def test_the_prompts_constructor_stays() -> None:
    text = joined("class Shelf:\n    def __init__(self):\n        self.mine = 1\n" + TOTAL)
    assert run(text)(3).room == 3
    assert "mine" not in text


def test_the_lines_of_a_text_are_not_shifted() -> None:
    source = 'def total(self):\n    return """a\n  b\n"""'
    assert run(joined(source))(1).total() == "a\n  b\n"
    assert run(joined("class Shelf:\n  def total(self): return 3"))(1).total() == 3


def test_an_agent_that_breaks_its_part_breaks_the_program() -> None:
    text = joined(bare(TOTAL), "def add(self, name, boxes:\n    return 1")
    with pytest.raises(SyntaxError):
        run(text)
    assert run(joined(bare(TOTAL), ""))(1).total() == 0


@pytest.mark.parametrize(
    ("public", "message"),
    [
        ({"entry_point": "f"}, "asks for f; set team.join to python"),
        ({"prompt": "class Other:\n    pass"}, "the prompt defines no class 'Shelf'"),
        ({"prompt": "class Shelf("}, "does not parse"),
    ],
)
def test_problem_without_a_class_is_refused(public: dict[str, str], message: str) -> None:
    with pytest.raises(AgentError, match=message):
        joined(bare(TOTAL), **public)
