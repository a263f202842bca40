"""A join that takes a helper's function only from that helper."""

import pytest

from collab.agents import join_for
from collab.agents.joins import Joint, rename_definitions
from collab.recipe.team import Roles
from collab.records import Problem

ROLES = Roles(("aux", "main"), "main", ("aux",))
PROBLEM = Problem(address="p", public={"entry_point": "f", "helper_name": "is_odd"})
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


def joined(main: str, aux: str = AUX, problem: Problem = PROBLEM) -> Joint:
    return join_for("python-owned", ROLES)({"aux": aux, "main": main}, problem)


def answer(joint: Joint) -> object:
    space: dict[str, object] = {}
    exec(joint.text, space)
    return space["f"](1)  # type: ignore[operator]


@pytest.mark.parametrize("name", IN_THE_MODULE)
def test_helper_definition_replaces_the_one_in_main(name: str) -> None:
    definition = IN_THE_MODULE[name]
    for main in (f"{definition}\n{CALLS}", f"{CALLS}\n{definition}"):
        assert answer(joined(main)) == "helper"
        with pytest.raises(NameError, match="is_odd"):
            answer(joined(main, aux="def other(n):\n    return 1"))
    lines_stay(definition.replace("\r", ""))


def test_helper_definition_replaces_one_inside_a_function() -> None:
    for name, main in WITHIN.items():
        assert answer(joined(main)) == "helper", name


def test_other_definitions_of_that_name_are_kept() -> None:
    for name, main in OF_ANOTHER_KIND.items():
        assert joined(main).text.endswith(f"{main}\n"), name
        assert answer(joined(main)) == 1, name


def lines_stay(definition: str) -> None:
    joint = joined(f"{definition}\n{CALLS}")
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
        assert joined(CALLS, aux).text.startswith(aux)
        assert answer(joined(CALLS, aux)) == "helper"


def test_function_defaults_to_the_agent_name_without_a_helper_in_the_row() -> None:
    problem = Problem(address="p", public={"entry_point": "f"})
    main = "def aux(n):\n    return 'own'\ndef is_odd(n):\n    return aux(n)\n" + CALLS
    assert answer(joined(main, "def aux(n):\n    return 'helper'", problem)) == "helper"


def test_a_team_without_helpers_keeps_everything() -> None:
    main = f"{IN_THE_MODULE['def']}\n{CALLS}"
    joint = join_for("python-owned", Roles(("main",), "main", ()))({"main": main}, PROBLEM)
    assert answer(joint) == "own"


def test_unparsable_source_is_not_renamed() -> None:
    assert rename_definitions("def is_odd(:\n", ["is_odd"]) == "def is_odd(:\n"


def test_renamed_definition_avoids_existing_names() -> None:
    source = "is_odd_dropped = 1\nis_odd = 2"
    assert rename_definitions(source, ["is_odd"]) == "is_odd_dropped = 1\nis_odd_dropped_ = 2"
