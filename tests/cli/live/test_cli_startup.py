"""What a command imports before it works: nothing that it does not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

LOOK = """
import sys
from collab.cli import main
sys.argv = ["collab", *{words}]
try:
    main()
except SystemExit:
    print("imported:", *{heavy} & sys.modules.keys(), file=sys.stderr)
"""


@pytest.mark.parametrize(
    ("words", "heavy"),
    [
        (["--help"], {"pydantic", "torch"}),
        (["run", "coding", "--task", "humaneval/12", "--dry-run"], {"torch", "transformers"}),
    ],
)
def test_what_is_not_needed_is_not_imported(words: list[str], heavy: set[str]) -> None:
    script = LOOK.format(words=words, heavy=heavy)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1].split() == ["imported:"]
