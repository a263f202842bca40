"""Files that replace those of a folder."""

from pathlib import Path

from collab.runs.atomic import replacing_files


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
