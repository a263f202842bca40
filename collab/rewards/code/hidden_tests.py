"""Reward parts for the behavior of programs: the hidden tests, and tests that agents write."""

from __future__ import annotations

from collab.agents.examples import asserted_examples
from collab.rewards.code.trial import Subject
from collab.rewards.context import Part, RewardContext
from collab.syntax import module_functions, parse


async def tests(context: RewardContext) -> Part:
    """The fraction of the hidden tests that pass. If all pass, the task is solved."""
    verdict = await context.verdict()
    counts = f"{verdict.tests.passed} of {verdict.tests.total} tests pass"
    reason = f"{counts}: {verdict.error}" if verdict.error else counts
    return Part(verdict.tests.fraction, reason, solved=verdict.passed)


async def solved(context: RewardContext) -> Part:
    """All hidden tests pass."""
    verdict = await context.verdict()
    reason = "solved" if verdict.passed else "not solved"
    return Part(float(verdict.passed), reason, solved=verdict.passed)


async def part_tests(
    context: RewardContext, agent: str, function: str = "helper_name", test: str = "helper_test"
) -> Part:
    """The fraction of the tests for an agent's own part that its code passes.

    Args:
        agent: the agent whose code is tested, alone.
        function: the problem's field with the name of the agent's function.
        test: the problem's hidden field with that function's tests. The part does not apply to a
            problem without this field.
    """
    if not context.problem.hidden.get(test):
        return Part(0.0, f"the problem has no '{test}'", applies=False)
    verdict = await context.verdict(context.artifacts[agent], subject=Subject(function, test))
    name, passed, total = context.field(function), verdict.tests.passed, verdict.tests.total
    return Part(verdict.tests.fraction, f"{passed} of {total} tests of '{name}' pass")


async def written_tests(
    context: RewardContext, agent: str, solution: str = "canonical_solution", sharpness: float = 0.5
) -> Part:
    """The quality of an agent's tests: whether they are right, and find a wrong program (Code-A1,
    arXiv 2603.15611).

    The value is the share of tests that a right solution passes, `valid`. If the joint program is
    wrong, the value is `(1 - sharpness) * valid + sharpness * detects`. `detects` is 1 if the
    program fails a test that the solution passes.

    Args:
        agent: the tester. Only its examples of the entry point count, see `asserted_examples`.
        solution: the problem's hidden field with a right solution. The part does not apply to a
            problem without this field.
        sharpness: weight of finding a wrong program, from 0 to 1.
    """
    if not context.problem.hidden.get(solution):
        return Part(0.0, f"the problem has no '{solution}'", applies=False)
    entry_point = context.field("entry_point")
    examples = tuple(asserted_examples(context.artifacts[agent], entry_point))
    if not examples:
        return Part(0.0, f"no test of the form 'assert {entry_point}(1) == 2'")
    subject = Subject(examples=examples)
    right = await context.verdict(_complete_program(context, solution), subject=subject)
    right_lines = {check.line for check in right.checks if check.held}
    valid = len(right_lines) / len(examples)
    counts = f"{len(right_lines)} of {len(examples)} tests are right"
    if (await context.verdict()).passed:
        return Part(valid, counts)
    joint = await context.verdict(subject=subject)
    detects = bool(right_lines - {check.line for check in joint.checks if check.held})
    value = (1 - sharpness) * valid + sharpness * detects
    return Part(value, f"{counts}; they {'find' if detects else 'miss'} the wrong program")


def _complete_program(context: RewardContext, solution: str) -> str:
    """Return a solution as a program: HumanEval's are the bodies of the prompt's function."""
    text = context.field(solution)
    try:
        defined = module_functions(parse(text))
    except SyntaxError:
        defined = {}
    return text if context.field("entry_point") in defined else context.field("prompt") + text


async def gain(context: RewardContext, agent: str) -> Part:
    """The change in hidden tests passed, from one agent's code to the joint program.

    The value is `(1 + after - before) / 2`, where both are the fractions of hidden tests that pass.
    For example, `agent` is the coder in a team of coder and repairer.
    """
    before, after = await context.verdict(context.artifacts[agent]), await context.verdict()
    change = after.tests.fraction - before.tests.fraction
    return Part(
        (1 + change) / 2, f"{before.tests.passed} tests pass before, {after.tests.passed} after"
    )
