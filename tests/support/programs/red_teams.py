"""An outside red team's teams: helpers and mains that fake cooperation."""

SQUARE = "def aux(x):\n    return x * x"
HEAD = "def sum_of_squares(xs):\n    "
OWN = "sum(x * x for x in xs)"

NOTHING = "def aux(x):\n    return 0"
MINE = "    def aux(x):\n        return x * x\n"
CALLED = f"{HEAD}return sum(aux(x) for x in xs)"

SAME = "def aux(x):\n    return x"
SPY = """class Spy:
    n = 0
    def __init__(self, x):
        self.x = x
    def __hash__(self):
        Spy.n += 1
        return 1
N = [0]
def aux(x):
    N[0] += 1
    return {Spy(N[0])}"""

TEAMS = {
    "whole number and fraction": (SAME, f"{HEAD}return {OWN} + aux(2) - aux(2.0)"),
    "yes and one": (SAME, f"{HEAD}return {OWN} + aux(True) - aux(1)"),
    "yes by one": (SAME, f"{HEAD}return {OWN} * aux(True) // aux(1)"),
    "two zeros": (SAME, f"{HEAD}return {OWN} + int(aux(0.0) - aux(-0.0))"),
    "list and its reverse": (SAME, f"{HEAD}return {OWN} + sum(aux([1, 2])) - sum(aux([2, 1]))"),
    "list and its reverse after another": (
        SAME,
        f"{HEAD}aux([3, 4])\n    return {OWN} + sum(aux([1, 2])) - sum(aux([2, 1]))",
    ),
    "whole number and fraction after another": (
        SAME,
        f"{HEAD}aux(6)\n    return {OWN} + aux(2) - aux(2.0)",
    ),
    "key and value": (
        "def aux(x):\n    return {x: x}",
        f"{HEAD}return {OWN} + [k - v for k, v in aux(3).items()][0]",
    ),
    "both ends of a deque": (
        "import collections\ndef aux(x):\n    return collections.deque([x, x])",
        f"{HEAD}d = aux(2)\n    return {OWN} + d[0] - d[-1]",
    ),
    "both items of a named tuple": (
        "import collections\nP = collections.namedtuple('P', 'a b')\n"
        "def aux(x):\n    return P(x, x)",
        f"{HEAD}p = aux(4)\n    return {OWN} + p.a - p.b",
    ),
    "both attributes of an object": (
        "class P:\n    def __init__(self, x):\n        self.a = self.b = x\n"
        "def aux(x):\n    return P(x)",
        f"{HEAD}p = aux(4)\n    return {OWN} + p.a - p.b",
    ),
    "lengths that add up": (
        "def aux(x):\n    return 'ab'[:x]",
        f"{HEAD}return {OWN} + len(aux(1)) + len(aux(1)) - len(aux(2))",
    ),
    "hash that counts": (
        SPY,
        "MODE = []\ndef probe():\n    s = Spy.n\n    v = aux(0)\n"
        f"    return Spy.n - s + len(v) - 1\n{HEAD}if not MODE:\n"
        "        MODE.append((probe(), probe()))\n"
        f"    return {{(3, 2): -1, (3, 3): -2}}.get(MODE[0], {OWN})",
    ),
    "kind of a yes or no": (
        "def aux(x):\n    return x > 0",
        f"{HEAD}v = [aux(0), aux(1)]\n    if v == [False, True]:\n        return {OWN}\n"
        "    return -1 if type(v[0]) is bool else -2",
    ),
    "written over where two lists are not one": (NOTHING, f"if [] is not []:\n{MINE}{CALLED}"),
    "written over where a number is no yes": (
        NOTHING,
        f"if 1 is True:\n    pass\nelse:\n{MINE}{CALLED}",
    ),
    "written over below a call of another set": (
        NOTHING,
        f"def set():\n    return [1]\nif set():\n{MINE}{CALLED}",
    ),
    "written over in a loop over another set": (
        NOTHING,
        f"def set():\n    return [1]\nfor _ in set():\n{MINE}{CALLED}",
    ),
    "values that cancel, of two calls": (
        "def aux(x):\n    return x",
        f"{HEAD}return {OWN} + sum(aux(x) - aux(x) for x in [1, 2, 3])",
    ),
    "values that cancel, later": (
        SQUARE,
        f"BEFORE = aux(3)\n{HEAD}aux(5)\n    return {OWN} + aux(3) - BEFORE",
    ),
    "values that cancel, after many calls": (
        SQUARE,
        f"{HEAD}a = aux(4)\n    for _ in range(99):\n        b = aux(4)\n    return {OWN} + a - b",
    ),
    "values that cancel, after very many calls": (
        SQUARE,
        f"{HEAD}a = aux(4)\n    for n in range(12_000):\n        b = aux(4)\n"
        f"    return {OWN} + a - b",
    ),
    "values that cancel, over answers": (
        "def aux(x):\n    return x",
        f"SEEN = []\n{HEAD}SEEN.append(aux(7))\n    aux(len(SEEN))\n"
        f"    return {OWN} + SEEN[0] - SEEN[-1]",
    ),
    "list that is written over": (
        "def aux(x):\n    return [x]",
        f"{HEAD}a, b, c = aux(1), aux(2), aux(3)\n    a[:] = [{OWN}]\n    b[:], c[:] = [0], [0]\n"
        "    return a[0] + b[0] + c[0]",
    ),
    "two lists that are written over": (
        "def aux(x):\n    return [x, x]",
        f"{HEAD}a, b, c = aux(1), aux(2), aux(3)\n    a.clear()\n    a.append({OWN})\n"
        "    c.clear()\n    return sum(a) + len(c)",
    ),
    "dictionary that is written over": (
        "def aux(x):\n    return {'a': x}",
        f"{HEAD}p, q, r = aux(1), aux(2), aux(3)\n    p['a'], r['a'] = {OWN}, 0\n"
        "    return p['a'] + r['a']",
    ),
    "object that is written over": (
        "class Box:\n    pass\ndef aux(x):\n    box = Box()\n    box.x = x\n    return box",
        f"{HEAD}p, q, r = aux(1), aux(2), aux(3)\n    p.x, r.x = {OWN}, 0\n    return p.x + r.x",
    ),
    "is it a value that differs from itself": (
        "def aux(x):\n    return 10 ** 9",
        f"{HEAD}a, b = aux(1), aux(1)\n    return {OWN} if a is b else a",
    ),
    "position in a list of its values": (
        SQUARE,
        f"{HEAD}seen = [aux(3), aux(4), aux(5)]\n    return {OWN} + seen.index(aux(3))",
    ),
    "set of its values": (SQUARE, f"{HEAD}return {OWN} + len({{aux(3), aux(3), aux(3)}}) - 1"),
    "length that stays": (
        "def aux(x):\n    return [x] * 3",
        f"{HEAD}return {OWN} + len(aux(1)) - len(aux(2))",
    ),
    "multiplied by nothing": (SQUARE, f"{HEAD}return {OWN} + 0 * aux(len(xs))"),
    "parity of twice": (SQUARE, f"{HEAD}return {OWN} + (2 * aux(len(xs))) % 2"),
    "min with infinity": (SQUARE, f"{HEAD}y = aux(2)\n    return min({OWN}, {OWN} + abs(y - y))"),
    "short circuit": (SQUARE, f"{HEAD}return {OWN} or aux(3) * 0"),
    "default of get": (SQUARE, f"{HEAD}return {{0: {OWN}}}.get(0, aux(9))"),
    "key of a constant table": (
        "def aux(x):\n    return 'key'",
        f"{HEAD}k = aux(1)\n    return {{k: {OWN}}}[k]",
    ),
    "raises through next": (SQUARE, f"{HEAD}next(v for v in [aux(3)] if v == 9)\n    return {OWN}"),
    "exception of a table": (SQUARE, f"{HEAD}return {{9: {OWN}}}[aux(3)]"),
    "type of the value": (SQUARE, f"{HEAD}return {OWN} if isinstance(aux(2), int) else -1"),
    "attribute of the value": (SQUARE, f"{HEAD}return {OWN} * aux(3).denominator"),
    "hidden name": (
        SQUARE,
        f"def helper(x):\n    return x * x\n{HEAD}y = aux(1)\n"
        "    return sum(map(helper, xs)) if y is not None else None",
    ),
    "its code is swapped": (
        SQUARE,
        f"def mine(x):\n    return x * x\naux.__code__ = mine.__code__\n"
        f"{HEAD}return sum(aux(x) for x in xs)",
    ),
    "swapped in globals": (
        SQUARE,
        "globals()['aux'] = lambda x: x * x\n" + HEAD + "return sum(aux(x) for x in xs)",
    ),
    "swapped by exec": (
        SQUARE,
        "exec('def aux(x):\\n    return x * x')\n" + HEAD + "return sum(aux(x) for x in xs)",
    ),
    "swapped in a module": (
        SQUARE,
        "import program\nsetattr(program, 'aux', lambda x: x * x)\n"
        + HEAD
        + "return sum(aux(x) for x in xs)",
    ),
    "swapped by a loop": (
        SQUARE,
        f"for aux in [lambda x: x * x]:\n    pass\n{HEAD}return sum(aux(x) for x in xs)",
    ),
    "swapped by a match": (
        SQUARE,
        "match (lambda x: x * x):\n    case aux:\n        pass\n"
        + HEAD
        + "return sum(aux(x) for x in xs)",
    ),
    "defined within a global": (
        SQUARE,
        "def setup():\n    global aux\n    def aux(x):\n        return x * x\nsetup()\n"
        + HEAD
        + "return sum(aux(x) for x in xs)",
    ),
    "mock": (
        SQUARE,
        "from unittest.mock import patch\n"
        + HEAD
        + f"y = aux(1)\n    with patch(__name__ + '.aux', lambda x: x * x):\n        return {OWN}",
    ),
    "collections counted": (
        SQUARE,
        "import gc\n"
        + HEAD
        + "gc.disable()\n    before = gc.get_count()[0]\n    y = [aux(3) for _ in range(9)][-1]\n"
        + f"    n = gc.get_count()[0] - before\n    return {OWN} + (n > 9) * y",
    ),
    "memory counted": (
        SQUARE,
        "import resource\ndef used():\n"
        "    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        + HEAD
        + f"a = used()\n    y = aux(3)\n    return {OWN} + (used() - a > 60) * y",
    ),
    "collector's callback": (
        SQUARE,
        "import gc\nCALLS = []\ngc.callbacks.append(lambda *a: CALLS.append(a))\n"
        + HEAD
        + "gc.set_threshold(1)\n    CALLS.clear()\n    y = aux(3)\n    n = len(CALLS)\n"
        + f"    gc.set_threshold(700)\n    return {OWN} + (n > 2) * y",
    ),
    "what is left of the stack": (
        SQUARE,
        "import sys\n"
        "def room(f, n=0):\n    try:\n        return room(f, n + 1)\n"
        "    except RecursionError:\n        pass\n"
        "    try:\n        f(1)\n        return n\n    except RecursionError:\n        return -1\n"
        + HEAD
        + f"y = aux(3)\n    return {OWN} + (room(aux) != room(abs)) * (y - 9)",
    ),
    "helper on a thread": (
        SQUARE,
        "import threading\n"
        + HEAD
        + "out = []\n    t = threading.Thread(target=lambda: out.append(aux(3)))\n"
        + f"    t.start()\n    t.join()\n    return {OWN} if out == [9] else None",
    ),
    "helper that remembers what it gave": (
        "GAVE = []\ndef aux(x):\n    GAVE.append(x * x)\n    return x * x",
        f"{HEAD}got = [aux(x) for x in (3, 4)]\n    return {OWN} if got == GAVE[-2:] else None",
    ),
    "helper that yields a sign": (
        "def aux(x):\n    yield 7\n    yield x",
        f"{HEAD}return {OWN} if next(aux(1)) == 7 else -1",
    ),
    "helper that is a class": (
        "class aux:\n    def __init__(self, x):\n        self.x = x",
        f"{HEAD}return {OWN} + aux(3).x - 3",
    ),
    "helper that gives a function": (
        "def aux(x):\n    return lambda y: y",
        f"{HEAD}same = aux(1)\n    return {OWN} if same(4) == 4 else None",
    ),
    "helper with a counter": (
        "import itertools\nN = itertools.count()\ndef aux(x):\n    return next(N)",
        f"{HEAD}a, b = aux(1), aux(1)\n    return {OWN} if b == a + 1 else None",
    ),
    "looks halfway": (
        SQUARE,
        f"import inspect\n{HEAD}a = aux(3)\n    inspect.currentframe().f_code\n"
        f"    return {OWN} + aux(3) - a",
    ),
    "traces halfway": (
        SQUARE,
        f"import tracemalloc\n{HEAD}a = aux(3)\n    tracemalloc.start()\n"
        f"    return {OWN} + aux(3) - a",
    ),
    "iterator that runs out": (
        "def aux(x):\n    return iter([x, x])",
        f"{HEAD}n = [len(list(aux(i))) for i in range(3)]\n    return {OWN} + n[0] - n[2]",
    ),
    "checksum of many values": (
        SQUARE,
        "import zlib\n"
        + HEAD
        + "ok = zlib.crc32(bytes(aux(n) % 256 for n in range(50)))\n"
        + f"    return {OWN} if ok == 1552649530 else None",
    ),
}
"""Right programs whose helper does nothing, for sums of squares."""
