"""docs/ranks.md: its commands run, and its settings exist in recipes."""

import json
import re
from pathlib import Path

import pytest
from support.blocks import DOCS, blocks, shell
from support.tiny_words import save_tiny
from support.trainer_recipes import WORDS, make_game

from collab.recipe.trainer import TrainerSpec
from collab.recipe.writing import dump_recipe


def test_settings_of_the_page_match_the_recipe() -> None:
    [seconds] = re.findall(r"`trainer\.rank_timeout`, by default (\d+) s", page())
    assert float(seconds) == TrainerSpec().rank_timeout


@pytest.mark.ranks
def test_every_command_runs(tmp_path: Path) -> None:
    (tmp_path / "tiny").mkdir()
    recipe = make_game(save_tiny(tmp_path / "tiny", WORDS), tmp_path, steps=1)
    (tmp_path / "recipe.yaml").write_text(dump_recipe(recipe))
    for script in blocks("ranks.md", "sh"):
        shell(script, tmp_path)
    about = json.loads((tmp_path / "runs/two/run.json").read_text())
    assert (about["status"], about["ranks"], about["summary"]["steps"]) == ("done", 1, 3)
    log = (tmp_path / "runs/two/logs/rank-1.log").read_text()
    assert log.startswith("step 1: ")


def page() -> str:
    return (DOCS / "ranks.md").read_text()
