"""`make test-lowest` tests the lower bounds in pyproject.toml."""

import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TESTED_EXTRAS = ("serve", "mcp", "dev")


def test_lowest_constraints_match_the_lower_bounds() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    requirements = [
        *project["dependencies"],
        *(line for key in TESTED_EXTRAS for line in extras[key]),
    ]
    lines = (ROOT / "constraints-lowest.txt").read_text().splitlines()
    versions = [line for line in lines if not line.startswith("#")]
    assert versions == sorted({_lowest(line) for line in requirements}, key=str.lower)


def _lowest(requirement: str) -> str:
    """Turn `name>=1.2,<3` into `name==1.2`."""
    bound = re.fullmatch(r"([\w-]+)>=([\w.]+)(?:,<[\w.]+)?", requirement)
    assert bound, f"{requirement!r} has no lower bound"
    return f"{bound[1]}=={bound[2]}"
