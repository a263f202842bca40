"""Compares the classifier of cooperation schemes with programs that were labeled by hand.

    python benchmarks/schemes.py

Prints the accuracy, the confusion table and every program that is classified differently.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import yaml

from collab.analysis import SCHEMES, classify

PROGRAMS = Path(__file__).parent.parent / "tests" / "analysis" / "schemes.yaml"
TARGET = 0.95
NAMES = (*SCHEMES, "none")


def confusion(programs: list[dict[str, str]]) -> Counter[tuple[str, str]]:
    """Count how often each label is classified as each scheme."""
    return Counter((label_of(program), found_in(program)) for program in programs)


def label_of(program: dict[str, str]) -> str:
    return program["label"] or "none"


def found_in(program: dict[str, str]) -> str:
    return classify(program["source"], program.get("entry", "main")).scheme or "none"


def accuracy(table: Counter[tuple[str, str]]) -> float:
    return sum(table[name, name] for name in NAMES) / table.total()


def as_markdown(table: Counter[tuple[str, str]]) -> str:
    lines = ["| label | " + " | ".join(NAMES) + " |", "|---|" + "--:|" * len(NAMES)]
    for label in NAMES:
        cells = (str(table[label, found] or "") for found in NAMES)
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    programs = yaml.safe_load(PROGRAMS.read_text(encoding="utf-8"))
    table = confusion(programs)
    adversarial = [program for program in programs if program.get("kind") == "adversarial"]
    for name, share in (
        (f"{len(programs)} programs", accuracy(table)),
        (f"{len(adversarial)} adversarial ones", accuracy(confusion(adversarial))),
    ):
        print(f"| {name} | {share:.1%} |")
    print(f"\n{as_markdown(table)}")
    for program in programs:
        if found_in(program) != label_of(program):
            told = program.get("note", "")
            print(f"\n{label_of(program)}, classified as {found_in(program)}: {told}")
            print(program["source"], end="")
    return 0 if accuracy(table) >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main())
