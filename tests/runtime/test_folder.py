"""A run folder is readable at every moment; its files are replaced as a whole."""

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from collab.errors import RecordError
from collab.recipe import load_recipe
from collab.records import Action, Decision, Episode, Turn, read_episodes
from collab.runs.about import read_about
from collab.runs.atomic import replacing_files, write_atomically
from collab.runtime.folder import RunFolder


def episode(number: int) -> Episode:
    return Episode(id=f"t/{number}#0", task=f"t/{number}", team="pair", group=number)


def test_appended_episodes_are_read_back(project: Path) -> None:
    folder = RunFolder.create(project / "run", load_recipe("pair"), {"run": "run"})
    for number in range(3):
        folder.append(episode(number))
        assert len(list(read_episodes(folder.path))) == number + 1
    folder.finish({"run": "run", "status": "done"})
    assert list(read_episodes(folder.path)) == [episode(number) for number in range(3)]
    assert load_recipe(str(folder.path)) == load_recipe("pair")
    assert read_about(folder.path)["status"] == "done"


def test_a_log_probability_of_minus_infinity_is_read_back(project: Path) -> None:
    action = Action(text="x", token_ids=(1,), logprobs=(-math.inf,))
    turn = Turn(index=0, decisions=(Decision(agent="a", observation=(), action=action),))
    played = episode(0).model_copy(update={"turns": (turn,)})
    (project / "episodes.jsonl").write_text(played.model_dump_json() + "\n")
    assert list(read_episodes(project / "episodes.jsonl")) == [played]


def test_partial_last_line_is_skipped(project: Path) -> None:
    path = project / "episodes.jsonl"
    line = episode(0).model_dump_json()
    for cut in range(0, len(line), 7):
        path.write_text(f"{line}\n{line[:cut]}")
        assert list(read_episodes(path)) == [episode(0)]


def test_a_broken_line_in_the_middle_is_named(project: Path) -> None:
    path = project / "episodes.jsonl"
    path.write_text("{}\n" + episode(0).model_dump_json() + "\n")
    with pytest.raises(RecordError, match="line 1: not an episode"):
        list(read_episodes(path))


def test_a_folder_with_other_files_is_refused(project: Path) -> None:
    (project / "mine").mkdir()
    (project / "mine" / "note.txt").touch()
    with pytest.raises(RecordError, match="mine contains other files; choose another folder"):
        RunFolder.create(project / "mine", load_recipe("pair"), {})
    assert [file.name for file in (project / "mine").iterdir()] == ["note.txt"]


def test_folder_without_a_run_is_refused(project: Path) -> None:
    with pytest.raises(RecordError, match="is not a run's folder"):
        read_about(project)
    with pytest.raises(RecordError, match="does not exist; check the path"):
        list(read_episodes(project / "nothere"))
    (project / "file").write_text("")
    with pytest.raises(RecordError, match="cannot be written"):
        RunFolder.create(project / "file" / "run", load_recipe("pair"), {})


def test_a_full_disk_is_an_error_and_keeps_what_was_written(project: Path) -> None:
    folder = RunFolder.create(project / "run", load_recipe("pair"), {})
    folder.append(episode(0))
    code = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from collab.runtime.folder import RunFolder; from collab.records import Episode\n"
        "from collab.errors import RecordError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "from collab import load_recipe\n"
        "folder = RunFolder(Path(sys.argv[1]), load_recipe('pair'), {})\n"
        "size = (folder.path / 'episodes.jsonl').stat().st_size\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, size + 20))\n"
        "try:\n    folder.append(Episode(id='x', task='x', team='x'))\n"
        "except RecordError as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder.path)], capture_output=True, text=True, check=True
    )
    assert "bytes fit" in done.stdout
    assert list(read_episodes(folder.path)) == [episode(0)]
    folder.append(episode(1))  # on a new line: the torn one was removed
    folder.close()
    assert list(read_episodes(folder.path)) == [episode(0), episode(1)]


def test_write_atomically_uses_default_permissions(project: Path) -> None:
    (project / "plain").touch()
    write_atomically(project / "whole", "text")
    assert (project / "whole").stat().st_mode == (project / "plain").stat().st_mode


def test_write_atomically_leaves_the_old_text_when_it_fails(project: Path) -> None:
    path = project / "about.json"
    write_atomically(path, json.dumps({"a": 1}))
    with pytest.raises(UnicodeEncodeError):
        write_atomically(path, "\ud800")
    assert path.read_text() == '{"a": 1}'
    assert list(project.glob(".about*")) == []


def test_files_in_subfolders_are_replaced_too(tmp_path: Path) -> None:
    """A tokenizer with several chat templates writes them into a subfolder."""
    folder = tmp_path / "model"
    for text in ("old", "new"):
        with replacing_files(folder) as partial:
            (partial / "templates").mkdir()
            for name in ("config.json", "templates/tool_use.jinja"):
                (partial / name).write_text(text)
    files = {path.name: path.read_text() for path in folder.rglob("*") if path.is_file()}
    assert files == {"config.json": "new", "tool_use.jinja": "new"}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]
