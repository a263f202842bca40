"""The page about fakes: its script, test and commands run unchanged."""

import re
from pathlib import Path

import pytest
from support.blocks import DOCS, blocks, run_here, shell

from collab.models.fakes import ScriptedAnswer

PAGE = (DOCS / "fakes.md").read_text()


@pytest.mark.slow
def test_pytest_example_of_the_page_passes(tmp_path: Path) -> None:
    (tmp_path / "answers.yaml").write_text(blocks("fakes.md", "yaml")[0])
    (tmp_path / "test_team.py").write_text(blocks("fakes.md", "python")[0])
    shell("python -m pytest -q -p no:cacheprovider test_team.py", tmp_path)


@pytest.mark.slow
def test_commands_of_the_page_run(tmp_path: Path) -> None:
    run_here(blocks("fakes.md", "sh")[0], tmp_path)


def test_page_lists_every_key_of_an_answer() -> None:
    keys = set(re.findall(r"^\| `(\w+)` \| [^`|]*", PAGE, re.MULTILINE))
    assert keys >= set(ScriptedAnswer.model_fields)
