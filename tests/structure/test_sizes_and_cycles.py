"""No import cycles, and limits on the size of folders and files."""

import re
from collections import Counter
from pathlib import Path

from structure.drawing import crowded, import_cycles, lengths

import collab

PACKAGE = Path(collab.__file__).parent
ROOT = PACKAGE.parent
MOST_FILES, MOST_LINES = 40, 500


def test_no_folder_has_too_many_files() -> None:
    assert [
        folder for part in ("collab", "tests") for folder in crowded(ROOT / part, MOST_FILES)
    ] == []


def test_no_file_is_long() -> None:
    found = lengths(PACKAGE, ".py", ".js", ".css", ".j2")
    for part in ("benchmarks", "examples", "tests"):
        found |= lengths(ROOT / part)
    assert {str(file): lines for file, lines in found.items() if lines > MOST_LINES} == {}


def test_magrpo_step_fits_in_3000_lines() -> None:
    """Counts the files in the table of docs/architecture.md, from a step to an adapter."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    files = re.findall(r"^\| \d+ \| `(.+?)` \|", page, re.MULTILINE)
    texts = [(PACKAGE / "trainers" / file).read_text() for file in files]
    assert 10 <= len(files) <= 16
    assert sum(len(text.splitlines()) for text in texts) <= 3000


def test_names_of_test_files_are_unique() -> None:
    """pytest imports test files by name, so it could not collect a second one."""
    names = Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert [name for name, times in names.items() if times > 1] == []


def write_package(folder: Path, **files: str) -> Path:
    for place, text in files.items():
        file = folder / "package" / f"{place.replace('_in_', '/')}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return folder / "package"


def test_import_cycle_between_files_is_detected(tmp_path: Path) -> None:
    package = write_package(tmp_path, a="def f():\n    import package.b", b="from package import a")
    assert import_cycles(package) in (
        ["package: a.py imports b.py imports a.py"],
        ["package: b.py imports a.py imports b.py"],
    )


def test_import_cycle_between_packages_is_detected(tmp_path: Path) -> None:
    package = write_package(
        tmp_path,
        up_in_one="from package.down.one import x",
        up_in_two="",
        down_in_one="x = 1",
        down_in_two="from package.up.two import y",
    )
    (cycle,) = import_cycles(package)
    assert cycle.startswith("package: ")
    assert {"up", "down"} <= set(cycle.split())


def test_downward_import_is_not_a_cycle(tmp_path: Path) -> None:
    assert (
        import_cycles(write_package(tmp_path, up_in_a="import package.low", low="import json"))
        == []
    )


def test_crowded_folders_and_long_files_are_counted(tmp_path: Path) -> None:
    package = write_package(tmp_path, a="x = 1\n" * 3, b="", c="")
    assert crowded(package, 2) == [f"{package}: 3 files"]
    assert crowded(package, 3) == []
    assert max(lengths(package).values()) == 3
    (package / "page.js").write_text("1;\n" * 4)
    assert max(lengths(package, ".py", ".js").values()) == 4
