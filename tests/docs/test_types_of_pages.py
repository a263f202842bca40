"""Programs on the pages pass basedpyright, like in a user's editor, if it is installed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.blocks import blocks

PAGES = ("../README.md", "python.md", "from_trl.md", "from_comlrl.md")
PYRIGHT = shutil.which("basedpyright") or shutil.which(
    "basedpyright", path=sys.exec_prefix + "/bin"
)


def errors_in(folder: Path) -> str:
    """pyright's errors, or an empty string."""
    assert PYRIGHT is not None
    command = [PYRIGHT, "--pythonpath", sys.executable, "--level", "error", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout if done.returncode else ""


@pytest.mark.skipif(PYRIGHT is None, reason="needs basedpyright: make types-examples")
def test_programs_of_the_pages_have_no_type_errors(tmp_path: Path) -> None:
    for page in PAGES:
        written = blocks(page, "python")
        assert written, page
        for number, code in enumerate(written):
            (tmp_path / f"{Path(page).stem}_{number}.py").write_text(code)
    assert errors_in(tmp_path) == ""
    wrong = tmp_path / "wrong.py"
    wrong.write_text("import collab\n\ncollab.load('coding').run(1)\n")
    assert "wrong.py:3" in errors_in(tmp_path)
