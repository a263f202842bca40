"""What every test has: a configuration folder of its own."""

from itertools import count
from pathlib import Path

import pytest

NUMBERS = count()


@pytest.fixture(scope="session")
def configurations(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for them apart: where thousands lie, each next one of pytest's takes its time."""
    return tmp_path_factory.mktemp("configurations")


@pytest.fixture(autouse=True)
def configuration(configurations: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What is trusted in one test is not in another, nor in the user's own folder."""
    folder = configurations / str(next(NUMBERS))
    folder.mkdir()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    return folder
