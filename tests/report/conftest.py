"""Made-up runs for reports."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.browser import HOSTILE, Open, browser, opened_pages
from support.report_runs import add_held_out, make_episode, make_run, make_training, page_of

from collab.records import Episode, Failure

__all__ = ["browser"]


@pytest.fixture
def played(tmp_path: Path) -> Path:
    """A run of four problems with two samples each."""
    episodes = [
        make_episode(n, task=f"numbers/{n // 2}", group=n // 2, sample=n % 2) for n in range(8)
    ]
    return make_run(tmp_path / "played", episodes, samples=2)


@pytest.fixture
def trained(tmp_path: Path) -> Path:
    return make_training(tmp_path / "trained")


@pytest.fixture
def held_out(tmp_path: Path) -> Path:
    """A training run with the episodes of its evaluations."""
    return add_held_out(make_training(tmp_path / "held_out"))


@pytest.fixture
def open_page(browser: Any) -> Iterator[Open]:
    """Open a file and check that it requests only files."""
    with opened_pages(browser, "file:", offline=True) as open_address:

        def open_page(path: Path, *view: Any, at: str = "") -> Any:
            return open_address(path.as_uri() + at, *view)

        yield open_page


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report on two seeds of one recipe, with one hostile and one failed episode."""
    folder = tmp_path_factory.mktemp("report")
    runs = [make_training(folder / f"seed-{seed}", seed=seed) for seed in range(2)]
    with (runs[0] / "episodes.jsonl").open("a") as stream:
        episode = make_episode(99, task="numbers/99", group=7, text=HOSTILE)
        stream.write(episode.model_dump_json() + "\n")
    failure = Failure(boundary="model", type="ModelTimeout", message="no answer within 30 s")
    failed = Episode(id="numbers/98#0", task="numbers/98", team="coding", group=7, failure=failure)
    with (runs[1] / "episodes.jsonl").open("a") as stream:
        stream.write(failed.model_dump_json() + "\n")
    page_of(*runs, out=folder / "report.html")
    return folder / "report.html"
