"""The syntax tree shows if an entry point uses its helper."""

import pytest

from collab.analysis import helper_use, returns_value
from collab.syntax import parse

NEVER_CALLED = {
    "nothing": "def main(x):\n return x",
    "comment": "def main(x):\n # aux(x)\n return x",
    "if 1 > 2": "def main(x):\n if 1 > 2:\n  return aux(x)\n return x",
    "if not True": "def main(x):\n if not True and x:\n  return aux(x)\n return x",
    "and": "def main(x):\n return x or (False and aux(x))",
    "or": "def main(x):\n return True or aux(x)",
    "if False": "def main(x):\n if False:\n  return aux(x)\n return x",
    "for in ()": "def main(x):\n for _ in ():\n  return aux(x)\n return x",
    "behind return": "def main(x):\n return x\n return aux(x)",
    "behind endless loop": "def main(x):\n while True:\n  x += 1\n return aux(x)",
    "behind try": ("def main(x):\n try:\n  return x\n except KeyError:\n  raise\n return aux(x)"),
    "conditional": "def main(x):\n return x if True else aux(x)",
    "other function": "def other(x):\n return aux(x)\ndef main(x):\n return x",
    "nested, not called": "def main(x):\n def inner():\n  return aux(x)\n return x",
    "parameter": "def main(x, aux=len):\n return aux(x)",
    "local def": "def main(x):\n def aux(y):\n  return y\n return aux(x)",
    "local assignment": "def main(x):\n aux = len\n return aux(x)",
    "local import": "def main(x):\n from math import floor as aux\n return aux(x)",
    "local loop": "def main(x):\n for aux in [len]:\n  return aux(x)",
    "walrus": "def main(x):\n return (aux := len)(x) + aux(x)",
    "lambda": "def main(x):\n return (lambda aux: aux(x))(len)",
    "except": "def main(x):\n try:\n  x()\n except E as aux:\n  return aux(x)",
    "match": "def main(x):\n match x:\n  case aux:\n   return aux(x)",
    "redefined": "def aux(x):\n return 1\ndef main(x):\n return aux(x)",
    "redefined in a branch": "if len:\n aux = len\ndef main(x):\n return aux(x)",
    "redefined by global": "def main(x):\n global aux\n aux = len\n return aux(x)",
    "no entry point": "def other(x):\n return aux(x)",
    "broken": "def main(x:\n return aux(x)",
}
IGNORED = {
    "bare": "def main(x):\n aux(x)\n return x",
    "underscore": "def main(x):\n _ = aux(x)\n return x",
    "collected": "def main(xs):\n out = []\n for x in xs:\n  out.append(aux(x))\n return xs",
    "nested": "def main(x):\n def inner():\n  return aux(x)\n inner()\n return x",
    "lambda": "def main(x):\n f = lambda: aux(x)\n return x",
    "bare name in a test": "def main(x):\n aux(x)\n if aux:\n  return x",
    "first of a pair": "def main(x):\n a, b = x, aux(x)\n return a",
    "key of what is dropped": "def main(x):\n d = {}\n d[aux(x)] = x\n return x",
}
USED = {
    "guard": "def main(x):\n if not x:\n  return 0\n return aux(x)",
    "fallback": "def main(x):\n try:\n  return aux(x)\n except ValueError:\n  return x",
    "comprehension": "def main(xs):\n return [aux(x) for x in xs]",
    "map": "def main(xs):\n return list(map(aux, xs))",
    "key": "def main(xs):\n return sorted(xs, key=aux)",
    "partial": "from functools import partial\ndef main(x):\n f = partial(aux, 1)\n return f(x)",
    "own function": "def mid(x):\n y = aux(x)\n return y * 2\ndef main(x):\n return mid(x)",
    "closure": (
        "def main(n):\n out = []\n def visit(i):\n  out.append(aux(i))\n visit(n)\n return out"
    ),
    "class": "class S:\n def run(self, x):\n  return aux(x)\ndef main(x):\n return S().run(x)",
    "dictionary": "def main(x):\n d = {}\n d['k'] = aux(x)\n return d",
    "module table": "TABLE = aux(9)\ndef main(x):\n return TABLE[x]",
    "default": "def main(x, table=aux(9)):\n return table[x]",
    "decorator": "@aux\ndef main(x):\n return x",
    "generator": "def main(x):\n yield aux(x)",
    "unpacked": "def main(x):\n a, b = aux(x)\n return a",
    "accumulated": "def main(xs):\n r = 0\n for x in xs:\n  r = aux(r, x)\n return r",
    "nonlocal": (
        "def main(xs):\n t = 0\n def add(x):\n  nonlocal t\n  t += aux(x)\n"
        " for x in xs:\n  add(x)\n return t"
    ),
    "default argument": "def main(xs, f=aux):\n return [f(x) for x in xs]",
    "table": "TABLE = {'k': aux}\ndef main(x):\n return TABLE['k'](x)",
    "lambda": "def main(x):\n f = lambda y: aux(y)\n return f(x)",
    "key of an item": "def main(ws):\n d = {}\n for w in ws:\n  d[aux(w)] = w\n return d",
    "key of a count": "def main(ws):\n d = {}\n for w in ws:\n  d[aux(w)] += 1\n return d",
    "key of a list": "def main(ws, d):\n for w in ws:\n  k = aux(w)\n  d[k].append(w)\n return d",
    "its method": "def main(x):\n y = aux(x)\n y.reverse()\n return y",
    "its item": "def main(x):\n y = aux(x)\n y[0] = 1\n return y",
    "its item deleted": "def main(x):\n y = aux(x)\n del y[0]\n return y",
    "its attribute": "def main(x):\n y = aux(x)\n y.name = x\n return y",
    "second of a pair": "def main(x):\n a, b = x, aux(x)\n return b",
}
WRAPPER = {
    "plain": "def main(x):\n return aux(x)",
    "variable": "def main(x):\n y = aux(x)\n return y",
    "if True": "def main(x):\n if True:\n  return aux(x)\n return 0",
    "alias": "def main(x):\n f = aux\n return f(x)",
    "chain": "def mid(x):\n return aux(x)\ndef main(x):\n return mid(x)",
    "inner chain": "def main(x):\n def mid(y):\n  return aux(y)\n return mid(x)",
    "yield from": "def main(x):\n yield from aux(x)",
    "walrus": "def main(x):\n return (y := aux(x))",
}


