"""`collab score`, with the real sandbox, of programs and of texts."""

import json
from pathlib import Path

import pytest
import yaml
from support.classes.shelf import ADD, HEAD, MOVE, SHELF, SOLUTION, SORT, TOTAL
from support.command_line import Collab

pytestmark = pytest.mark.usefixtures("project")

RIGHT = """\
from typing import List, Optional


def aux(strings: List[str]) -> int:
    return max(len(s) for s in strings)


def longest(strings: List[str]) -> Optional[str]:
    if not strings:
        return None
    n = aux(strings)
    for s in strings:
        if len(s) == n:
            return s
"""


@pytest.fixture(autouse=True)
def programs(project: Path) -> None:
    (project / "right.py").write_text(RIGHT)
    (project / "wrong.py").write_text("def longest(strings):\n    return 1\n")
    (project / "broken.py").write_text("def longest(strings:\n")
    (project / "aux.py").write_text("def aux(strings):\n    return max(map(len, strings))\n")
    main = RIGHT[RIGHT.index("def longest") :]
    (project / "main.py").write_text(f"from typing import List, Optional\n\n{main}")


def test_problem_without_a_reward_is_not_called_a_game(collab: Collab, project: Path) -> None:
    (project / "plain.yaml").write_text("kind: text\nsource: {path: rows.jsonl}\n")
    (project / "rows.jsonl").write_text('{"prompt": "Hello"}\n')
    result = collab("score", "plain.yaml/0", "right.py")
    assert result.status == 2
    assert (
        result.err == "error: the problems of 'plain' are not scored; add a reward to the suite\n"
    )


def test_several_programs_at_once(collab: Collab) -> None:
    files = ("right.py", "wrong.py", "broken.py")
    result = collab("score", "humaneval/12", *files, "--json")
    right, wrong, broken = result.events
    assert result.status == 0
    assert [right["file"], wrong["file"], broken["file"]] == list(files)
    assert (right["task"], right["solved"], right["reward"]) == ("humaneval/12", True, 4.0)
    assert right["tests"] == {"passed": 3, "total": 3}
    assert {part["name"] for part in right["parts"]} >= {"syntax", "tests", "calls"}
    assert (right["flags"], right["failure"]) == ([], None)
    assert right["seconds"] > 0
    assert (wrong["solved"], wrong["tests"]["passed"]) == (False, 0)
    assert (broken["solved"], broken["reward"]) == (False, 0.0)


def test_agents_artifacts(collab: Collab) -> None:
    agents = ("--agent", "aux=aux.py", "--agent", "main=main.py")
    result = collab("score", "humaneval/12", *agents)
    assert "solved, 3 of 3 tests, reward 4.00 of 4.00" in result.out


def test_unsafe_isolation_is_shown(collab: Collab) -> None:
    assert "unsafe" in collab("score", "humaneval/12", "wrong.py", "--sandbox", "unsafe").out


