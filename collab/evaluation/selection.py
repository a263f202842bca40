"""Chooses one program of k samples by the tests in the prompt, never by the hidden tests.

The chooser keeps the programs that pass the shown tests, or all if none passes. Of these, it keeps
the programs that pass most of a tester's tests, if there is a tester. It then takes the largest
group of programs that return the same values for additional inputs (agreement, as in CodeT, arXiv
2207.10397). The metric is the chance that a random program of the chosen groups is solved.
"""

from __future__ import annotations

import ast
import asyncio
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, product
from typing import Any

from collab.agents import Joint, join_for
from collab.agents.examples import Example, asserted_examples, examples_of, make_test
from collab.agents.joins import preamble
from collab.agents.parsers import docstring
from collab.errors import AgentError, RecipeError
from collab.evaluation.values import ValuesByMetric
from collab.recipe import Recipe
from collab.records import Episode, Problem
from collab.records.episode import solved_flags
from collab.runs import metric_names as names
from collab.runtime.rehearsal import rehearse_team
from collab.runtime.summary import uncounted_models, usage_of
from collab.sandbox import Sandbox, Trial, Verdict
from collab.stats import group_by, mean
from collab.syntax import can_parse, first_line, module_functions, parse, split_lines
from collab.wording import counted, format_option

SHOWN_TESTS_SECONDS = 3.0
"""Wall time for one program's shown tests and additional inputs together."""


@dataclass(frozen=True)
class Selection:
    """Options for choosing one program from several samples."""

    recombine: bool = False
    """Choose from all combinations of the samples' parts as well: agents' artifacts, or, for a
    single agent, the requested function and the rest of the program.
    """
    tester: str = ""
    """Agent that writes tests such as `assert f(1) == 2`. They choose among the programs that pass
    the prompt's tests. In a team without this agent, only the prompt's tests choose."""
    budget: int | None = None
    """New tokens per problem, for an additional choice among the first samples that fit. A problem
    without such a sample counts as not solved."""
    examples: bool = True
    """Choose by the tests in the prompt. If False, nothing is chosen: of all samples within
    `budget`, one solved sample is enough. Such a selection suits any suite."""


@dataclass(frozen=True)
class ShownResults:
    """Results of a program on the shown tests and the additional inputs."""

    passes: bool
    """Every shown test holds."""
    returns: tuple[str, ...]
    """Digest of the value returned, or the error raised, for each additional input."""


async def selection_metrics(
    recipe: Recipe,
    problems: Sequence[Problem],
    groups: Mapping[str, Sequence[Episode]],
    ks: Sequence[int],
    selection: Selection,
) -> ValuesByMetric:
    """Return the metrics `selected@k`, `recombined@k` and `tokens/of_k` of each problem of a team
    that `check_selectable` accepts. Without `examples`, return `pass@N tokens` instead of a choice.

    Args:
        groups: the episodes, by problem.
        ks: numbers of samples to choose from. A problem's samples are split into blocks of k, in
            order, and a metric is the mean over the blocks.

    Raises:
        SandboxError: the sandbox itself failed.
    """
    rows: list[tuple[str, str, dict[str, float]]] = []
    if not selection.examples:
        for problem, tries, (block,) in _split_blocks(problems, groups, (), selection.budget):
            means = {names.TOKENS_OF_TRIES: _new_tokens(block)}
            if solved_flags(groups[problem.address]):
                means[names.PASS_AT] = float(any(episode.solved for episode in block))
            rows.append((problem.address, tries, means))
    else:
        limits = {"seconds": SHOWN_TESTS_SECONDS, "cpu_seconds": SHOWN_TESTS_SECONDS}
        limited = recipe.sandbox.model_copy(update=limits)
        async with Sandbox(limited) as shown, Sandbox(recipe.sandbox) as hidden:
            chooser = Chooser(recipe, selection.tester, shown, hidden)
            for problem, tries, blocks in _split_blocks(problems, groups, ks, selection.budget):
                means = await chooser.block_means(problem, blocks, selection.recombine)
                rows.append((problem.address, tries, means))
    values: ValuesByMetric = defaultdict(dict)
    for address, tries, means in rows:
        for name, value in means.items():
            values[names.fill_pattern(name, tries)][address] = value
    return dict(values)


def check_selectable(recipe: Recipe, selection: Selection, problems: Sequence[Problem]) -> None:
    """Check that programs of a team can be chosen by tests.

    Raises:
        RecipeError: the suite is not of kind `code`, the team has several turns, it chooses an
            answer itself and `selection` recombines answers, or no problem shows a test.
    """
    if not selection.examples:
        if selection.recombine or selection.tester or selection.budget is None:
            raise RecipeError("a Selection with examples=False takes a budget and nothing else")
        return
    if recipe.task is None or recipe.task.kind != "code":
        raise RecipeError(
            f"{format_option('select', 'examples')} needs a suite of kind 'code', with tests in its"
            " prompts"
        )
    if recipe.team.turns > 1:
        raise RecipeError(
            f"{format_option('select', 'examples')} chooses among programs of one turn, but the"
            f" team has {recipe.team.turns}; set team.turns=1"
        )
    if selection.recombine and rehearse_team(recipe).is_chosen:
        raise RecipeError(
            f"{format_option('recombine')} joins parts of several agents, but"
            f" '{recipe.team.protocol}' chooses one agent's answer; leave it out"
        )
    is_tested = bool(selection.tester) and any(
        str(problem.public["entry_point"]).isidentifier() for problem in problems
    )
    if not is_tested and not any(shown_asserts(problem.public) for problem in problems):
        raise RecipeError(
            f"no problem of '{recipe.task.name}' shows a test of its function in the prompt, so"
            f" nothing chooses a sample; leave out {format_option('select')}"
        )


