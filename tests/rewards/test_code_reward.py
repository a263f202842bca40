"""The shipped rewards for programs, with the real sandbox."""

import itertools
from itertools import product
from typing import Any

import pytest
from support.scoring import Score_
from support.shares import one_row_in
from support.writing import shipped_reward

from collab.recipe import RewardSpec
from collab.recipe.team import Roles
from collab.records import Score

AUX = "def aux(x):\n    return x * x"
MAIN = "def sum_of_squares(xs):\n    return sum(aux(x) for x in xs)"
ALONE = "def sum_of_squares(xs):\n    return sum(x * x for x in xs)"
NEW_ENTRY = "def sum_of_squares(xs):\n    "
OWN = "return sum(x * x for x in xs)"


def values(score: Score) -> dict[str, float]:
    return {part.name: part.value for part in score.parts}


def cooperation(score: Score) -> float:
    return sum(part.points for part in score.parts if part.level == "cooperation")


@pytest.mark.parametrize("name", ["code", "code-correct-first"])
def test_cooperation_that_solves_earns_the_maximum(score: Score_, name: str) -> None:
    result = score(shipped_reward(name), {"aux": AUX, "main": MAIN})
    assert result.reward == pytest.approx(4.0)
    assert result.maximum == pytest.approx(4.0)
    assert result.solved
    assert result.tests is not None
    assert (result.tests.passed, result.tests.total) == (4, 4)
    assert result.failures == ()
    assert result.flags == ()
    assert result.isolation == "sealed"
    assert result.seconds > 0


def test_levels_carry_the_published_weights(score: Score_, published: RewardSpec) -> None:
    result = score(published, {"aux": AUX, "main": MAIN})
    points: dict[str, float] = {}
    for part in result.parts:
        points[part.level] = points.get(part.level, 0.0) + part.points
    assert points == pytest.approx(
        {"structure": 1.0, "syntax": 0.5, "tests": 1.0, "cooperation": 1.5}
    )


def test_every_part_gives_its_reason(score: Score_, published: RewardSpec) -> None:
    result = score(published, {"aux": AUX, "main": MAIN})
    assert all(part.reason for part in result.parts)
    assert "4 of 4 tests" in result.parts[3].reason
    assert "without it 3 of 4 tests are lost" in result.parts[4].reason


def test_scoring_stops_without_main(score: Score_, published: RewardSpec) -> None:
    result = score(published, {"aux": AUX, "main": ""})
    assert result.reward == pytest.approx(0.4)
    assert result.solved is False
    assert result.tests is not None
    assert (result.tests.passed, result.isolation) == (0, "sealed")
    assert "the gate 'entry_defined' is closed" in result.parts[-1].reason


def test_closed_gate_withholds_points_but_not_solved(score: Score_, published: RewardSpec) -> None:
    unusual = "sum_of_squares = lambda xs: sum(x * x for x in xs)"
    result = score(published, {"aux": AUX, "main": unusual})
    assert result.reward == pytest.approx(0.4)
    assert result.solved is True


def test_program_that_does_not_parse_stops_at_syntax(score: Score_, published: RewardSpec) -> None:
    result = score(published, {"aux": "def aux(x:\n    return x", "main": ALONE})
    assert result.reward == pytest.approx(0.6)
    assert values(result)["helper_defined"] == 0.0
    assert "line 1" in result.parts[0].reason
    assert "(line 1 of aux)" in result.parts[2].reason
    assert result.solved is False


def test_wrong_programs_get_the_fraction_of_tests_and_are_explained(
    score: Score_, published: RewardSpec
) -> None:
    result = score(published, {"aux": AUX, "main": NEW_ENTRY + "return 5"})
    assert values(result)["tests"] == 0.25
    assert result.solved is False
    assert len(result.failures) == 3
    assert "expected 9, got 5" in result.failures[0]


def test_forwarding_earns_less_than_own_work(score: Score_, published: RewardSpec) -> None:
    helper = "def aux(xs):\n    return sum(x * x for x in xs)"
    result = score(published, {"aux": helper, "main": NEW_ENTRY + "return aux(xs)"})
    assert result.reward == pytest.approx(3.0)


def test_parts_about_the_helper_do_not_apply_to_a_single_agent(
    score: Score_, published: RewardSpec
) -> None:
    result = score(published, {"main": ALONE})
    assert result.reward == pytest.approx(2.1)
    assert result.maximum == pytest.approx(2.1)
    assert [p.name for p in result.parts if not p.applies] == [
        "helper_defined",
        "calls",
        "not_wrapper",
        "ignores",
    ]


def test_parts_follow_roles_not_agent_names(score: Score_, published: RewardSpec) -> None:
    main = MAIN.replace("aux", "square")
    named = {"square": AUX.replace("aux", "square"), "coder": main, "planner": "- square them"}
    roles = Roles(("square", "coder"), "coder", ("square",))
    result = score(published, named, roles=roles)
    assert result.reward == result.maximum == pytest.approx(4.0)
    assert result.parts[0].reason == "'square' is defined and returns a value"


