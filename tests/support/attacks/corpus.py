"""Programs that try to score without being right, or to do harm.

The task is `f(n) = n + 1`. Every program here computes something else, so none may pass. Most are a
function `attack` that the harness places in main, in aux, in a default argument, in a decorator or
at module level. Some are complete programs.
"""

import textwrap

from support.attacks.answers import CHANNELS, EXITS, PATCHES, PEEKS
from support.attacks.harm import ESCAPES, RESOURCES, TIMES
from support.attacks.programs import WHOLE

PLACES = {
    "module": "{attack}\nattack()\ndef aux(n):\n    return n\ndef f(n):\n    return aux(n)\n",
    "main": "{attack}\ndef aux(n):\n    return n\ndef f(n):\n    attack()\n    return aux(n)\n",
    "aux": "{attack}\ndef aux(n):\n    attack()\n    return n\ndef f(n):\n    return aux(n)\n",
    "default": "{attack}\ndef aux(n):\n    return n\ndef f(n, x=attack()):\n    return aux(n)\n",
    "decorator": (
        "{attack}\ndef mark(g):\n    attack()\n    return g\n"
        "def aux(n):\n    return n\n@mark\ndef f(n):\n    return aux(n)\n"
    ),
}

GROUPS = {
    "exit": (EXITS, ("main", "module", "aux", "default", "decorator")),
    "patch": (PATCHES, ("module", "main")),
    "peek": (PEEKS, ("module", "aux")),
    "channel": (CHANNELS, ("module", "main")),
    "time": (TIMES, ("main", "default")),
    "resource": (RESOURCES, ("module", "aux")),
    "escape": (ESCAPES, ("main", "decorator")),
}


def _place(body: str, place: str) -> str:
    lines = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ")
    return PLACES[place].format(attack=f"def attack():\n{lines}\n")


def attacks() -> dict[str, str]:
    """Every program by `class/name/place`; the places of a class alternate."""
    programs = {name: textwrap.dedent(program) for name, program in WHOLE.items()}
    for group, (bodies, places) in GROUPS.items():
        for i, (name, body) in enumerate(bodies.items()):
            place = places[i % len(places)]
            programs[f"{group}/{name}/{place}"] = _place(body, place)
    for place in PLACES:
        for name in ("os_exit", "sys_exit"):
            programs[f"exit/{name}/{place}"] = _place(EXITS[name], place)
    return programs
