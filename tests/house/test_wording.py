"""Plain English in what users read."""

import re
from pathlib import Path

import pytest

import collab
from collab.wording import counted

PACKAGE = Path(collab.__file__).parent


@pytest.mark.parametrize(
    ("number", "told"), [(0, "0 new tokens"), (1, "1 new token"), (1234, "1,234 new tokens")]
)
def test_a_number_and_its_noun(number: int, told: str) -> None:
    assert counted(number, "new token") == told


def test_plurals_are_made_in_one_place() -> None:
    by_hand = re.compile(r"""['"]s['"] \* """)
    files = [path for path in PACKAGE.rglob("*.py") if path.name != "wording.py"]
    assert [str(path) for path in files if by_hand.search(path.read_text())] == []
