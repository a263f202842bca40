"""What every test has: a configuration folder of its own."""

from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def configuration(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """What is trusted in one test is not in another, nor in the user's own folder."""
    folder = tmp_path_factory.mktemp("config")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder))
    return folder
