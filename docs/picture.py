"""Makes docs/run.svg, which shows the output of `collab run` on a terminal.

make picture

The record goes to a temporary folder, so making the picture leaves nothing in runs/.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from pathlib import Path

from rich.console import Console

from collab.cli.live.running import run_with_view
from collab.cli.live.view import TextView
from collab.cli.screen.page import TerminalPage
from collab.recipe import load_recipe
from collab.runtime.problems import find_problems

PICTURE = Path(__file__).with_name("run.svg")
ADDRESS = "humaneval/12"
TEAM = "coding"
COMMAND = f"collab run {TEAM} --task {ADDRESS}"
WIDTH = 120


def draw(model: str | None = None) -> str:
    """Run the command, and draw its output on a terminal of 120 columns as SVG.

    Args:
        model: replaces the default model, e.g. `echo`.

    Raises:
        RuntimeError: the episode failed, e.g. because the sandbox did not start in time.
    """
    console = Console(
        record=True, file=io.StringIO(), force_terminal=True, width=WIDTH, highlight=False
    )
    page = TerminalPage(console)
    page.line(("$ ", "dim"), COMMAND)
    recipe = load_recipe(TEAM, task=ADDRESS.partition("/")[0], model=model)
    recipe, problems = find_problems(recipe, [ADDRESS])
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        finished = run_with_view(
            recipe,
            problems,
            out=Path("runs") / f"today-{TEAM}",
            view=TextView(page),
        )
    for episode in finished.episodes:
        if episode.failure:
            raise RuntimeError(f"the run failed, so there is no picture of it: {episode.failure}")
    return console.export_svg(title="collab", unique_id="run")


if __name__ == "__main__":
    PICTURE.write_text(draw())
