"""Links in a foreign run folder never lead to writes outside it."""

import json
from pathlib import Path

import pytest
from support.tiny_words import save_tiny
from support.trust import run

from collab.errors import RecordError
from collab.recipe.differences import file_digests
from collab.runs.atomic import Lock


def test_a_report_replaces_a_link(theirs: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.html"
    outside.write_text("mine")
    (theirs / "report.html").symlink_to(outside)
    assert run("report", str(theirs))[0] == 0
    assert outside.read_text() == "mine"
    assert "<html" in (theirs / "report.html").read_text()


@pytest.mark.parametrize("name", ["episodes.jsonl", "run.json", "recipe.yaml"])
def test_a_report_follows_no_link_out_of_a_folder(theirs: Path, tmp_path: Path, name: str) -> None:
    (theirs / name).rename(tmp_path / name)
    (theirs / name).symlink_to(tmp_path / name)
    code, text = run("report", str(theirs))
    assert code == 2
    assert f"{name} is a link to {tmp_path / name}, outside {theirs}" in text
    assert not (theirs / "report.html").exists()


@pytest.mark.parametrize(
    "name", ["adapters", "adapters/a", "checkpoints", "metrics.jsonl", ".lock", "functions/x.py"]
)
def test_a_folder_with_a_link_out_of_it_is_not_written(tmp_path: Path, name: str) -> None:
    folder, outside = tmp_path / "run", tmp_path / "outside"
    (folder / name).parent.mkdir(parents=True)
    outside.write_text("mine")
    (folder / name).symlink_to(outside)
    with pytest.raises(RecordError, match=f"{name} is a link to {outside}, outside {folder}"):
        Lock(folder)
    assert outside.read_text() == "mine"


def test_links_within_a_folder_and_to_it_are_fine(tmp_path: Path) -> None:
    (tmp_path / "real" / "data").mkdir(parents=True)
    (tmp_path / "real" / "again").symlink_to("data")
    (tmp_path / "run").symlink_to("real")
    Lock(tmp_path / "run").release()


def test_no_run_is_written_through_a_link(project: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside.jsonl"
    outside.write_text("mine\n")
    (project / "out").mkdir()
    (project / "out" / "episodes.jsonl").symlink_to(outside)
    code, text = run("run", "pair", "--task", "words/0", "--model", "echo", "--out", "out")
    assert code != 0
    assert "episodes.jsonl is a link to" in text
    assert outside.read_text() == "mine\n"


def test_a_models_python_files_never_run(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    marker = tmp_path / "ran"
    save_tiny(project / "tiny", ["hi"])
    for name in ("config.json", "tokenizer_config.json"):
        path = project / "tiny" / name
        config = json.loads(path.read_text())
        names = {"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.M"}
        config |= {"auto_map": names | {"AutoTokenizer": ["evil.T", "evil.T"]}}
        config |= {"model_type": "evil", "tokenizer_class": "T"}
        path.write_text(json.dumps(config))
    (project / "tiny" / "evil.py").write_text(f"open({str(marker)!r}, 'w')\nC = M = T = object\n")
    monkeypatch.setattr("builtins.input", lambda *_: "y")  # answers transformers' own question
    code, text = run("run", "pair", "--task", "words/0", "--model", str(project / "tiny"))
    assert code == 2
    assert "contains custom code" in text
    assert not marker.exists()


def test_a_diff_follows_no_link_out_of_a_folder(theirs: Path, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "secret.jsonl").write_text("mine")
    (theirs / "functions-2").symlink_to(tmp_path / "other")
    contents = file_digests(theirs)
    assert contents["functions-2/secret.jsonl"] == "a link out of the folder, not read"
