"""Cooperation schemes: labelled programs, the lines that prove a label, programs of any shape."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from fuzz.programs import BOMBS, humaneval, programs

from collab.analysis import SCHEMES, classify

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
CASES: list[dict[str, Any]] = yaml.safe_load((HERE / "schemes.yaml").read_text(encoding="utf-8"))
WITHOUT_A_CALL = {"unused", "redefined"}
FLOOR = 0.95

AUX = "def aux(x):\n    return x\n"


def name_of(case: dict[str, Any]) -> str:
    return f"{case['label']}: {case.get('note') or case['source'].splitlines()[0]}"


def classified(case: dict[str, Any]) -> Any:
    return classify(case["source"], case.get("entry", "main"))


def test_accuracy() -> None:
    right = [case for case in CASES if classified(case).scheme == case["label"]]
    assert len(right) / len(CASES) >= FLOOR


def test_other_labels() -> None:
    for case in CASES:
        labels = set(classified(case).labels)
        assert labels >= set(case.get("also", ())), name_of(case)
        assert not labels & set(case.get("not", ())), name_of(case)


def test_every_label_has_lines_that_prove_it() -> None:
    for case in CASES:
        found = classified(case)
        assert (found.scheme is None) == bool(found.reason), name_of(case)
        assert list(found.labels) == sorted(set(found.labels), key=SCHEMES.index), name_of(case)
        lines, names = case["source"].splitlines(), derived_names(case["source"])
        for match in found.matches:
            assert match.why
            assert match.lines
            assert list(match.lines) == sorted(set(match.lines)), match
            for number in match.lines if match.name not in WITHOUT_A_CALL else ():
                assert mentions(lines[number - 1], names), (match, number)


def mentions(line: str, names: set[str]) -> bool:
    return bool(names & set(re.findall(r"\w+", line.partition("#")[0])))


def derived_names(source: str) -> set[str]:
    """aux and, by a rough reading of the text, the names that its value may have come to."""
    names, size = {"aux"}, 0
    while size < len(names):
        size, function = len(names), ""
        for line in source.splitlines():
            function = (re.findall(r"def (\w+)", line) or [function])[0]
            if mentions(line, names):
                names.add(function)
                bound = re.match(r"\s*(?:for )?([\w, \[\].\":]+?)(?: in | [-+|]?= |\.\w+\()", line)
                names |= set(re.findall(r"\b[a-z]\w*", bound.group(1) if bound else ""))
                names |= set(re.findall(r"(\w+) :=", line))
                for called in re.findall(r"(\w+)\(", line):
                    given = re.search(rf"def {called}\((.*)\):", source)
                    names |= set(re.findall(r"\w+", given.group(1))) if given else set()
    return names


def test_lines_are_those_of_the_joint_program() -> None:
    program = f"import re\n\n\n{AUX}\n\ndef main(x):\n    y = aux(x)\n    return -y\n"
    [match] = classify(program, "main").matches
    assert (match.name, match.lines) == ("decorator", (9, 10))
    assert classify(program, "main", helper_lines=(1, 5)).matches == (match,)


def test_what_the_caller_writes_itself_is_not_its_helpers() -> None:
    program = f"{AUX}\n\ndef main(x):\n    return -aux(x)\n"
    assert classify(program, "main").scheme == "decorator"
    [match] = classify(program, "main", helper_lines=(0, 0)).matches
    assert (match.name, match.lines) == ("redefined", (1,))


def test_a_main_that_the_helpers_author_wrote_is_none() -> None:
    program = f"{AUX}\n\ndef main(x):\n    return -aux(x)\n"
    found = classify(program, "main", helper_lines=(1, 6))
    assert (found.scheme, found.reason) == (None, "'main' is not defined")


def test_another_helper() -> None:
    program = "def main(x):\n    return [first(y) for y in x]\n"
    assert classify(program, "main", "first").scheme == "coordinator"
    assert classify(program, "main").scheme == "unused"


def test_programs_of_any_shape() -> None:
    rows = humaneval()
    mutated = [(program, row["entry_point"]) for row, program in programs(60, 7, rows)]
    bombs = [(bomb, "main") for bomb in BOMBS]
    body = "def main(x):\n    y = aux(x)\n    {}\n    return y"
    within = [(body.replace("{}", bomb.replace("\n", "\n    ")), "main") for bomb in BOMBS]
    for program, entry_point in (*mutated, *bombs, *within):
        found = classify(program, entry_point)
        assert (found.scheme is None) == bool(found.reason)
        assert all(line >= 1 for match in found.matches for line in match.lines)


def test_a_program_that_is_too_long_says_so() -> None:
    program = "def main(x):\n    return aux(x)\n" + "# more\n" * 10_000
    assert classify(program, "main").reason == "the program has more than 40,000 characters"


def test_the_docs_show_the_table_as_it_is() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "schemes.py")]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    shares, table, *_ = result.stdout.split("\n\n")
    docs = (ROOT / "docs" / "schemes.md").read_text(encoding="utf-8")
    assert shares in docs
    assert table in docs
