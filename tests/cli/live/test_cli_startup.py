"""Commands import only what they need at startup."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.shares import one_row_in

from collab.models import store
from collab.recipe.model import TransformersSpec
from collab.recipe.recipe import DEFAULT_MODEL
from collab.trainers.training.plan.cards import cpu_device

RECIPES = Path(__file__).resolve().parents[3] / "examples" / "recipes"
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
    one_row_in(
        4,
        [
            (["--help"], {*LIBRARIES, *MODELS, "rich", "yaml"}),
            (["run", "--help"], {*MODELS, "rich.console", "yaml", "collab.recipe.load"}),
            (["tasks"], {*MODELS, "rich", "jinja2", "asyncio", "collab.recipe.load"}),
            (["teams"], {*MODELS, "rich", "collab.runtime", "jinja2"}),
            (
                ["run", "coding", "--task", "humaneval/12", "--dry-run"],
                {*MODELS, "rich", "ctypes", "filelock", "tomllib"},
            ),
        ],
    ),
)
def test_commands_import_only_what_they_need(words: list[str], heavy: set[str]) -> None:
    script = LOOK.format(words=words, heavy=heavy)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stderr.splitlines()[-1].split() == ["imported:"]


@pytest.mark.skipif(not store.local_folder(DEFAULT_MODEL), reason="needs the default model")
@pytest.mark.skipif(cpu_device(TransformersSpec(name=DEFAULT_MODEL)) is None, reason="a GPU's plan")
def test_training_plan_needs_no_torch() -> None:
    words = ["train", str(RECIPES / "pocket-code.yaml"), "--dry-run"]
    test_commands_import_only_what_they_need(words, {*MODELS, "filelock"} - {"numpy"})
