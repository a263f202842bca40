"""The linters and type checkers behind static feedback: their findings and their processes."""

import asyncio
import errno
import sys
import time
from math import ceil
from pathlib import Path

import pytest
from support.static_findings import AUX, MAIN, OutcomeOf, codes, give_feedback

from collab.errors import FeedbackError
from collab.feedback.static import Static
from collab.feedback.tools import MAX_BATCH, OUTPUT_BYTES, Analyzer, BatchRunner, find_tool
from collab.recipe.feedback import StaticFeedbackSpec
from collab.records import Finding, Problem


def check(runner: BatchRunner, *programs: str) -> list[list[Finding]]:
    async def go() -> list[list[Finding]]:
        try:
            return await asyncio.gather(*map(runner.check, programs))
        finally:
            await runner.aclose()

    return asyncio.run(go())


def test_style_findings_are_omitted(outcome_of: OutcomeOf) -> None:
    main = f"def sum_of_squares(xs):\n    assert xs != 77\n    return aux(xs)  # {'x' * 200}"
    feedback = give_feedback(outcome_of(aux=AUX, main=main))
    assert {finding.source for finding in feedback["main"].findings} == {"ast"}


def test_suppression_comments_are_ignored(outcome_of: OutcomeOf) -> None:
    main = "# ruff: noqa\ndef sum_of_squares(xs):\n    return aux(xz)  # noqa"
    feedback = give_feedback(outcome_of(aux=AUX, main=main))
    assert ("F821", 3) in codes(feedback["main"])


def test_errors_come_first_and_the_rest_is_counted(outcome_of: OutcomeOf) -> None:
    body = "".join(f"    a{n} = 1\n" for n in range(20))
    feedback = give_feedback(
        outcome_of(aux=AUX, main=f"def sum_of_squares(xs):\n{body}    return xz"), limit=3
    )
    assert len(feedback["main"].findings) == 3
    assert feedback["main"].findings[0].code == "F821"
    assert feedback["main"].text.endswith("- and 20 more")


def test_any_team_and_any_function_are_analyzed(outcome_of: OutcomeOf) -> None:
    artifacts = {"first": "def first(x):\n    return x", "second": MAIN.replace("aux", "first")}
    feedback = give_feedback(
        outcome_of(**artifacts, tester="# nothing to define"), functions={"tester": ""}
    )
    assert "`first` is defined" in feedback["first"].text
    assert "your code does not define `second`" in feedback["second"].text
    assert feedback["tester"].text == "Static analysis: no remark."
    feedback = give_feedback(outcome_of(**artifacts), functions={"first": "missing"})
    assert "does not define `missing`" in feedback["first"].text
    assert "`sum_of_squares` is defined" in feedback["second"].text


@pytest.mark.slow
def test_program_that_stops_mypy_does_not_affect_the_others() -> None:
    programs = ["x: int = ''", "break", "y: str = 1"]
    first, second, third = check(BatchRunner(find_tool("mypy")), *programs)
    assert [finding.code for finding in first + third] == ["assignment", "assignment"]
    assert "outside loop" in second[0].message


def test_tools_see_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret-1")
    runner = BatchRunner(Analyzer("ruff", ("sh", "-c", "env >&2; exit 2")))
    with pytest.raises(FeedbackError, match="status 2") as caught:
        check(runner, "x = 1")
    assert "sk-secret-1" not in str(caught.value)


def test_closing_kills_running_tools() -> None:
    async def go() -> None:
        batcher = BatchRunner(Analyzer("ruff", ("sh", "-c", "exec sleep 30")))
        waiting = asyncio.create_task(batcher.check("x = 1"))
        await asyncio.sleep(0.1)
        waiting.cancel()
        await batcher.aclose()

    started = time.perf_counter()
    asyncio.run(go())
    assert time.perf_counter() - started < 5


def test_many_programs_share_few_processes(tmp_path: Path) -> None:
    ruff, calls = find_tool("ruff"), tmp_path / "calls"
    counted = ("sh", "-c", f'echo >> "{calls}"; exec "$0" "$@"', *ruff.command)
    programs = [f"x = undefined_{n}\n" for n in range(200)]
    found = check(BatchRunner(Analyzer("ruff", counted)), *programs)
    assert [f[0].message for f in found] == [f"Undefined name `undefined_{n}`" for n in range(200)]
    assert len(calls.read_text().splitlines()) == ceil(200 / MAX_BATCH)


def test_one_source_serves_several_event_loops(outcome_of: OutcomeOf) -> None:
    source = Static(StaticFeedbackSpec())
    outcome = outcome_of(aux=AUX, main="def sum_of_squares(xs):\n    return xz")
    for _ in range(2):
        assert "F821" in asyncio.run(source.give_feedback(outcome))["main"].text


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("sh", "-c", "echo broken >&2; exit 2"), "ruff ended with status 2: broken"),
        (("no-such-tool",), "ruff failed: FileNotFoundError"),
        (("sh", "-c", "echo '{'"), "ruff failed: JSONDecodeError"),
    ],
)
def test_a_tool_that_fails_is_a_typed_failure(command: tuple[str, ...], message: str) -> None:
    with pytest.raises(FeedbackError, match=message):
        check(BatchRunner(Analyzer("ruff", command)), "x = 1")


