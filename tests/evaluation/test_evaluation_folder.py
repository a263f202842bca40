"""Evaluation folders: resuming, no mixing of runs, and reading partial results."""

import errno
import json
import os
from pathlib import Path

import pytest
from support.episodes import make_episode, make_score

from collab.errors import RecordError
from collab.evaluation.folder import EvaluationFolder, keep_only, read_finished, read_results
from collab.recipe import Recipe
from collab.records import Episode, read_episodes
from collab.runtime.folder import RunFolder

RECIPE = Recipe.model_validate({"team": {"agents": {"a": {"prompt": "say"}}}})


def record(path: Path, *episodes: Episode, identity: str = "one") -> None:
    """Append episodes to the folder of an earlier evaluation."""
    keep_only(path / "episodes.jsonl", read_finished(path / "episodes.jsonl"))
    folder = RunFolder(path, RECIPE, {"identity": identity})
    for episode in episodes:
        folder.append(episode)
    folder.finish({"identity": identity, "status": "done"})


def test_failed_episodes_are_played_again(tmp_path: Path) -> None:
    path = tmp_path / "team"
    record(path, make_episode("t", 0, make_score()), make_episode("t", 1, failed=True))
    finished = read_finished(path / "episodes.jsonl")
    assert set(finished) == {("t", 0)}
    assert [episode.sample for episode in read_episodes(path)] == [0, 1], "nothing has begun"
    keep_only(path / "episodes.jsonl", finished)
    assert [episode.sample for episode in read_episodes(path)] == [0]


def test_full_disk_is_reported_by_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    file = tmp_path / "team/episodes.jsonl"
    record(file.parent, make_episode("t", 0, make_score()), make_episode("t", 1, failed=True))
    before = file.read_bytes()
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(RecordError, match=r"episodes\.jsonl cannot be written: No space left"):
        keep_only(file, read_finished(file))
    assert file.read_bytes() == before


def test_only_a_team_with_the_same_identity_gets_the_same_folder(tmp_path: Path) -> None:
    folder = EvaluationFolder(tmp_path / "out")
    place = folder.team_folder("coding", "one")
    record(place, make_episode("t", 0, make_score()))
    (tmp_path / "out" / "eval.json").touch()
    folder.close()
    again = EvaluationFolder(tmp_path / "out")
    assert again.team_folder("coding", "two").name == "coding-2"
    assert again.team_folder("coding", "one") == place
    again.close()
    renamed = EvaluationFolder(tmp_path / "out")
    assert renamed.team_folder("renamed", "two").name == "renamed"
    assert renamed.team_folder("other", "one") == place
    renamed.close()
    (place / "run.json").unlink()
    without = EvaluationFolder(tmp_path / "out")
    assert without.team_folder("coding", "one").name == "coding-2"
    without.close()


def test_evaluation_that_did_not_begin_leaves_no_folder(tmp_path: Path) -> None:
    EvaluationFolder(tmp_path / "out").close()
    assert not (tmp_path / "out").exists()


def test_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "episodes.jsonl").write_text("")
    with pytest.raises(RecordError, match="contains other files; choose another folder with --out"):
        EvaluationFolder(tmp_path)


def test_folder_without_an_evaluation_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="is not an evaluation's folder"):
        read_results(tmp_path)
    (tmp_path / "eval.json").write_text(json.dumps({"evaluation": "x"}))
    with pytest.raises(RecordError, match="not an evaluation: status: required key is missing"):
        read_results(tmp_path)
