"""When two final answers are the same: as GSM8K compares numbers, and MATH its LaTeX.

Nothing is evaluated: an answer is text that is brought into one form, and a number is digits alone,
so `nan`, `1e999` and `9**9**9` are no numbers.
"""

from __future__ import annotations

import re
from fractions import Fraction

LONGEST = 400
"""Characters of an answer; a longer one is wrong."""
LONGEST_NUMBER = 60
"""Characters of a number."""
_NUMBER = r"[-+]?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)"
_WHOLE_NUMBER = re.compile(rf"{_NUMBER}\Z", re.ASCII)
_NUMBERS = re.compile(rf"(?<![\w.]){_NUMBER}(?![\w^*/]|\.\d)", re.ASCII)
_DIGITS = re.compile(r"\d", re.ASCII)

_LATEX: tuple[tuple[str, str], ...] = (
    (r"\\[!,;:]|\\ |\\\(|\\\)|\\left(?![a-z])|\\right(?![a-z])|\\\$|\$|\\%|%", ""),
    (r"\\[td]frac", r"\\frac"),
    (r"\^\{?\\circ\}?", ""),
    (r"\\(?:text|mbox)\{ [^{}]*\}\Z", ""),  # a unit behind the number
    (r"\\(?:text|mbox|mathrm|textbf)\{([^{}]*)\}", r"\1"),
    (r"\s+", ""),
    (r"\A[A-Za-z]{1,2}=", ""),  # x = 5
    (r"(?<!\d)\.(?=\d)", "0."),
    (r"\\sqrt(\w)", r"\\sqrt{\1}"),
    (r"\\frac(\w)(\w)", r"\\frac{\1}{\2}"),
    (r"\\frac(\w)\{", r"\\frac{\1}{"),
    (r"(\\frac\{[^{}]*\})(\w)", r"\1{\2}"),
    (r"\A(-?)(\d+)/(\d+)\Z", r"\1\\frac{\2}{\3}"),
    (r"(?<=\d),(?=\d{3}(?!\d))", ""),
    (r"\.\Z", ""),
)
"""Patterns and what takes their place, in this order."""
_RULES = [(re.compile(pattern, re.ASCII), to) for pattern, to in _LATEX]


def same_number(answer: str, expected: str) -> bool:
    """Whether the answer holds one number, beside units and signs of money, and it is the other."""
    found = _NUMBERS.findall(answer) if len(answer) <= LONGEST else []
    rest = _NUMBERS.sub("", answer)
    if len(found) != 1 or _DIGITS.search(rest):
        return False
    value = number(found[0])
    return value is not None and value == number(expected.strip())


def same_latex(answer: str, expected: str) -> bool:
    """Whether two answers are the same text in one form, or the same number."""
    if len(answer) > LONGEST:
        return False
    one, other = latex(answer), latex(expected)
    if one == other:
        return bool(one)
    value = _value(one)
    return value is not None and value == _value(other)


def latex(text: str) -> str:
    """The form in which answers of MATH are compared, without spaces, units and variants."""
    for pattern, to in _RULES:
        text = pattern.sub(to, text)
    return text


def number(text: str) -> Fraction | None:
    """A decimal number, with or without commas between thousands; None for anything else."""
    if len(text) > LONGEST_NUMBER or not _WHOLE_NUMBER.match(text):
        return None
    return Fraction(text.replace(",", ""))


def _value(text: str) -> Fraction | None:
    """A number, or a fraction of two."""
    parts = re.fullmatch(r"(-?)\\frac\{([^{}]*)\}\{([^{}]*)\}", text)
    if not parts:
        return number(text)
    above, below = number(parts[2]), number(parts[3])
    if above is None or not below:
        return None
    return -above / below if parts[1] else above / below
