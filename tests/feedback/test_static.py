"""Static analysis of programs of one and of several files, with the real ruff and mypy."""

from pathlib import Path

import pytest
from support.static_findings import AUX, MAIN, OutcomeOf, codes, give_feedback

from collab.agents import Joint, join_for
from collab.feedback import Outcome
from collab.recipe.team import Roles
from collab.records import Feedback, Problem


def test_sound_code_has_no_findings(outcome_of: OutcomeOf) -> None:
    feedback = give_feedback(outcome_of(aux=AUX, main=MAIN))
    assert feedback["aux"].text == "Static analysis:\n- `aux` is defined"
    assert feedback["main"].text == (
        "Static analysis:\n- `sum_of_squares` is defined\n"
        "- `sum_of_squares` calls `aux` and uses its value"
    )


def test_findings_use_the_line_numbers_of_each_agent(outcome_of: OutcomeOf) -> None:
    aux = "import os\n\n\ndef aux(x):\n    return y * x"
    main = "def sum_of_squares(xs):\n    unused = 1\n    return sum(map(aux, xz))"
    feedback = give_feedback(outcome_of(aux=aux, main=main))
    assert ("F821", 5) in codes(feedback["aux"])
    assert ("F401", 1) in codes(feedback["aux"])
    assert ("F841", 2) in codes(feedback["main"])
    assert ("F821", 3) in codes(feedback["main"])
    assert "line 3: F821 Undefined name `xz`" in feedback["main"].text
    assert all(finding.source in ("ast", "ruff") for finding in feedback["main"].findings)


def test_line_numbers_in_messages_refer_to_the_agents_code(outcome_of: OutcomeOf) -> None:
    main = "import math\nimport os\n\nimport os\n\ndef sum_of_squares(xs):\n    return aux(os)"
    feedback = give_feedback(outcome_of(aux=AUX, main=main))["main"].text
    assert "line 4: F811 Redefinition of unused `os` from line 2" in feedback
    assert "line 1: F811 Redefinition of unused `math` from what the prompt gives" in feedback
    feedback = give_feedback(outcome_of(aux=f"import os\n{AUX}", main=main))["main"].text
    assert "line 2: F811 Redefinition of unused `os` from line 1 of aux" in feedback


def test_last_line_is_its_own_without_a_line_feed(outcome_of: OutcomeOf) -> None:
    main = "def sum_of_squares(xs):\n    return sum(map(aux, xz))"
    feedback = give_feedback(outcome_of(join="text", aux=AUX, main=main))
    assert ("F821", 2) in codes(feedback["main"])


ENTRY = "def sum_of_squares(xs):\n    "


@pytest.mark.parametrize(
    ("aux", "main", "agent", "message"),
    [
        ("def other(x):\n    return x", MAIN, "aux", "your code does not define `aux`"),
        ("def other(x):\n    return x", MAIN, "main", "F821 Undefined name `aux`"),
        ("def aux(x):\n    print(x)", MAIN, "aux", "`aux` returns no value"),
        (AUX, f"{ENTRY}return sum(xs)", "main", "never calls `aux`"),
        (AUX, f"{ENTRY}aux(xs)\n    return 1", "main", "line 2: the value of `aux` is not used"),
        (
            AUX,
            f"{ENTRY}if False: aux(1)\n    return 1",
            "main",
            "never calls `aux` in code that can run",
        ),
    ],
)
def test_missing_and_unused_functions_are_reported(
    outcome_of: OutcomeOf, aux: str, main: str, agent: str, message: str
) -> None:
    assert message in give_feedback(outcome_of(aux=aux, main=main))[agent].text


def test_names_provided_by_the_prompt_are_not_undefined(outcome_of: OutcomeOf) -> None:
    feedback = give_feedback(outcome_of(aux="def aux(x):\n    return math.sqrt(x)", main=MAIN))
    assert "F821" not in str(feedback)


def test_syntax_error_is_reported_to_its_author(outcome_of: OutcomeOf) -> None:
    feedback = give_feedback(outcome_of(aux="def aux(x):\n    return (x", main=MAIN))
    error = feedback["aux"].findings[0]
    assert (error.code, error.severity, error.line, error.column) == (
        "syntax-error",
        "error",
        2,
        12,
    )
    assert "line 2: your code does not parse: '(' was never closed" in feedback["aux"].text
    assert "the joint program does not parse, because of the code of: aux" in feedback["main"].text
    assert "`sum_of_squares` is defined" in feedback["main"].text


def test_ruff_reports_syntax_errors_without_ast(outcome_of: OutcomeOf) -> None:
    feedback = give_feedback(
        outcome_of(aux=AUX, main="def sum_of_squares(xs):\n    return ((xs)"), tools=["ruff"]
    )
    assert codes(feedback["main"])[0][0] == "invalid-syntax"
    assert feedback["aux"].text == "Static analysis: no remark."


JOINS = """\
import ast
def tidied(artifacts, problem): return ast.unparse(ast.parse(artifacts["coder"]))
def broken(artifacts, problem): return "def sum_of_squares(xs):\\n    return (xs"
def own(artifacts, problem): return "x = 1"
"""
PLAN = "- it's simple: square, then add"


