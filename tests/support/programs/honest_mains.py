"""Helpers of every shape, with mains that use them."""

from support.programs.hostile_mains import HONEST, NEW

HONEST_PAIRS = {
    "loop that ends by its helper": (
        "def aux(x):\n    return x - 1 if x > 0 else x + 1",
        f"{NEW}t = 0\n    for x in xs:\n        n = x\n        while n != 0:\n"
        "            n = aux(n)\n            t += abs(x)\n    return t",
    ),
    "items of a table": (
        "def aux(n):\n    return [x * x for x in range(n)]",
        f"TABLE = aux(99)\n{NEW}return sum(TABLE[abs(x)] for x in xs)",
    ),
    "index": (
        "def aux(xs):\n    return list(range(len(xs)))",
        f"{NEW}return sum(xs[i] ** 2 for i in aux(xs))",
    ),
    "text that is evaluated": (
        "def aux(xs):\n    return '+'.join(f'({x})**2' for x in xs) or '0'",
        f"{NEW}return eval(aux(xs))",
    ),
    "object": (
        "class Pair:\n    def __init__(self, a):\n        self.a = self.b = a\n"
        "def aux(x):\n    return Pair(x)",
        f"{NEW}return sum(aux(x).a * aux(x).b for x in xs)",
    ),
    "named tuple": (
        "from collections import namedtuple\nP = namedtuple('P', 'a b')\n"
        "def aux(x):\n    return P(x, x)",
        f"{NEW}return sum(p.a * p.b for p in map(aux, xs))",
    ),
    "cached": (
        "from functools import lru_cache\n@lru_cache(None)\ndef aux(x):\n    return x * x",
        HONEST,
    ),
    "recursive": (
        "def aux(n):\n    return 0 if n == 0 else 2 * abs(n) - 1 + aux(abs(n) - 1)",
        HONEST,
    ),
    "count": (
        "def aux(xs):\n    return [1 for x in xs for _ in range(x * x)]",
        f"{NEW}return len(aux(xs))",
    ),
}

HONEST_BOOLEAN = {
    "equal": ("def aux(s):\n    return sorted(s)", "return aux(a) == aux(b)"),
    "predicate": ("def aux(a, b):\n    return sorted(a) == sorted(b)", "return bool(aux(a, b))"),
    "counts": (
        "def aux(s):\n    return {c: s.count(c) for c in s}",
        "x, y = aux(a), aux(b)\n    return all(x.get(c) == y.get(c) for c in a + b)",
    ),
}
