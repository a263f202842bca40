"""Every command of docs/study.md runs in order, on a tiny model with fewer tokens and seeds."""

import json
import re
import shutil
from pathlib import Path

import pytest
import yaml
from support.blocks import DOCS, blocks, run_here
from support.studies import train_here
from support.tiny_words import save_tiny

from collab.study.spec import StudySpec, cells_of, load_study

SMALLER = {
    "seeds: 2\n": "seeds: 1\n",
    "tokens: 1000\n": "tokens: 200\n",
    "evaluations: 4\n": "evaluations: 1\n",
    "evaluation.samples: 8\n": "evaluation.samples: 1\n",
}
FEWER = ("pocket-code/120-124 --samples 2", "pocket-code/120-121 --samples 1")


def replace(file: Path, words: dict[str, str]) -> None:
    text = file.read_text()
    for original, small in words.items():
        assert original in text
        text = text.replace(original, small)
    file.write_text(text)


def test_study_of_the_page_matches_the_example() -> None:
    shown = yaml.safe_load(blocks("study.md", "yaml")[0])
    shipped = DOCS.parent / "examples" / "studies" / "game.yaml"
    assert yaml.safe_load(shipped.read_text()) == shown
    spec = load_study(shipped)
    assert {f"`{key}`" for key in StudySpec.model_fields} <= set(
        re.findall(r"`\w+`", (DOCS / "study.md").read_text())
    )
    for cell in cells_of(spec):
        trainer = cell.read()[0].trainer
        assert trainer
        assert (trainer.tokens, trainer.group_size) == (1000, 16)


@pytest.mark.slow
def test_every_command_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collab.study.study.train", train_here)
    shutil.copytree(DOCS.parent / "examples", tmp_path / "examples")
    replace(tmp_path / "examples" / "studies" / "game.yaml", SMALLER)
    (tmp_path / "tiny").mkdir()
    tiny = str(save_tiny(tmp_path / "tiny", ("yes", "no")))
    replace(tmp_path / "examples" / "recipes" / "game.yaml", {"smollm2-135m": tiny})
    for script in blocks("study.md", "sh"):
        run_here(script.replace(*FEWER), tmp_path)
    done = json.loads((tmp_path / "studies" / "game" / "study.json").read_text())
    assert (done["status"], len(done["cells"])) == ("done", 3)
    assert [found["trainer"] for found in done["differences"]] == ["marloo", "cross"]
    probe = json.loads((tmp_path / "runs" / "probe" / "probe.json").read_text())
    assert probe["crossed"]["forms"] == {"row": "crossed", "column": "crossed"}
    assert (tmp_path / "runs" / "probe" / "report.html").is_file()
