"""A reward part that compares a final answer with the known one."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Literal

from collab.agents.parsers import braces_content
from collab.rewards.context import RewardContext, artifact_of

MAX_ANSWER_CHARACTERS = 400
"""Longest answer, in characters. A longer answer is wrong."""
MAX_NUMBER_CHARACTERS = 60
"""Longest number, in characters."""
_NUMBER_PATTERN = r"[-+]?(?:\d+(?:,\d{3})*(?:\.\d+)?|\.\d+)"
_ONLY_NUMBER = re.compile(rf"{_NUMBER_PATTERN}\Z", re.ASCII)
_NUMBERS = re.compile(rf"(?<![\w.]){_NUMBER_PATTERN}(?![\w^*/]|\.\d)", re.ASCII)
_DIGITS = re.compile(r"\d", re.ASCII)

_LATEX_RULES: tuple[tuple[str, str], ...] = (
    (r"\\[!,;:]|\\ |\\\(|\\\)|\\left(?![a-z])|\\right(?![a-z])|\\\$|\$|\\%|%", ""),
    (r"\\[td]frac", r"\\frac"),
    (r"\^\{?\\circ\}?", ""),
    (r"\\(?:text|mbox)\{ [^{}]*\}\Z", ""),  # a unit after the number
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
"""Patterns with their replacements, applied in this order."""


def same_number(answer: str, expected: str) -> bool:
    """Return True if the answer contains one number, with or without units, which equals
    `expected`."""
    numbers = _NUMBERS.findall(answer) if len(answer) <= MAX_ANSWER_CHARACTERS else []
    rest = _NUMBERS.sub("", answer)
    if len(numbers) != 1 or _DIGITS.search(rest):
        return False
    value = parse_number(numbers[0])
    return value is not None and value == parse_number(expected.strip())


def same_latex(answer: str, expected: str) -> bool:
    """Return True if two answers have the same normal form, or are the same number."""
    if len(answer) > MAX_ANSWER_CHARACTERS:
        return False
    one, other = normalize_latex(answer), normalize_latex(expected)
    if one == other:
        return bool(one)
    value = _parse_fraction(one)
    return value is not None and value == _parse_fraction(other)


def normalize_latex(text: str) -> str:
    """Return the form in which answers of MATH are compared, without spaces, units and variants."""
    for pattern, to in _LATEX_RULES:
        text = re.sub(pattern, to, text, flags=re.ASCII)
    return text


def parse_number(text: str) -> Fraction | None:
    """Return the decimal number in a string, with or without commas between thousands, or None for
    anything else."""
    if len(text) > MAX_NUMBER_CHARACTERS or not _ONLY_NUMBER.match(text):
        return None
    return Fraction(text.replace(",", ""))


def _parse_fraction(text: str) -> Fraction | None:
    """Parse a number, or a fraction of two numbers."""
    parts = re.fullmatch(r"(-?)\\frac\{([^{}]*)\}\{([^{}]*)\}", text)
    if not parts:
        return parse_number(text)
    above, below = parse_number(parts[2]), parse_number(parts[3])
    if above is None or not below:
        return None
    return -above / below if parts[1] else above / below


_BOX = re.compile(r"\\f?boxed\b|\\fbox\b")
_STATED_ANSWER = re.compile(r"\banswer(?: is(?:\s*:)?|:)\s*([^\s:][^\n]*)", re.IGNORECASE)
_SENTENCE_END = re.compile(r"\.(?:\s|$)")


def final_answer(text: str) -> str | None:
    r"""Return the content of the last `\boxed{...}`, or the text after the last `####`, otherwise
    after "answer is" or "answer:". Return None if the text has none of these."""
    boxes = list(_BOX.finditer(text))
    if boxes:
        return _box_content(text[boxes[-1].end() :])
    _, mark, behind = text.rpartition("####")
    if mark:
        return behind.strip().partition("\n")[0].strip()
    matches = list(_STATED_ANSWER.finditer(text))
    return _SENTENCE_END.split(matches[-1].group(1))[0].strip(" *$") if matches else None


def _box_content(text: str) -> str | None:
    """Return the content of the leading braces, or the first word if there are no braces."""
    text = text.lstrip()
    if text.startswith("{"):
        return braces_content(text)
    return (text.split() or [""])[0].rstrip("$.") or None


def exact_answer(
    context: RewardContext,
    *,
    field: str = "answer",
    agent: str = "",
    form: Literal["number", "latex"] = "number",
) -> tuple[float, str]:
    r"""The final answer, in `\boxed{}`, or after `####` or "answer is", equals the field `field`.

    Args:
        agent: the agent whose artifact is scored, or "" for the joint artifact.
        form: how answers are compared: as numbers, or as MATH compares LaTeX.
    """
    expected = context.field(field)
    answer = final_answer(artifact_of(context, agent))
    if answer is None:
        return 0.0, r"no final answer in \boxed{} or after #### or 'answer is'"
    same = same_number if form == "number" else same_latex
    right = same(answer, expected)
    return float(right), f"the answer {answer!r:.60} is {'right' if right else 'wrong'}"