def selection_notes(problems: Sequence[Problem]) -> Iterator[str]:
    """Yield a note if some problems show no test."""
    if silent := sum(not shown_asserts(problem.public) for problem in problems):
        yield (
            f"{silent} of {counted(len(problems), 'problem')} show no test in the prompt; there,"
            " the selection takes any sample with equal chance, or follows the tester"
        )


def _split_blocks(
    problems: Sequence[Problem],
    groups: Mapping[str, Sequence[Episode]],
    ks: Sequence[int],
    budget: int | None,
) -> Iterator[tuple[Problem, str, list[Sequence[Episode]]]]:
    """Yield the blocks of each problem: for each k, and for the budget."""
    for problem in problems:
        finished = [e for e in groups.get(problem.address, ()) if e.failure is None]
        episodes = sorted(finished, key=lambda episode: episode.sample)
        for k in ks:
            if starts := range(0, len(episodes) - k + 1, k):
                yield problem, str(k), [episodes[start : start + k] for start in starts]
        if budget is not None and episodes and not uncounted_models(episodes):
            spent = accumulate(usage_of(episode).new_tokens for episode in episodes)
            affordable = sum(tokens <= budget for tokens in spent)
            yield problem, f"{budget} tokens", [episodes[:affordable]]


def _new_tokens(block: Sequence[Episode]) -> float:
    return float(sum(usage_of(episode).new_tokens for episode in block))


class Chooser:
    """Chooses programs by their tests. A program that several blocks share runs only once."""

    def __init__(self, recipe: Recipe, tester: str, shown: Sandbox, hidden: Sandbox) -> None:
        self._tester, self._shown, self._hidden = tester, shown, hidden
        self._join = join_for(recipe.team.join, recipe.team.roles)
        self._verdicts: dict[tuple[Sandbox, Trial], Verdict] = {}

    async def block_means(
        self, problem: Problem, blocks: Sequence[Sequence[Episode]], recombine: bool
    ) -> dict[str, float]:
        """Return a problem's metrics as means over its blocks. Names have `*` in place of k."""
        tests = [self._tester_examples(problem, block) for block in blocks]

        async def mean_chance(programs: Sequence[Sequence[str]]) -> float:
            pairs = zip(programs, tests, strict=True)
            return mean([await self._solved_chance(problem, *pair) for pair in pairs])

        means = {
            names.SELECTED: await mean_chance([_sampled_programs(block) for block in blocks]),
            names.TOKENS_OF_TRIES: mean([*map(_new_tokens, blocks)]),
        }
        if recombine:
            programs = [self._recombine(problem, block) for block in blocks]
            means[names.RECOMBINED] = await mean_chance(programs)
        return means

    def _tester_examples(self, problem: Problem, block: Sequence[Episode]) -> tuple[Example, ...]:
        """Return the distinct tests that the tester wrote in these episodes."""
        entry_point = str(problem.public["entry_point"])
        texts = [episode.turns[-1].artifacts.get(self._tester, "") for episode in block]
        return tuple(
            dict.fromkeys(e for text in texts for e in asserted_examples(text, entry_point))
        )

    def _recombine(self, problem: Problem, block: Sequence[Episode]) -> list[str]:
        """Return the sampled programs, and those of all other combinations of their parts."""
        programs = _sampled_programs(block)
        parts = [each for episode in block if (each := _parts_to_recombine(episode, problem))]
        agents = list(parts[0]) if parts else []
        for chosen in product(range(len(parts)), repeat=len(agents)):
            if len({*chosen}) < 2:  # sampled
                continue
            artifacts = {a: parts[n][a] for n, a in zip(chosen, agents, strict=True)}
            try:
                joint: Joint = self._join(artifacts, problem)
            except AgentError:
                continue
            programs.append(joint.text)
        return programs

    async def _solved_chance(
        self, problem: Problem, programs: Sequence[str], tests: tuple[Example, ...]
    ) -> float:
        """Return the chance that the chosen program is solved, or 0 if none could be joined."""
        if not programs:
            return 0.0
        results = await asyncio.gather(*(self._run_shown_tests(problem, text) for text in programs))
        passing = [n for n, each in enumerate(results) if each.passes] or [*range(len(programs))]
        if tests:
            test = make_test(tests)
            counts = {
                n: (await self._run(self._shown, problem, programs[n], test)).tests.passed
                for n in passing
            }
            passing = [n for n in passing if counts[n] == max(counts.values())]
        groups = group_by(passing, lambda n: results[n].returns).values()
        limit = max(map(len, groups))
        chosen = [programs[n] for group in groups if len(group) == limit for n in group]
        hidden = str(problem.hidden["test"])
        ends = (self._run(self._hidden, problem, text, hidden) for text in chosen)
        return mean([float(verdict.passed) for verdict in await asyncio.gather(*ends)])

    async def _run_shown_tests(self, problem: Problem, program: str) -> ShownResults:
        asserts, calls = shown_asserts(problem.public), probe_calls(problem.public)
        compared = [f"assert {call} == None" for call in calls]
        lines = ["def check(candidate):", "pass", *asserts, *compared]
        verdict = await self._run(self._shown, problem, program, "\n    ".join(lines) + "\n")
        by_line = {check.line: check for check in verdict.checks}
        checks = [by_line.get(3 + n) for n in range(len(lines) - 2)]
        return ShownResults(
            passes=all(check is not None and check.held for check in checks[: len(asserts)]),
            returns=tuple(
                "" if check is None else str(check.answer or check.error)
                for check in checks[len(asserts) :]
            ),
        )

    async def _run(self, sandbox: Sandbox, problem: Problem, program: str, test: str) -> Verdict:
        prompt, name = str(problem.public["prompt"]), str(problem.public["entry_point"])
        prelude = preamble(prompt, name)
        trial = Trial(program=program, entry_point=name, test=test, prelude=prelude)
        if (sandbox, trial) not in self._verdicts:
            self._verdicts[sandbox, trial] = await sandbox.check(trial)
        return self._verdicts[sandbox, trial]


