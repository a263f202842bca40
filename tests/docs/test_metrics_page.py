"""The page on metrics names all metrics of the code."""

import re
from pathlib import Path

from collab.rewards.library import MEASURES
from collab.runs import metric_names

DOCS = Path(__file__).parents[2] / "docs"


def names_in_the_code() -> set[str]:
    constants = {
        value for name, value in vars(metric_names).items() if name.isupper() and name[0] != "_"
    }
    return {*constants, *(measure.metric for measure in MEASURES if measure.metric)} - {
        metric_names.AGENT  # the prefix of an agent's metrics
    }


def names_on_the_page() -> set[str]:
    rows = re.findall(r"^\| (`.*?) \|", (DOCS / "metrics.md").read_text(), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(.*?)`", row)}


def test_page_lists_every_metric() -> None:
    assert names_on_the_page() == names_in_the_code()
