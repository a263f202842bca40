"""Every notebook runs from start to end in its own kernel."""

from importlib import import_module
from pathlib import Path

import pytest

NOTEBOOKS = Path(__file__).resolve().parents[2] / "examples" / "notebooks"


@pytest.mark.notebooks
@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.stem)
@pytest.mark.filterwarnings("ignore")  # of packages that start the kernel
def test_every_cell_runs(path: Path, tmp_path: Path) -> None:
    client, form = import_module("nbclient"), import_module("nbformat")

    notebook = form.read(path, as_version=4)
    folder = {"metadata": {"path": str(tmp_path)}}
    client.NotebookClient(notebook, timeout=600, resources=folder).execute()
    shown = [out for cell in notebook.cells for out in cell.get("outputs", ())]
    assert any("text/html" in out.get("data", {}) for out in shown)


def test_notebooks_hold_no_outputs_and_no_local_path() -> None:
    for path in NOTEBOOKS.glob("*.ipynb"):
        text = path.read_text()
        assert '"outputs": []' in text
        assert '"output_type"' not in text
        assert "/home/" not in text
