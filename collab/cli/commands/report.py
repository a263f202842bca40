"""`collab report`."""

from __future__ import annotations

from pathlib import Path

from collab.cli.options import argument, complete_runs, flag, option, print_remarks
from collab.report import DEFAULT_MAX_EPISODES
from collab.runs.layout import REPORT
from collab.wording import counted


def command(
    runs: list[Path] = argument(
        "RUN", "Folders of runs, training runs or evaluations.", autocompletion=complete_runs
    ),
    out: Path | None = option(
        "--out",
        "FILE",
        "The HTML file. Default: report.html in the run's folder, or here for several runs.",
    ),
    episodes: int = option(
        "--episodes",
        "N",
        "Maximum number of episodes in the report.",
        min=1,
        default=DEFAULT_MAX_EPISODES,
    ),
    browse: bool = flag("--open", "Open the file in the browser."),
) -> None:
    """Write one HTML file about runs: curves, comparisons and episodes.

    The file works offline. Several seeds of one recipe become one curve with
    a band. Interrupted and killed runs are shown up to the point they reached.

    Examples:
      collab report runs/first --open
      collab report runs/seed-0 runs/seed-1 runs/seed-2 --out seeds.html
    """
    from collab.report.report import write_report

    single = len(runs) == 1 and runs[0].is_dir()
    target = out or (runs[0] / REPORT if single else Path(REPORT))
    report = write_report(runs, target, max_episodes=episodes)
    print_remarks(report.notes)
    size = target.stat().st_size
    print(f"{target}: {counted(len(report.shown), 'episode')}, {size / 1e6:.1f} MB")
    if browse:
        import webbrowser

        webbrowser.open(target.resolve().as_uri())
