"""The headline numbers follow from the table of every run."""

import math
import re
from pathlib import Path
from statistics import mean, stdev

import pytest

ROOT = Path(__file__).resolve().parents[2]
T_OF_THREE_SEEDS = 4.303
"""The 97.5 % quantile of Student's t distribution with two degrees of freedom."""


def column_of(name: str, column: int) -> list[float]:
    """Return the solved % of seeds 0 to 2 in a column, counted from the end, of the first table."""
    text = (ROOT / "docs" / "results_runs.md").read_text()
    rows = re.findall(rf"^\| {name}, trained, seed \d \|(.*)\|$", text, re.MULTILINE)[:3]
    return [float(row.split("|")[column].split(", ")[1].split(" [")[0]) for row in rows]


@pytest.mark.parametrize(("limit", "column"), [("1,000", -1), ("600", -2)])
def test_headline_follows_from_the_table_of_every_run(limit: str, column: int) -> None:
    pairs = zip(column_of("team", column), column_of("one agent", column), strict=True)
    lead = [team - agent for team, agent in pairs]
    margin = T_OF_THREE_SEEDS * stdev(lead) / math.sqrt(3)
    wanted = [mean(lead), mean(lead) - margin, mean(lead) + margin]
    text = " ".join((ROOT / "docs" / "results.md").read_text().split())
    shown = re.search(rf"Within {limit},? ?(?:tokens, )?(?:the team|it) .*? by .*?\]", text)
    assert shown is not None
    size, low, high = map(float, re.findall(r"-?\d+\.\d", shown[0]))
    stated = [-size if "trails" in shown[0] else size, low, high]
    assert stated == pytest.approx(wanted, abs=0.25), "the table is rounded to 0.1"
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert re.search(
        rf"{stated[0]:.1f} (points )?\((95 % interval over seeds: )?{low} to {high}\)", readme
    )