@pytest.mark.parametrize(
    ("sources", "called", "used", "wrapper"),
    [
        (NEVER_CALLED, False, False, False),
        (IGNORED, True, False, False),
        (USED, True, True, False),
        (WRAPPER, True, True, True),
    ],
)
def test_helper_use_is_classified(
    sources: dict[str, str], called: bool, used: bool, wrapper: bool
) -> None:
    for name, source in sources.items():
        use = helper_use(source, "main", "aux")
        assert (use.called, use.used) == (called, used), (name, use.reason)
        assert not used or use.wrapper == wrapper, (name, use.reason)
        assert use.reason, name


def test_lines_of_the_calls_are_reported() -> None:
    use = helper_use("def main(x):\n y = aux(x)\n return (y +\n   aux(y))", "main", "aux")
    assert use.lines == (2, 4)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def f():\n return 1", True),
        ("async def f():\n return 1", True),
        ("def f():\n yield 1", True),
        ("def f():\n if x:\n  return x", True),
        ("def f():\n return", False),
        ("def f():\n return None", False),
        ("def f():\n pass", False),
        ("def f():\n def g():\n  return 1", False),
        ("def f():\n raise E\n return 1", False),
        ("def f():\n return 1\ndef f():\n pass", False),
        ("def g():\n def f():\n  return 1", None),
        ("class C:\n def f(self):\n  return 1", None),
        ("f = 1", None),
    ],
)
def test_a_function_returns_a_value(source: str, expected: bool | None) -> None:
    assert returns_value(parse(source), "f") is expected