def _sampled_programs(block: Sequence[Episode]) -> list[str]:
    return [episode.answer for episode in block]


def _parts_to_recombine(episode: Episode, problem: Problem) -> dict[str, str]:
    """Return the parts to recombine: agents' artifacts, or a single agent's two halves."""
    artifacts = episode.turns[-1].contributions
    if len(artifacts) > 1:
        return artifacts
    (text,) = artifacts.values()
    return _split_program(text, str(problem.public["entry_point"]))


def _split_program(program: str, entry_point: str) -> dict[str, str]:
    """Return a program's function `entry_point` and the rest, or {} if it lacks the function."""
    try:
        function = module_functions(parse(program)).get(entry_point)
    except SyntaxError:
        return {}
    if function is None or function.end_lineno is None:
        return {}
    lines = split_lines(program)
    first = first_line(function) - 1
    beside = [*lines[:first], *lines[function.end_lineno :]]
    return {
        "beside": "\n".join(beside),
        "function": "\n".join(lines[first : function.end_lineno]),
    }


MAX_PROBE_CALLS = 12
"""Maximum number of additional inputs per problem."""


def shown_asserts(public: Mapping[str, Any]) -> list[str]:
    """Return the asserts about the function that the prompt shows, and its docstring's examples
    written as asserts."""
    prompt, entry_point = str(public.get("prompt", "")), str(public.get("entry_point", ""))
    asserts_it = re.compile(rf"assert .*\b{re.escape(entry_point.rpartition(' ')[2])}\b")
    lines = [line.strip() for line in docstring(prompt).splitlines()]
    asserts = [line for line in lines if asserts_it.match(line) and can_parse(line)]
    examples = [
        f"assert {example.call} == {example.expected}"
        for example in examples_of(prompt, entry_point)
        if not any(example.call in shown for shown in asserts)
    ]
    return [*asserts, *examples]


def probe_calls(public: Mapping[str, Any]) -> list[str]:
    """Return calls like those that the prompt shows, each with one argument changed.

    No answer is known for these calls: programs are compared by their return values.
    """
    entry_point = str(public.get("entry_point", ""))
    shown = [args for text in shown_asserts(public) for args in _call_arguments(text, entry_point)]
    known = {_call_text(entry_point, args) for args in shown}
    varied = dict.fromkeys(
        _call_text(entry_point, [*args[:place], other, *args[place + 1 :]])
        for args in shown
        for place, value in enumerate(args)
        for other in _vary_value(value)
    )
    return [call for call in varied if call not in known][:MAX_PROBE_CALLS]


def _call_arguments(source: str, entry_point: str) -> Iterator[list[Any]]:
    """Yield the arguments of the calls of `entry_point` whose arguments are literals."""
    for node in ast.walk(parse(source)):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
            continue
        if node.func.id == entry_point and not node.keywords:
            try:
                yield [ast.literal_eval(argument) for argument in node.args]
            except ValueError:
                continue


def _vary_value(value: Any) -> list[Any]:
    """Return other values of the same type."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int | float):
        return [value + 1, value - 1, 2 * value, -value]
    if isinstance(value, str | list | tuple):
        return [value[::-1], value[:-1], 2 * value, value[:0]]
    return []


def _call_text(entry_point: str, arguments: list[Any]) -> str:
    return f"{entry_point}({', '.join(map(repr, arguments))})"
