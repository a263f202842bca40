"""What a command imports before it works: nothing that it does not need."""

from __future__ import annotations

import subprocess
import sys

import pytest

LIBRARIES = {"pydantic.main", "jinja2", "asyncio"}
MODELS = {"torch", "transformers", "peft", "numpy", "httpx", "anthropic", "huggingface_hub"}

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
        (["--help"], {*LIBRARIES, *MODELS, "rich", "yaml"}),
        (["run", "--help"], {*MODELS, "rich.console", "yaml", "collab.recipe.load"}),
        ([], {*LIBRARIES, *MODELS, "rich", "yaml"}),
        (["--version"], {"pydantic.main", *MODELS, "rich", "yaml"}),
        (["tasks"], {*LIBRARIES, *MODELS, "rich", "collab.recipe.load"}),
        (["teams"], {*MODELS, "rich", "collab.runtime", "jinja2"}),
        (["models"], {*MODELS, "rich", "collab.runtime", "jinja2"}),
        (["schema", "team"], {*MODELS, "rich", "collab.runtime"}),
        (["run", "coding", "--task", "humaneval/12", "--dry-run"], {*MODELS, "rich", "ctypes"}),
    ],
)
def test_what_is_not_needed_is_not_imported(words: list[str], heavy: set[str]) -> None:
    script = LOOK.format(words=words, heavy=heavy)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1].split() == ["imported:"]
