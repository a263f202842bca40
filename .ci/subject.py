"""Check the subject of a commit message: `area: imperative`, at most 60 characters.

.ci/subject.py MESSAGE_FILE
"""

import re
import sys
from pathlib import Path

LONGEST = 60
FORM = re.compile(r"[a-z0-9][\w./ -]*: \S.*[^.]")
MERGES = ("Merge ", "Revert ", "fixup! ", "squash! ")


def complaint(subject: str) -> str:
    """The rule that a subject breaks, or an empty text."""
    if subject.startswith(MERGES):
        return ""
    if len(subject) > LONGEST:
        return f"subject has {len(subject)} characters, limit {LONGEST}; move the rest to the body"
    if not FORM.fullmatch(subject):
        return f"subject {subject!r} is not of the form 'area: imperative', without a full stop"
    if ";" in subject:
        return f"subject {subject!r} names several changes; make one commit per change"
    return ""


def main() -> None:
    """Exit with the complaint, if there is one."""
    first = Path(sys.argv[1]).read_text(encoding="utf-8").partition("\n")[0]
    sys.exit(complaint(first.rstrip()) or 0)


if __name__ == "__main__":
    main()
