"""From answers to the joint answer, back from its lines, and from one program to two answers."""

import pytest
from support.classes.shelf import ADD, HEAD, MOVE, SKELETON, SORT, TOTAL

from collab.agents import join_for
from collab.agents.joins import Joint, join_python, join_text, preamble, rename_definitions
from collab.agents.splitting import split_program
from collab.errors import AgentError
from collab.recipe.team import Roles
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


PUBLIC = {"prompt": SKELETON, "entry_point": "class Shelf"}


def merged(*sources: str, **public: str) -> str:
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
    shelf = run(merged(first, second))(9)
    names = ["bb", "a"]
    assert (shelf.add("nuts", 2), shelf.total(), shelf.sort(names)) == (2, 2, 2)
    assert (names, shelf.room) == (["a", "bb"], 9)


def test_first_definition_wins_and_unwritten_methods_are_kept() -> None:
    text = merged(bare(TOTAL), "def total(self):\n    return -1\ndef move(self, other, name): ...")
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
    text = merged("import math\n" + bare(SORT), source)
    assert text.startswith("from __future__ import annotations\nfrom collections import Counter\n")
    assert text.count("import math") == 1
    assert run(text)(1).total() == 4


def test_the_prompts_constructor_stays() -> None:
    text = merged("class Shelf:\n    def __init__(self):\n        self.mine = 1\n" + TOTAL)
    assert run(text)(3).room == 3
    assert "mine" not in text


def test_the_lines_of_a_text_are_not_shifted() -> None:
    source = 'def total(self):\n    return """a\n  b\n"""'
    assert run(merged(source))(1).total() == "a\n  b\n"
    assert run(merged("class Shelf:\n  def total(self): return 3"))(1).total() == 3


def test_an_agent_that_breaks_its_part_breaks_the_program() -> None:
    text = merged(bare(TOTAL), "def add(self, name, boxes:\n    return 1")
    with pytest.raises(SyntaxError):
        run(text)
    assert run(merged(bare(TOTAL), ""))(1).total() == 0


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
        merged(bare(TOTAL), **public)


ROLES = Roles(("aux", "main"), "main", ("aux",))
NAMED = Problem(address="p", public={"entry_point": "f", "helper_name": "is_odd"})
AUX = "def is_odd(n):\n    return 'helper'"
CALLS = "def f(n):\n    return is_odd(n)"

IN_THE_MODULE = {
    "def": "def is_odd(n):\n    return 'own'",
    "several": "def is_odd(n):\n    return 'own'\ndef is_odd(n):\n    return 'own'",
    "async def": "async def is_odd(n):\n    return 'own'",
    "odd spaces": "def \\\n  is_odd (n): return 'own'",
    "class": "class is_odd:\n    def __init__(self, n): ...",
    "decorated": "def same(g):\n    return g\n@same\n@same\ndef is_odd(n):\n    return 'own'",
    "lambda": "is_odd = lambda n: 'own'",
    "alias": "def g(n):\n    return 'own'\nis_odd = g",
    "chain": "g = is_odd = h = lambda n: 'own'",
    "tuple": "(g, is_odd), *h = (len, lambda n: 'own'), 1",
    "annotated": "is_odd: object = lambda n: 'own'",
    "walrus": "(is_odd := lambda n: 'own')",
    "semicolon": "x = 'ä'; is_odd = lambda n: 'own'; y = 1",
    "one line": "if True: is_odd = lambda n: 'own'",
    "if": "if True:\n    def is_odd(n):\n        return 'own'\nelse:\n    is_odd = len",
    "try": "try:\n    from nowhere import is_odd\nexcept ImportError:\n    def is_odd(n): ...",
    "for": "for is_odd in [lambda n: 'own']:\n    pass",
    "import": "import math as is_odd",
    "from import": "from math import floor, isqrt as is_odd, ceil",
    "import of its name": "from pathlib import Path\nimport math, json as is_odd",
    "global": "def g():\n    global is_odd\n    is_odd = lambda n: 'own'\n\nX = [g()]",
    "carriage returns": "x = 1\r\ndef is_odd(n):\r\n    return 'own'",
}  # fmt: skip
WITHIN = {
    "nested": "def f(n):\n    def is_odd(k):\n        return 'own'\n    return is_odd(n)",
    "nested, wrapped": "def f(n):\n    def is_odd(k):\n        return 'own'\n"
    "    is_odd = id(is_odd)\n    def g():\n        return is_odd(n)\n    return g()",
    "nested class": "def f(n):\n    class is_odd:\n        ...\n    return is_odd(n)",
    "local import": "def f(n):\n    from math import floor as is_odd\n    return is_odd(n)",
}
OF_ANOTHER_KIND = {
    "method": "class A:\n    def is_odd(self):\n        return 1\n"
    "def f(n):\n    return A().is_odd()",
    "local variable": "def f(n):\n    is_odd = n % 2\n    return is_odd",
    "parameter": "def f(n, is_odd=1):\n    return is_odd",
    "loop": "X = [is_odd for is_odd in [1]]\ndef f(n):\n    return X[0]",
    "text": "def f(n):\n    return len('def is_odd') - 9",
    "other names": "def is_odd_one(n):\n    return n\ndef f(n):\n    return is_odd_one(n)",
}