def test_a_full_disk_is_no_fault_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty program still fits on a full disk."""

    def write(path: Path, data: bytes) -> int:
        if data:
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        path.touch()
        return 0

    monkeypatch.setattr(Path, "write_bytes", write)
    with pytest.raises(FeedbackError, match="No space left on device"):
        check(BatchRunner(find_tool("ruff")), "x = 1")


def test_all_authors_read_that_a_program_breaks_the_tool(outcome_of: OutcomeOf) -> None:
    outcome = outcome_of(aux=AUX, main=MAIN + "\nmany = 'a' * 10**10\n")
    feedback = give_feedback(outcome, tools=("mypy",))
    assert {each.text for each in feedback.values()} == {
        "Static analysis:\n- unchecked program: mypy ended with status 2"
    }


HANGS = """\
case "$(cat "$0")" in "") exit $STATUS ;; "x = 1") exit 0 ;; esac
echo >> "$CALLS"; exec sleep 30
"""


def hanging_runner(calls: Path, monkeypatch: pytest.MonkeyPatch, status: int) -> BatchRunner:
    """A tool that hangs on most programs, and ends with `status` on an empty one."""
    monkeypatch.setattr("collab.feedback.tools.TOOL_SECONDS", 0.5)
    command = HANGS.replace("$CALLS", str(calls)).replace("$STATUS", str(status))
    return BatchRunner(Analyzer("ruff", ("sh", "-c", command)))


def test_a_program_on_which_the_tool_hangs_gets_a_remark(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runner = hanging_runner(calls := tmp_path / "calls", monkeypatch, 0)
    for _ in range(2):
        [finding] = asyncio.run(runner.check("x = 2"))
        assert finding.message == "program: ruff took longer than 0.5 s"
    assert len(calls.read_text().splitlines()) == 2


def test_a_tool_that_has_worked_is_not_checked_again_after_it_hangs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runner = hanging_runner(tmp_path / "calls", monkeypatch, 2)

    async def go() -> list[Finding]:
        with pytest.raises(FeedbackError, match=r"took longer than 0\.5 s"):
            await runner.check("x = 2")
        assert await runner.check("x = 1") == []
        return await runner.check("x = 2")

    [finding] = asyncio.run(go())
    assert finding.message == "program: ruff took longer than 0.5 s"


GREEDY = """\
import resource, sys, time

while resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY:
    time.sleep(0.01)
try:
    bytes(10**9)
except MemoryError:
    print("MemoryError", file=sys.stderr)
    sys.exit(2)
"""


def test_tool_has_a_memory_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collab.feedback.tools.TOOL_BYTES", 50_000_000)
    with pytest.raises(FeedbackError, match="MemoryError"):
        check(BatchRunner(Analyzer("ruff", (sys.executable, "-c", GREEDY))), "x = 1")


def test_flood_of_remarks_is_cut_and_spares_other_programs() -> None:
    flood = "x = " * 150 + "1\n"  # 5 MB of remarks
    flooded, other = check(BatchRunner(find_tool("ruff")), flood, "y = undefined\n")
    assert {finding.code for finding in flooded} == {"PLW0127", "PLW0128"}
    assert 1000 < len(flooded) < OUTPUT_BYTES / 200
    assert [finding.code for finding in other] == ["F821"]


def test_cut_output_of_a_batch_is_no_result() -> None:
    flood = Analyzer("ruff", ("sh", "-c", f"head -c {OUTPUT_BYTES} /dev/zero; exit 1"))
    with pytest.raises(FeedbackError, match="ruff ended with status"):
        asyncio.run(BatchRunner(flood)._run(["x = 1", "y = 2"]))


def test_mypy_reads_no_installed_package() -> None:
    program = "from pydantic import BaseModel\nx: int = BaseModel()\n"
    assert check(BatchRunner(find_tool("mypy")), program) == [[]]


def test_programs_checked_in_one_batch_are_isolated() -> None:
    """No program can refer to another or learn its own module name."""
    spies = [f"from program_{n} import Secret\nx: int = Secret()\n" for n in ("0", "1", "")]
    shadowing = "class int:\n    pass\n\n\ndef f(x: int) -> None: ...\n\n\nf(3)\n"
    programs = ["class Secret:\n    pass\n", *spies, shadowing]
    hidden, *of_spies, clash = check(BatchRunner(find_tool("mypy")), *programs)
    assert hidden == []
    assert of_spies == [[], [], []]
    assert [finding.message for finding in clash] == [
        'Argument 1 to "f" has incompatible type "builtins.int"; expected "program.int"'
    ]


def test_problem_without_a_prompt_is_analyzed(outcome_of: OutcomeOf) -> None:
    problem = Problem(address="demo/1", public={"entry_point": "f"})
    feedback = give_feedback(outcome_of(problem=problem, main="def f(x):\n    return x"))
    assert feedback["main"].text == "Static analysis:\n- `f` is defined"
