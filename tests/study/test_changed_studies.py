"""A study can only be resumed with its original recipe, functions and rows."""

from pathlib import Path

import pytest
from support.studies import STUDY, collab

CHANGES = {
    "game.yaml": ("turns: 1", "turns: 2", "team.turns was 1 and is 2 now"),
    "mine.py": ("1.0", "2.0", "functions/mine.py has changed"),
    "game.jsonl": ("say", "go", "data/game.jsonl has changed"),
}


@pytest.mark.slow
def test_changed_study_cannot_be_resumed(project: Path) -> None:
    one = STUDY.replace("seeds: 2", "seeds: 1").replace("[magrpo, {", "[magrpo] #")
    (project / "s.yaml").write_text(one + "  trainer.algorithm: mine.py:mine\n")
    collab("s.yaml", "--jobs", "1")
    collab("s.yaml")
    for file, (before, after, message) in CHANGES.items():
        text = (project / file).read_text()
        assert before in text
        (project / file).write_text(text.replace(before, after))
        assert message in collab("s.yaml", status=2).stderr
        (project / file).write_text(text)
    collab("s.yaml", "--resume")  # as in 0.2.0
