"""A folder of made-up runs, and a running `collab view` of it."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.browser import HOSTILE, Open, browser, opened_pages
from support.report_runs import add_held_out, make_episode, make_run, make_training

__all__ = ["browser"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two training runs, a run, a run of a hostile team, and one in a subfolder."""
    folder = tmp_path_factory.mktemp("view") / "runs"
    for seed in range(2):
        add_held_out(make_training(folder / f"seed-{seed}", seed=seed))
    episodes = [make_episode(n, task=f"numbers/{n}", group=n) for n in range(3)]
    summary = {"mean_return": 2.5, "largest_return": 4.0, "solved": 1, "solvable": 3}
    make_run(folder / "played", episodes, summary=summary)
    make_run(folder / "hostile", episodes[:1], team=HOSTILE, status=HOSTILE)
    make_run(folder / "group" / "inner", episodes[:1])
    return folder


@pytest.fixture(scope="module")
def server(runs: Path) -> Iterator[str]:
    """The address of `collab view` on `runs`; a signal ends it with status 0."""
    command = [sys.executable, "-m", "collab", "view", str(runs), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        line = started.stdout.readline()
        yield line.split()[0]
        started.send_signal(signal.SIGINT)
        assert started.wait(10) == 0


@pytest.fixture
def open_page(browser: Any, server: str) -> Iterator[Open]:
    """Open a page of the server and check that it requests nothing else."""
    with opened_pages(browser, server) as open_address:
        yield lambda at="", *view: open_address(server + at, *view)
