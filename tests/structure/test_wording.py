"""Plain English in user-facing text."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import collab
from collab.wording import counted

PACKAGE = Path(collab.__file__).parent


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 new tokens"), (1, "1 new token"), (1234, "1,234 new tokens")]
)
def test_counted_noun_gets_its_plural(number: int, text: str) -> None:
    assert counted(number, "new token") == text


def test_plurals_are_made_in_one_place() -> None:
    by_hand = re.compile(r"""['"]s['"] \* """)
    files = [path for path in PACKAGE.rglob("*.py") if path.name != "wording.py"]
    assert [str(path) for path in files if by_hand.search(path.read_text())] == []


ROOT = PACKAGE.parent
PLAIN = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
"""Pages in plain English."""
LONGEST = 25
"""Most words in a sentence."""
BANNED = re.compile(r"\b(anew|beforehand|of late|is told|are told|nor)\b", re.IGNORECASE)


def sentences(page: Path) -> list[str]:
    """The sentences of a page's paragraphs and lists, without code, tables and titles."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"^(\||#).*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"^ *(- |\d+\. )", "\n", text, flags=re.MULTILINE)
    text = re.sub(r"`[^`]*`", "code", text)
    blocks = (" ".join(block.split()) for block in re.split(r"\n\s*\n", text))
    return [part for block in blocks for part in re.split(r"(?<=[.?!:;])\s+", block) if part]


def test_sentences_are_short_and_words_are_plain() -> None:
    written = [(page.name, sentence) for page in PLAIN for sentence in sentences(page)]
    assert [(page, sentence) for page, sentence in written if len(sentence.split()) > LONGEST] == []
    assert [(page, sentence) for page, sentence in written if BANNED.search(sentence)] == []


FIRST_WORDS = re.compile(r"(What|That|Of|By|As|Whose|Those|How|Which|Where|Who|Whom|The how)\b")
"""First words that make a docstring an answer to a question or half a sentence."""
FOLDERS = ("collab", "trainers", "agents", "tasks")
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
ASSIGNED = (ast.Assign, ast.AnnAssign)


def docstrings(file: Path) -> Iterator[tuple[int, str]]:
    """The line and text of each docstring of a module, class, function or attribute."""
    for node in ast.walk(ast.parse(file.read_text())):
        body = getattr(node, "body", ())
        parts: list[ast.stmt] = body if isinstance(body, list) else []
        for number, part in enumerate(parts):
            if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant):
                is_docstring = number == 0 and isinstance(node, DOCUMENTED)
                text = part.value.value
                if isinstance(text, str) and (
                    is_docstring or isinstance(parts[number - 1], ASSIGNED)
                ):
                    yield part.lineno, text.strip()


def test_docstrings_do_not_begin_with_banned_words() -> None:
    found = [
        f"{file.relative_to(ROOT)}:{line}: {text.splitlines()[0]}"
        for folder in FOLDERS
        for file in sorted((ROOT / folder).rglob("*.py"))
        for line, text in docstrings(file)
        if FIRST_WORDS.match(text)
    ]
    assert found == []


def test_an_algorithm_is_not_called_a_rule() -> None:
    files = (PACKAGE / "trainers").rglob("*.py")
    assert [str(file) for file in files if re.search(r"(?i)\brules?\b", file.read_text())] == []