def join_owned(main: str, aux: str = AUX, problem: Problem = NAMED) -> Joint:
    return join_for("python-owned", ROLES)({"aux": aux, "main": main}, problem)


def answer(joint: Joint) -> object:
    space: dict[str, object] = {}
    exec(joint.text, space)
    return space["f"](1)  # type: ignore[operator]


@pytest.mark.parametrize("name", IN_THE_MODULE)
def test_helper_definition_replaces_the_one_in_main(name: str) -> None:
    definition = IN_THE_MODULE[name]
    for main in (f"{definition}\n{CALLS}", f"{CALLS}\n{definition}"):
        assert answer(join_owned(main)) == "helper"
        with pytest.raises(NameError, match="is_odd"):
            answer(join_owned(main, aux="def other(n):\n    return 1"))
    lines_stay(definition.replace("\r", ""))


def test_helper_definition_replaces_one_inside_a_function() -> None:
    for name, main in WITHIN.items():
        assert answer(join_owned(main)) == "helper", name


def test_other_definitions_of_that_name_are_kept() -> None:
    for name, main in OF_ANOTHER_KIND.items():
        assert join_owned(main).text.endswith(f"{main}\n"), name
        assert answer(join_owned(main)) == 1, name


def lines_stay(definition: str) -> None:
    joint = join_owned(f"{definition}\n{CALLS}")
    lines = joint.text.split("\n")
    n_lines = definition.count("\n") + 1
    assert joint.locate(lines.index("def f(n):") + 1) == ("main", n_lines + 1)
    assert joint.locate(lines.index("def is_odd(n):") + 1) == ("aux", 1)
    first, last = joint.spans["main"]
    restored = [line.replace("is_odd_dropped", "is_odd") for line in lines[first - 1 : last]]
    assert len(restored) == n_lines + 2
    if "import" not in definition:
        assert restored == f"{definition}\n{CALLS}".split("\n")


def test_helper_may_define_the_function_in_any_way() -> None:
    for aux in ("is_odd = lambda n: 'helper'", f"{IN_THE_MODULE['several']}\n{AUX}"):
        assert join_owned(CALLS, aux).text.startswith(aux)
        assert answer(join_owned(CALLS, aux)) == "helper"


def test_function_defaults_to_the_agent_name_without_a_helper_in_the_row() -> None:
    problem = Problem(address="p", public={"entry_point": "f"})
    main = "def aux(n):\n    return 'own'\ndef is_odd(n):\n    return aux(n)\n" + CALLS
    assert answer(join_owned(main, "def aux(n):\n    return 'helper'", problem)) == "helper"


def test_a_team_without_helpers_keeps_everything() -> None:
    main = f"{IN_THE_MODULE['def']}\n{CALLS}"
    joint = join_for("python-owned", Roles(("main",), "main", ()))({"main": main}, NAMED)
    assert answer(joint) == "own"


def test_unparsable_source_is_not_renamed() -> None:
    assert rename_definitions("def is_odd(:\n", ["is_odd"]) == "def is_odd(:\n"


def test_renamed_definition_avoids_existing_names() -> None:
    source = "is_odd_dropped = 1\nis_odd = 2"
    assert rename_definitions(source, ["is_odd"]) == "is_odd_dropped = 1\nis_odd_dropped_ = 2"


ENTRY = "\n\n\ndef f(x):\n    return aux(x)\n"
PLUS_ONE = "def aux(x):\n    return x + 1\n"

PROGRAMS = {
    "before": PLUS_ONE + ENTRY,
    "after": ENTRY + PLUS_ONE,
    "default": "import math\nN = math.floor(1.5)\ndef aux(x, n=N):\n    return x + n\n" + ENTRY,
    "decorator": "def same(g):\n    return g\n@same\n" + PLUS_ONE + ENTRY,
    "annotation": "from typing import List as L\ndef aux(x: L) -> L:\n    return x + 1\n" + ENTRY,
    "twice": "def aux(x):\n    return 0\n" + PLUS_ONE + ENTRY,
    "future": "from __future__ import annotations\ndef aux(x: A):\n    return x + 1\n" + ENTRY,
    "one line": "def aux(x): return x + 1\ndef f(x): return aux(x)\n",
    "later import": "def aux(x):\n    return math.floor(x) + 1\nimport math\n" + ENTRY,
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
    source = (PLUS_ONE + ENTRY).replace("aux", "add")
    artifacts = split_program(source, "add")
    assert artifacts["aux"].startswith("def add(x)")
    assert "def add" not in artifacts["main"]


@pytest.mark.parametrize(
    "source", ["def f(x:\n", "aux = lambda x: x\n", "class A:\n    def aux(self): ...\n", "", "\0"]
)
def test_program_without_aux_definition_goes_to_main(source: str) -> None:
    assert split_program(source) == {"aux": "", "main": source}


def test_a_program_of_several_files_is_not_split() -> None:
    source = f"# file: aux.py\n{PLUS_ONE}# file: main.py\nfrom aux import aux{ENTRY}"
    assert split_program(source) == {"aux": "", "main": source}