BAD = {
    "no program": ((), "pass either whole programs"),
    "missing": (("no.py",), "no.py does not exist; check the path"),
    "folder": ((".",), ". is a folder; specify a file"),
    "binary": (("binary.py",), "binary.py: cannot be read: not UTF-8 text"),
    "no name": (("--agent", "aux.py"), "--agent takes NAME=FILE"),
    "twice": (("--agent", "aux=aux.py", "--agent", "aux=main.py"), "is given twice"),
    "both": (("right.py", "--agent", "aux=aux.py"), "pass either whole programs"),
    "no effect": (("right.py", "--set", "team.turns=2"), "only the keys of task, sandbox; --team"),
    "no answer": (("--team", "coding", "--agent", "aux=aux.py"), "there is no answer of 'main'"),
    "other agent": (("--team", "coding", "--agent", "axu=aux.py"), "did you mean 'aux'?"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_usage(case: str, collab: Collab, project: Path) -> None:
    (project / "binary.py").write_bytes(b"\x80\xff")
    arguments, message = BAD[case]
    result = collab("score", "humaneval/12", *arguments)
    assert message in result.err
    assert (result.status, result.out) == (2, "")


def test_program_of_several_files(collab: Collab, project: Path) -> None:
    aux, main = (
        f"# file: {name}\n{(project / name).read_text()}" for name in ("aux.py", "main.py")
    )
    (project / "files.py").write_text(aux + main.replace("\n\n", "\nfrom aux import aux\n\n", 1))
    limits = "sandbox={seconds: 20, cpu_seconds: 20}"
    (scored,) = collab("score", "humaneval/12", "files.py", "--set", limits, "--json").events
    assert scored["solved"], scored


def test_byte_order_mark_and_crlf_are_accepted(collab: Collab, project: Path) -> None:
    program = (project / "right.py").read_bytes().replace(b"\n", b"\r\n")
    (project / "windows.py").write_bytes(b"\xef\xbb\xbf" + program)
    (scored,) = collab("score", "humaneval/12", "windows.py", "--json").events
    assert scored["solved"]


def test_endless_file_is_refused(collab: Collab) -> None:
    result = collab("score", "humaneval/12", "/dev/zero")
    assert "/dev/zero: cannot be read: more than" in result.err
    assert (result.status, result.out) == (2, "")


def test_address_of_several_problems_is_refused(collab: Collab) -> None:
    result = collab("score", "humaneval/0-3", "right.py")
    assert result.status == 2
    assert "needs one problem" in result.err


METHODS = {"first": HEAD + ADD + MOVE, "second": HEAD + TOTAL + SORT}
FILES = {
    "step": "# file: step.py\ndef step(x):\n    return len(x)\n",
    "main": "# file: main.py\nfrom step import step\n\n\ndef main(x):\n    return step(x) + 8\n",
}
PRO = {
    "helper": "```python\ndef twice(x):\n    return 2 * x\n```",
    "main": "def twice(x):\n    return 0\n\n\ndef twice_each(x):\n    return list(map(twice, x))\n",
}
PRO_ROW = {
    "id": 7,
    "raw_problem": "def twice(x: int) -> int:\n    '''Double x.'''\n",
    "raw_solution": "    return 2 * x\n",
    "new_problem": "# Double each number.\ndef twice_each(xs: list) -> list:\n",
    "new_solution": "    return [twice(x) for x in xs]\n",
    "test_code": "assert twice_each([1]) == [2]\nassert twice_each([2]) == [4]",
}
KNOWN = {"entry_point": "twice", "test": "def check(candidate):\n    assert candidate(3) == 6"}
TEAMS = {
    "classeval": ("classeval/ClassEval_900", METHODS, SHELF, SOLUTION),
    "two-files": ("two-files/0", FILES, None, "".join(FILES.values())),
    "pro-parallel": (
        "mbpp-pro/7",
        PRO,
        PRO_ROW,
        "def twice(x):\n    return 2 * x\n" + PRO["main"][27:],
    ),
}


@pytest.mark.parametrize("team", TEAMS)
def test_score_with_a_team_equals_that_of_its_run(team: str, collab: Collab, project: Path) -> None:
    address, answers, row, whole = TEAMS[team]
    words = ["--set", "team.turns=1", "--json"]
    if row:
        (project / "rows.json").write_text(json.dumps([row]))
        words += ["--set", "task.source.path=rows.json"]
    if row is PRO_ROW:
        (project / "known.jsonl").write_text(json.dumps(KNOWN))
        words += ["--set", "task.source.adapt.options.known={path: known.jsonl}"]
    script = yaml.safe_dump({agent: [answer] for agent, answer in answers.items()})
    (project / "script.yaml").write_text(script)
    run = collab("run", team, "-t", address, "-m", "scripted:script.yaml", *words)
    [played] = [
        e["episode"]["turns"][0]["score"] for e in run.events if e["type"] == "episode.finished"
    ]
    given = []
    for agent, answer in answers.items():
        (project / f"{agent}.txt").write_text(answer)
        given += ["--agent", f"{agent}={agent}.txt"]
    (scored,) = collab("score", address, "--team", team, *given, *words).events
    assert (scored["reward"], scored["solved"]) == (played["reward"], played["solved"])
    assert [p["points"] for p in scored["parts"]] == [
        p["value"] * p["weight"] for p in played["parts"]
    ]
    assert scored["solved"]
    (project / "whole.py").write_text(whole)
    assert collab("score", address, "whole.py", "--team", team, *words).events[0]["solved"]


SHORT = "My neighbour parks his van across my drive and I want it to stop without a quarrel."
LONG = (
    "A new family next door has two cars and a van, which blocks the drive on many evenings."
    " However, the father moves it whenever he is asked, so the writer would like a way between"
    " putting up with it and calling the police."
)


def test_texts_are_scored(collab: Collab, project: Path) -> None:
    (project / "short.txt").write_text(SHORT)
    (project / "long.txt").write_text(LONG)
    (project / "both.txt").write_text(f"{SHORT}\n\n{LONG}\n")
    agents = ("--agent", "concise=short.txt", "--agent", "detailed=long.txt")
    (two,) = collab("score", "tldr/0", *agents, "--json").events
    (one,) = collab("score", "tldr/0", "both.txt", "--json").events
    assert two["solved"] is one["solved"] is None
    assert two["reward"] == one["reward"] > 2.0