@pytest.mark.parametrize(
    ("join", "expected"),
    [
        ("tidied", "- line 2: F821 Undefined name `aux`"),
        ("broken", "- the joint program does not parse: '(' was never closed"),
        ("own", "- the joint program does not define `sum_of_squares`"),
    ],
)
def test_findings_that_cannot_be_attributed_go_to_every_agent(
    outcome_of: OutcomeOf, here: Path, join: str, expected: str
) -> None:
    (here / "joins.py").write_text(JOINS)
    feedback = give_feedback(
        outcome_of(planner=PLAN, coder=f"# it is mine\n{MAIN}", join=f"joins.py:{join}")
    )
    for agent in ("planner", "coder"):
        assert feedback[agent].text == f"Static analysis of the joint program:\n{expected}"
        assert feedback[agent].findings[0].line is None


def test_code_that_parses_only_when_joined_is_not_called_broken(outcome_of: OutcomeOf) -> None:
    halves = {"head": "def sum_of_squares(xs):\n    x = 0", "main": "    return sum(xs)"}
    feedback = give_feedback(outcome_of(**halves))
    assert "parse" not in feedback["head"].text + feedback["main"].text
    assert "`sum_of_squares` is defined" in feedback["main"].text


PROBLEM = Problem(address="t/0", public={"prompt": "", "entry_point": "price"})
STORE = "# file: store/goods.py\ndef cost(name: str) -> int:\n    return len(name)\n"
PRICE = (
    "# file: main.py\nfrom store.goods import cost\n\n\n"
    "def price(name: str) -> int:\n    return cost(name) + 1\n"
)


def feedback_on(*tools: str, **files: str) -> dict[str, Feedback]:
    joint = join_for("files")(files, PROBLEM)
    outcome = Outcome(PROBLEM, tuple(files), files, joint, None, 0)
    return give_feedback(outcome, **({"tools": tools} if tools else {}))


def test_sound_files() -> None:
    feedback = feedback_on(store=STORE, main=PRICE)
    assert feedback["store"].text == "Static analysis: no remark."
    assert feedback["main"].text == "Static analysis:\n- `price` is defined"


def test_each_agent_gets_findings_of_its_own_files() -> None:
    two = STORE + "# file: store/names.py\nimport os\n\nwhole = 1\n"
    feedback = feedback_on(store=two, main=PRICE.replace("cost(name) +", "cots(name) +"))
    assert "store/names.py, line 1: F401 `os` imported but unused" in feedback["store"].text
    assert "main.py, line 5: F821 Undefined name `cots`" in feedback["main"].text
    assert "main.py, line 1: F401" in feedback["main"].text
    assert "cots" not in feedback["store"].text
    [undefined] = [f for f in feedback["main"].findings if f.code == "F821"]
    assert (undefined.file, undefined.line) == ("main.py", 5)


def test_mypy_checks_imports_between_files() -> None:
    feedback = feedback_on("mypy", store=STORE, main=PRICE.replace("cost(name) + 1", "cost(3)"))
    assert 'main.py, line 5: arg-type Argument 1 to "cost"' in feedback["main"].text
    assert feedback["store"].text == "Static analysis: no remark."
    missing = feedback_on("mypy", store=STORE, main=PRICE.replace("import cost", "import prize"))
    assert 'main.py, line 1: attr-defined Module "store.goods" has no' in missing["main"].text


def test_all_authors_read_that_files_break_the_tool() -> None:
    feedback = feedback_on("mypy", store=STORE, main=PRICE + "many = 'a' * 10**10\n")
    texts = {each.text for each in feedback.values()}
    assert texts == {"Static analysis:\n- unchecked program: mypy ended with status 2"}


def test_name_from_another_file_is_undefined_without_an_import() -> None:
    feedback = feedback_on(
        store=STORE, main="# file: main.py\ndef price(name):\n    return cost(name)\n"
    )
    assert "main.py, line 2: F821 Undefined name `cost`" in feedback["main"].text


def test_unparsable_file_is_reported_to_its_author() -> None:
    feedback = feedback_on(store=STORE.replace("len(name)", "len(name"), main=PRICE)
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
    feedback_on(tool, a="".join(f"# file: {name}.py\n{hostile}" for name in names), main=PRICE)
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
    feedback = feedback_on(store="", main=PRICE)
    assert "begin each with a line # file: NAME.py" in feedback["store"].text
    feedback = feedback_on(store=STORE, main="# file: main.py\nx = 1\n")
    assert "`main.py` does not define `price`" in feedback["main"].text


def test_agent_that_wrote_no_file_gets_all_findings() -> None:
    files = {"store": STORE, "main": PRICE.replace("+ 1", "+ one")}
    joint = join_for("files")(files, PROBLEM)
    roles = Roles(contributors=("store", "main"), helpers=("store",), entry="main")
    outcome = Outcome(PROBLEM, ("store", "main", "critic"), files, joint, None, 0, roles=roles)
    feedback = give_feedback(outcome)["critic"]
    assert "main, main.py, line 5: F821 Undefined name `one`" in feedback.text
