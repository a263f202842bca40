"""Static analysis of programs of several files, with the real ruff and mypy."""

from pathlib import Path

import pytest
from support.static_findings import give_feedback

from collab.agents import Joint, join_for
from collab.feedback import Outcome
from collab.recipe.team import Roles
from collab.records import Feedback, Problem

PROBLEM = Problem(address="t/0", public={"prompt": "", "entry_point": "price"})
STORE = "# file: store/goods.py\ndef cost(name: str) -> int:\n    return len(name)\n"
MAIN = (
    "# file: main.py\nfrom store.goods import cost\n\n\n"
    "def price(name: str) -> int:\n    return cost(name) + 1\n"
)


def feedback_on(*tools: str, **files: str) -> dict[str, Feedback]:
    joint = join_for("files")(files, PROBLEM)
    outcome = Outcome(PROBLEM, tuple(files), files, joint, None, 0)
    return give_feedback(outcome, **({"tools": tools} if tools else {}))


def test_sound_files() -> None:
    feedback = feedback_on(store=STORE, main=MAIN)
    assert feedback["store"].text == "Static analysis: no remark."
    assert feedback["main"].text == "Static analysis:\n- `price` is defined"


def test_each_agent_gets_findings_of_its_own_files() -> None:
    two = STORE + "# file: store/names.py\nimport os\n\nwhole = 1\n"
    feedback = feedback_on(store=two, main=MAIN.replace("cost(name) +", "cots(name) +"))
    assert "store/names.py, line 1: F401 `os` imported but unused" in feedback["store"].text
    assert "main.py, line 5: F821 Undefined name `cots`" in feedback["main"].text
    assert "main.py, line 1: F401" in feedback["main"].text
    assert "cots" not in feedback["store"].text
    [undefined] = [f for f in feedback["main"].findings if f.code == "F821"]
    assert (undefined.file, undefined.line) == ("main.py", 5)


def test_mypy_checks_imports_between_files() -> None:
    feedback = feedback_on("mypy", store=STORE, main=MAIN.replace("cost(name) + 1", "cost(3)"))
    assert 'main.py, line 5: arg-type Argument 1 to "cost"' in feedback["main"].text
    assert feedback["store"].text == "Static analysis: no remark."
    missing = feedback_on("mypy", store=STORE, main=MAIN.replace("import cost", "import prize"))
    assert 'main.py, line 1: attr-defined Module "store.goods" has no' in missing["main"].text


def test_all_authors_read_that_files_break_the_tool() -> None:
    feedback = feedback_on("mypy", store=STORE, main=MAIN + "many = 'a' * 10**10\n")
    texts = {each.text for each in feedback.values()}
    assert texts == {"Static analysis:\n- unchecked program: mypy ended with status 2"}


def test_name_from_another_file_is_undefined_without_an_import() -> None:
    feedback = feedback_on(
        store=STORE, main="# file: main.py\ndef price(name):\n    return cost(name)\n"
    )
    assert "main.py, line 2: F821 Undefined name `cost`" in feedback["main"].text


def test_unparsable_file_is_reported_to_its_author() -> None:
    feedback = feedback_on(store=STORE.replace("len(name)", "len(name"), main=MAIN)
    assert "store/goods.py, line 2: the file does not parse" in feedback["store"].text
    assert "does not parse, because of store/goods.py" in feedback["main"].text


def test_unparsable_file_without_an_author_is_reported_to_readers() -> None:
    own = "# file: a.py\nx = 1"
    joint = Joint(f"{own}\n# file: main.py\ndef price(:", {"a": (1, 2)})
    roles = Roles(contributors=("a",), helpers=(), entry="a")
    outcome = Outcome(PROBLEM, ("a", "b"), {"a": own, "b": "fine"}, joint, None, 0, roles=roles)
    assert "main.py, line 1: the file does not parse" in give_feedback(outcome)["b"].text


def test_duplicate_file_is_reported() -> None:
    feedback = feedback_on(store=STORE, main=STORE)
    assert "'store/goods.py' occurs twice, first in line 1" in feedback["main"].text
    assert "because of main" in feedback["store"].text


@pytest.mark.parametrize("tool", ["ruff", "mypy"])
def test_analyzers_do_not_execute_the_checked_files(tool: str, tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    hostile = f"open({str(mark)!r}, 'w')\n"
    names = ("mypy/__init__", "mypy/__main__", "ruff", "typing_extensions", "mypy_extensions")
    feedback_on(tool, a="".join(f"# file: {name}.py\n{hostile}" for name in names), main=MAIN)
    assert not mark.exists()


@pytest.mark.parametrize("name", ["../a", "os", "a b", "store/goods"])
def test_invalid_file_names_do_not_break_the_analyzer(name: str) -> None:
    feedback = feedback_on("ruff", store=STORE, main=f"# file: {name}.py\nx = one\n")
    assert "F821 Undefined name `one`" in feedback["main"].text


def test_file_comment_in_joined_code_creates_no_files() -> None:
    artifacts = {
        "aux": "# file: aux.py\ndef aux(x):\n    return x",
        "main": "def price(x):\n    return ax",
    }
    joint = join_for("python")(artifacts, PROBLEM)
    feedback = give_feedback(Outcome(PROBLEM, tuple(artifacts), artifacts, joint, None, 0))
    assert "- line 2: F821 Undefined name `ax`" in feedback["main"].text
    assert "`aux` is defined" in feedback["aux"].text


@pytest.mark.parametrize("entry_point", ["__main__", "Solution.area", "class Solution"])
def test_entry_point_that_is_no_function_is_not_reported_missing(entry_point: str) -> None:
    program = "class Solution:\n    def area(self, x):\n        return x\n\n\nprint(input())\n"
    problem = Problem(address="t/0", public={"prompt": "", "entry_point": entry_point})
    files = {"store": STORE, "main": f"# file: main.py\n{program}"}
    for join, artifacts in (("text", {"main": program}), ("files", files)):
        joint = join_for(join)(artifacts, problem)
        feedback = give_feedback(Outcome(problem, tuple(artifacts), artifacts, joint, None, 0))
        assert feedback["main"].text == "Static analysis: no remark."


def test_agent_without_a_file_is_told_the_expected_format() -> None:
    feedback = feedback_on(store="", main=MAIN)
    assert "begin each with a line # file: NAME.py" in feedback["store"].text
    feedback = feedback_on(store=STORE, main="# file: main.py\nx = 1\n")
    assert "`main.py` does not define `price`" in feedback["main"].text


def test_agent_that_wrote_no_file_gets_all_findings() -> None:
    files = {"store": STORE, "main": MAIN.replace("+ 1", "+ one")}
    joint = join_for("files")(files, PROBLEM)
    roles = Roles(contributors=("store", "main"), helpers=("store",), entry="main")
    outcome = Outcome(PROBLEM, ("store", "main", "critic"), files, joint, None, 0, roles=roles)
    feedback = give_feedback(outcome)["critic"]
    assert "main, main.py, line 5: F821 Undefined name `one`" in feedback.text
