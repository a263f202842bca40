"""The hook that checks commit subjects."""

import subprocess
import sys
from pathlib import Path

import pytest

HOOK = Path(__file__).parents[2] / ".ci/subject.py"


@pytest.mark.parametrize(
    ("subject", "complaint"),
    [
        ("serving: stream single-agent teams that have a prefix", ""),
        ("Merge branch 'main'", ""),
        ("serving: " + "x" * 60, "subject has 69 characters, limit 60"),
        ("stream single-agent teams", "is not of the form 'area: imperative'"),
        ("serving: stream teams.", "is not of the form"),
        ("plan: count logits; ranks: sync once", "one commit per change"),
    ],
)
def test_a_subject_is_accepted_or_the_rule_is_named(
    tmp_path: Path, subject: str, complaint: str
) -> None:
    message = tmp_path / "message"
    message.write_text(f"{subject}\n\nThe body may be as long as it needs to be; it says why.\n")
    command = [sys.executable, str(HOOK), str(message)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == bool(complaint)
    assert complaint in done.stderr