def test_part_about_several_helpers_earns_their_mean(score: Score_, published: RewardSpec) -> None:
    named = {"one": AUX.replace("aux", "one"), "two": "x = 2", "main": MAIN.replace("aux", "one")}
    result = score(published, named)
    assert result.maximum == pytest.approx(4.0)
    assert values(result)["helper_defined"] == values(result)["calls"] == 0.5
    assert result.parts[0].reason == (
        "one: 'one' is defined and returns a value; two: two does not define 'two'"
    )


CHEATS = {
    "comment": NEW_ENTRY + "# aux(xs)\n    " + OWN,
    "string": NEW_ENTRY + '"aux(xs)"\n    ' + OWN,
    "if False": NEW_ENTRY + "if False: aux(1)\n    " + OWN,
    "if not 1": NEW_ENTRY + "if not 1: aux(1)\n    " + OWN,
    "unused": NEW_ENTRY + "aux(1)\n    " + OWN,
    "unused variable": NEW_ENTRY + "y = aux(1)\n    z = y\n    " + OWN,
    "shadow": NEW_ENTRY + "aux = lambda x: x * x\n    return sum(aux(x) for x in xs)",
    "shadow def": NEW_ENTRY + "def aux(x): return x * x\n    return sum(aux(x) for x in xs)",
    "redefined": "def aux(x):\n    return x * x\n\n" + MAIN,
    "redefined in globals": "globals()['aux'] = lambda x: x * x\n\n" + MAIN,
    "redefined by exec": "exec('def aux(x): return x * x')\n\n" + MAIN,
    "overwritten": NEW_ENTRY + "y = aux(1)\n    y = sum(x * x for x in xs)\n    return y",
    "tested for nothing": NEW_ENTRY + "if aux(1): pass\n    " + OWN,
    "times zero": NEW_ENTRY + "return sum(x * x for x in xs) + 0 * len(str(aux(1)))",
    "second of a pair": NEW_ENTRY + "return (aux(1), sum(x * x for x in xs))[1]",
    "either way": NEW_ENTRY + "if aux(1):\n        " + OWN + "\n    else:\n        " + OWN,
    "swallowed": NEW_ENTRY + "try: aux(1) + aux(2)\n    except Exception: pass\n    " + OWN,
    "opaque condition": NEW_ENTRY + "if len(str(xs)) < 0:\n        return aux(xs)\n    " + OWN,
    "asked whether it is there": NEW_ENTRY + "if aux(1) is None: return None\n    " + OWN,
    "asked for its type": NEW_ENTRY + "assert isinstance(aux(1), int)\n    " + OWN,
    "asked for its truth": NEW_ENTRY + "return aux(1) and sum(x * x for x in xs)",
    "times zero, as a number": NEW_ENTRY + "return sum(x * x for x in xs) + 0 * aux(1)",
    "less itself": NEW_ENTRY + "y = aux(1)\n    return sum(x * x for x in xs) + y - y",
    "key of no importance": NEW_ENTRY + "return sum(x * x for x in sorted(xs, key=aux))",
    "way out": NEW_ENTRY + ("try: return sum(aux(x) for x in xs)\n    except TypeError: " + OWN),
}


@pytest.mark.parametrize(
    ("cheat", "reward"), one_row_in(5, product(CHEATS, ["code", "code-correct-first"]))
)
def test_cheats_earn_no_cooperation_points(score: Score_, cheat: str, reward: str) -> None:
    result = score(shipped_reward(reward), {"aux": AUX, "main": CHEATS[cheat]})
    assert result.solved, result.failures
    assert cooperation(result) <= 0.0, [part.reason for part in result.parts]


def test_boolean_helper_that_is_always_true_earns_nothing(
    score: Score_, published: RewardSpec
) -> None:
    guard = NEW_ENTRY + "if not aux(xs): return None\n    " + OWN
    result = score(published, {"aux": "def aux(xs):\n    return xs is not None", "main": guard})
    assert result.solved
    assert cooperation(result) == 0.0
    assert "other values of it lose no test" in result.parts[4].reason


HELPERS = {
    "predicate": ("return x < 0", "return sum(-x * abs(x) if aux(x) else x * abs(x) for x in xs)"),
    "recursion": ("return 0 if not x else x[0] ** 2 + aux(x[1:])", "return aux(list(xs)) * 1"),
    "generator": ("yield from (y * y for y in x)", "return sum(aux(xs))"),
    "optional": ("return [y * y for y in x] or None", "return sum(aux(xs) or [])"),
    "factory": ("return lambda y: y ** x", "return sum(map(aux(2), xs))"),
    "dictionary": ("return {y: y * y for y in x}", "d = aux(xs)\n    return sum(d[x] for x in xs)"),
    "text": ("return str(x * x)", "return sum(int(aux(x)) for x in xs)"),
    "pairs": ("return [(y, y) for y in x]", "return sum(a * b for a, b in aux(xs))"),
}


