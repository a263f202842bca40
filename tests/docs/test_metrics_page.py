"""The page of metrics names all that is measured, by the names that the code has."""

import re
from pathlib import Path

from collab.rewards.library import MEASURES
from collab.runs import metric_names

DOCS = Path(__file__).parents[2] / "docs"


def names_in_the_code() -> set[str]:
    own = {value for name, value in vars(metric_names).items() if name.isupper() and name[0] != "_"}
    return {*own, *(measure.metric for measure in MEASURES if measure.metric)} - {
        metric_names.AGENT  # what the names of an agent's metrics begin with
    }


def names_on_the_page() -> set[str]:
    rows = re.findall(r"^\| (`.*?) \|", (DOCS / "metrics.md").read_text(), re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(.*?)`", row)}


def test_page_lists_every_metric() -> None:
    assert names_on_the_page() == names_in_the_code()
