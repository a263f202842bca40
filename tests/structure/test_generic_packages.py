"""Generic packages use no words of programming, because they serve any task."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import collab

PACKAGE = Path(collab.__file__).parent

GENERIC = ("rewards", "trainers", "evaluation", "report", "runs", "runtime", "cli")
"""Packages that serve any task."""

ABOUT_CODE = ("rewards/code/", "evaluation/selection.py", "trainers/credit/games/code_like.py")

SANDBOX = {"programs"}
"""The sandbox isolates programs, whatever the task is."""

SCORE = {"aux", "code", "parses", "program", "programs", "syntax", "tests"}
"""`collab score` scores programs that are already written."""

ALLOWED = {
    "cli/options.py": SANDBOX,
    "cli/commands/doctor.py": SANDBOX,
    "cli/commands/score.py": SCORE,
    "cli/commands/eval.py": {"program", "tests"},  # the choices and criteria of `--select`
    "cli/commands/init.py": {"code", "tests"},  # kinds of projects
    "cli/app.py": SCORE,
    "cli/commands/serve.py": {"code"},  # feedback may run code with `--run-code`
    "cli/live/view.py": SANDBOX,
    "cli/screen/page.py": {"syntax"},  # rich.syntax
    "cli/screen/episode.py": {"code"},  # the argument of the tool `python`
    "runtime/fields.py": {"syntax", "test"},  # jinja2's nodes and errors
    "runtime/rehearsal.py": {"code"},  # the code of a finding
    "trainers/training/plan/sizes.py": {"code"},  # transformers' `trust_remote_code`
    "trainers/credit/games/__init__.py": {"code", "tests"},  # lists the games
}
"""Allowed words by file."""

CODING = {
    "accuracy", "aux", "code", "coop", "cooperation", "parses", "program", "programs", "syntax",
    "test", "tests",
}  # fmt: skip

_WORD = re.compile(r"[A-Za-z][a-z]*")


def coding_words(source: str) -> Iterator[tuple[int, str]]:
    """Yield line and word from identifiers, keywords of calls and texts, except docstrings."""
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if id(node) not in docstrings:
            for name in _names(node):
                found = CODING & {word.lower() for word in _WORD.findall(name)}
                found |= set(re.findall(r"entry_point(?!s)", name))
                yield from ((getattr(node, "lineno", 1), word) for word in sorted(found))


def _names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name():
            yield node.id
        case ast.Attribute():
            yield node.attr
        case ast.Constant(value=str(text)):
            yield text
        case ast.arg() | ast.keyword():
            yield node.arg or ""
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield node.name
        case ast.alias():
            yield node.asname or node.name


def offences() -> Iterator[str]:
    for folder in GENERIC:
        for path in sorted((PACKAGE / folder).rglob("*.py")):
            name = path.relative_to(PACKAGE).as_posix()
            if not name.startswith(ABOUT_CODE):
                for line, word in coding_words(path.read_text()):
                    if word not in ALLOWED.get(name, ()):
                        yield f"collab/{name}:{line}: {word}"


def test_generic_packages_use_no_coding_words() -> None:
    assert list(offences()) == [], "move these words to a reward's family or its recipe"


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ('context.field("entry_point")', "entry_point"),
        ("score.tests.fraction", "tests"),
        ('row["points/syntax"]', "syntax"),
        ("from collab.rewards import cooperation", "cooperation"),
        ("def check(test): ...", "test"),
        ("f'{n} programs'", "programs"),
        ("isCode = 1", "code"),
    ],
)
def test_coding_words_are_detected(source: str, word: str) -> None:
    assert {word} <= {word for _, word in coding_words(source)}


def test_docstrings_and_substrings_are_not_flagged() -> None:
    assert list(coding_words('"""Tests of a program."""\nlatest = encode(1)\n')) == []


def test_every_allowed_word_is_used() -> None:
    for name, words in ALLOWED.items():
        used = {word for _, word in coding_words((PACKAGE / name).read_text())}
        assert words & used, name
