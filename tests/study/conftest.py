"""A folder with a study whose cells are trained in this process."""

from pathlib import Path

import pytest
from support.studies import OWN_ALGORITHM, STUDY, train_here
from support.trainer_recipes import make_game

from collab.recipe.writing import dump_recipe
from collab.study import study as room


@pytest.fixture
def project(tiny_words: Path, here: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (here / "game.yaml").write_text(dump_recipe(make_game(tiny_words, here)))
    (here / "s.yaml").write_text(STUDY)
    (here / "mine.py").write_text(OWN_ALGORITHM)
    monkeypatch.setattr(room, "train", train_here)
    return here