@pytest.mark.parametrize("case", HELPERS)
def test_honest_helpers_of_every_type_earn_the_points(
    score: Score_, published: RewardSpec, case: str
) -> None:
    helper, main = HELPERS[case]
    result = score(published, {"aux": "def aux(x):\n    " + helper, "main": NEW_ENTRY + main})
    assert result.reward == pytest.approx(4.0), result.parts


def test_dropping_the_value_costs_points(score: Score_, published: RewardSpec) -> None:
    result = score(published, {"aux": AUX, "main": CHEATS["unused"]})
    assert cooperation(result) == -0.5


def test_replacing_aux_keeps_its_helpers_and_imports(score: Score_, published: RewardSpec) -> None:
    square = "import math\nLIMIT = 10\ndef square(x):\n    return math.prod([x, x])\n"
    aux = square + "def aux(x):\n    return x"
    main = NEW_ENTRY + "return sum(square(x) * LIMIT for x in xs) // 10 + 0 * len(str(aux(0)))"
    result = score(published, {"aux": aux, "main": main})
    assert result.solved
    assert values(result)["calls"] == 0.0
    assert "contributed nothing" in result.parts[4].reason


def test_second_replacement_detects_use_behind_a_fallback(
    score: Score_, published: RewardSpec
) -> None:
    guarded = NEW_ENTRY + (
        "ys = [aux(x) for x in xs]\n"
        "    ys = [x * x if y is None else y for x, y in zip(xs, ys)]\n"
        "    return sum(ys)"
    )
    assert values(score(published, {"aux": AUX, "main": guarded}))["calls"] == 1.0


def test_cooperation_requires_a_passing_test(score: Score_, published: RewardSpec) -> None:
    result = score(published, {"aux": AUX, "main": NEW_ENTRY + "return aux(xs) + 1"})
    assert values(result)["tests"] == 0.0
    assert cooperation(result) == 0.0
    assert "requires 'tests'" in result.parts[4].reason


def test_suspicious_programs_are_flagged(score: Score_, published: RewardSpec) -> None:
    result = score(
        published, {"aux": AUX, "main": "import os\n" + NEW_ENTRY + "return os._exit(0)"}
    )
    assert result.solved is False
    assert "worker_died" in result.flags


def test_a_replacement_leaves_no_flags(score: Score_, published: RewardSpec) -> None:
    helper = "def aux(xs):\n    return sum(x * x for x in xs)"
    guarded = NEW_ENTRY + "y = aux(xs)\n    return sum(x * x for x in xs) if y is None else y"
    result = score(published, {"aux": helper, "main": guarded})
    assert values(result)["calls"] == 1.0  # detected by the treatment that returns a foreign object
    assert result.flags == ()


@pytest.fixture
def correct_first() -> RewardSpec:
    return shipped_reward("code-correct-first")


def _all_scores(spec: RewardSpec) -> list[tuple[bool, float]]:
    """List all combinations of part values that the gates allow, as solved and total points."""
    scores = []
    names = list(spec.parts)
    choices: dict[str, tuple[float, ...]] = dict.fromkeys(names, (0.0, 1.0))
    choices["tests"] = (0.0, 0.25, 0.999, 1.0)
    for combination in itertools.product(*(choices[name] for name in names)):
        raw = dict(zip(names, combination, strict=True))
        if raw["solved"] and raw["tests"] < 1.0:
            continue
        done: dict[str, float] = {}
        closed = False
        for name, part in spec.parts.items():
            unmet = part.requires is not None and not done[part.requires]
            done[name] = 0.0 if closed or unmet else raw[name]
            closed = closed or (part.gate and not done[name])
        total = sum(part.weight * done[name] for name, part in spec.parts.items())
        scores.append((bool(done["solved"]), total))
    return scores


def test_every_correct_program_outranks_every_wrong_one(correct_first: RewardSpec) -> None:
    scores = _all_scores(correct_first)
    worst_correct = min(total for solved, total in scores if solved)
    best_wrong = max(total for solved, total in scores if not solved)
    assert worst_correct > best_wrong


def test_correct_without_aux_outranks_wrong_with_every_bonus(
    score: Score_, correct_first: RewardSpec, published: RewardSpec
) -> None:
    wrong = {"aux": AUX, "main": NEW_ENTRY + "return sum(aux(x) for x in xs) if xs != [3] else 1"}
    correct = {"aux": "", "main": ALONE}
    assert score(correct_first, correct).reward > score(correct_first, wrong).reward
    assert score(published, correct).reward < score(published, wrong).reward


def test_rewards_increase_gradually_before_correctness(
    score: Score_, correct_first: RewardSpec
) -> None:
    ladder: list[dict[str, Any]] = [
        {"aux": "", "main": ""},
        {"aux": AUX, "main": ""},
        {"aux": AUX, "main": NEW_ENTRY + "return -1"},
        {"aux": AUX, "main": NEW_ENTRY + "return 5"},
        {"aux": AUX, "main": NEW_ENTRY + "return sum(aux(x) for x in xs[:1])"},
        {"aux": "", "main": ALONE},
        {"aux": AUX, "main": MAIN},
    ]
    rewards = [score(correct_first, artifacts).reward for artifacts in ladder]
    assert rewards == sorted(set(rewards)), rewards
