"""Which answers a set of reasoning-gym is handed.

Some sets evaluate an answer as Python, by `eval` or by sympy, in the process that calls them. What
a model writes must not run there, so those sets are handed plain formulas and lists alone.
"""

from __future__ import annotations

import re

LONGEST = 20_000
"""Characters of any answer."""
LONGEST_FORMULA = 300
MOST_EXPONENTIALS = MOST_POWERS_OF_BRACKETS = 3

_ARITHMETIC = re.compile(r"[\d\s+\-*/().]*\Z", re.ASCII)
_ALGEBRA = re.compile(r"[\w\s+\-*/().]*\Z", re.ASCII)
_LIST = re.compile(r"[\w\s\[\]'\",.+-]*\Z", re.ASCII)
_WORDS = re.compile(r"[^\W\d]\w*", re.ASCII)
_FUNCTIONS = frozenset({"sin", "cos", "tan", "exp", "log", "sqrt", "asin", "acos", "atan", "pi"})
_EXPONENT = r"(?:-?\d{1,2}|[a-z]|\(\s*-?\d{1,2}\s*(?:/\s*\d{1,2}\s*)?\))"
_SMALL_POWER = re.compile(rf"(?<!\))\s*\*\*\s*{_EXPONENT}(?![\w(])(?!\s*\*\*)", re.ASCII)
_POWER_OF_BRACKETS = re.compile(r"\)\s*\*\*\s*(?:\d|\(\d/\d\))(?![\w(])(?!\s*\*\*)", re.ASCII)
_PYTHON = re.compile(r"\.\s*[A-Za-z_]|\d[A-Za-z_]|__", re.ASCII)


def refused(name: str, answer: str) -> str:
    """Why an answer is not handed to the set `name`; "" where it is."""
    if len(answer) > LONGEST:
        return f"the answer has more than {LONGEST:,} characters"
    plain = _EVALUATED.get(name)
    return "" if plain is None or plain(answer) else "the answer is no plain formula or list"


def _is_arithmetic(answer: str) -> bool:
    """Numbers and the four operations."""
    return len(answer) <= LONGEST_FORMULA and bool(_ARITHMETIC.match(answer)) and "**" not in answer


def _is_polynomial(answer: str) -> bool:
    """Numbers, variables of one letter, the four operations and small powers."""
    return _is_algebra(answer, frozenset())


def _is_integral(answer: str) -> bool:
    """A polynomial, with functions such as `sin`."""
    return _is_algebra(answer, _FUNCTIONS) and answer.count("exp") <= MOST_EXPONENTIALS


def _is_algebra(answer: str, functions: frozenset[str]) -> bool:
    if len(answer) > LONGEST_FORMULA or not _ALGEBRA.match(answer) or _PYTHON.search(answer):
        return False
    words = _WORDS.findall(answer)
    known = all(word in functions or re.fullmatch("[a-zCXYZ]", word) for word in words)
    brackets = len(_POWER_OF_BRACKETS.findall(answer))
    small = len(_SMALL_POWER.findall(answer)) + brackets == answer.count("**")
    return known and small and brackets <= MOST_POWERS_OF_BRACKETS


def _is_list(answer: str) -> bool:
    """Numbers, texts and names in lists, which nothing calls or goes through."""
    return bool(_LIST.match(answer)) and not {"for", "lambda", "await"} & {*_WORDS.findall(answer)}


_EVALUATED = {
    "countdown": _is_arithmetic,
    "puzzle24": _is_arithmetic,
    "polynomial_multiplication": _is_polynomial,
    "simple_integration": _is_integral,
    "intermediate_integration": _is_integral,
    "binary_matrix": _is_list,
    "spiral_matrix": _is_list,
    "string_insertion": _is_list,
    "n_queens": _is_list,
}
"""Sets that evaluate an answer, in version 0.1.25, each with what it is handed."""
