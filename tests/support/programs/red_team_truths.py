"""An outside red team's teams with helpers that return true or false and contribute nothing."""

TRUTH = "def same(a, b):\n    "
OWN_TRUTH = "(sorted(a) == sorted(b))"
TRUTHS = {
    "differs from itself": (
        "def aux(s):\n    return len(s)",
        f"{TRUTH}return {OWN_TRUTH} ^ (aux(a) != aux(a))",
    ),
    "differs from what it was": (
        "def aux(s):\n    return s",
        f"KEPT = {{}}\n{TRUTH}y = aux(a)\n    return {OWN_TRUTH} ^ (KEPT.setdefault(a, y) != y)",
    ),
    "more than once in a list": (
        "def aux(s):\n    return s + s",
        f"{TRUTH}vs = [aux(a), aux(b), aux(a)]\n    return {OWN_TRUTH} ^ (vs[0] != vs[2])",
    ),
    "yes to all": ("def aux(s):\n    return True", f"{TRUTH}return aux(a) and {OWN_TRUTH}"),
    "no to all": ("def aux(s):\n    return False", f"{TRUTH}return aux(a) or {OWN_TRUTH}"),
    "looks halfway": (
        "def aux(s):\n    return len(s)",
        f"import sys\n{TRUTH}y = aux(a)\n    sys._getframe(0).f_code\n"
        f"    return {OWN_TRUTH} ^ (aux(a) != y)",
    ),
    "written over": (
        "def aux(s):\n    return [s]",
        f"{TRUTH}x, y = aux(a), aux(b)\n    x[0], y[0] = sorted(a), sorted(b)\n    return x == y",
    ),
}
"""Right programs whose helper does nothing, for lists with equal items."""
