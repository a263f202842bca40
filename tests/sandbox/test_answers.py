"""Digests of program answers: equal values have equal digests at any depth or order."""

import asyncio
import json
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collab.recipe.sandbox import SandboxSpec
from collab.sandbox import Sandbox, Trial
from collab.sandbox.jail import codec
from collab.sandbox.jail.answers import Answers, _canonical

DEEPEST = 200
LIFTS: dict[str, Callable[[object], object]] = {
    "dict": lambda x: {0: x},
    "frozenset": lambda x: frozenset({x}),
    "tuple of dict": lambda x: ({"a": x},),
    "list of dict of tuple": lambda x: [{"a": (x, "b")}],
}


def nested(lift: Callable[[object], object], depth: int, value: object) -> object:
    """Wrap `value` in as many `lift`s as a limit of `depth` allows."""
    while True:
        lifted = lift(value)
        try:
            codec.encode(lifted, depth)
        except codec.TooDeep:
            return value
        value = lifted


def digest(*values: object, depth: int = DEEPEST) -> str | None:
    answers = Answers()
    for value in values:
        answers.note({"value": codec.encode(value, depth)})
    return answers.next_digest()


@pytest.mark.parametrize("depth", [60, DEEPEST])
@pytest.mark.parametrize("name", LIFTS)
def test_deeply_nested_values_differ_if_their_innermost_does(name: str, depth: int) -> None:
    one, two = (digest(nested(LIFTS[name], depth, n)) for n in (1, 2))
    assert one == digest(nested(LIFTS[name], depth, 1)) != two


@pytest.mark.parametrize("name", LIFTS)
def test_canonical_text_is_bounded_by_the_size_of_the_answer(name: str) -> None:
    for depth in (4, 16, 60):
        tree = codec.encode(nested(LIFTS[name], depth, "\\"), depth)
        assert len(_canonical(tree)) <= 10 * len(json.dumps(tree)) + 100


keys = st.integers(0, 9) | st.text('ab\\"', max_size=3) | st.tuples(st.integers(0, 3))


@given(st.lists(st.tuples(keys, st.dictionaries(keys, keys)), unique_by=lambda pair: pair[0]))
def test_digest_ignores_only_order(pairs: Sequence[tuple[object, dict[object, object]]]) -> None:
    back = {key: dict(reversed(inner.items())) for key, inner in reversed(pairs)}
    assert digest(dict(pairs)) == digest(back)
    assert digest(dict(pairs)) != digest({**dict(pairs), "one more": 0})
    assert digest({key for key, _ in pairs}) == digest(set(back)) != digest(frozenset(back))
    assert digest([0, 1]) != digest([1, 0])


@pytest.mark.parametrize("lift", ["{0: x}", "frozenset({x})", "[{'a': (x, 'b')}]"])
def test_correct_program_passes_with_deeply_nested_answers(lift: str) -> None:
    depth = 60 // (3 if lift.startswith("[") else 1)
    body = f"    x = 0\n    for _ in range(n): x = {lift}\n    return x\n"
    trial = Trial(
        program=f"def f(n):\n{body}",
        entry_point="f",
        prelude=f"def ref(n):\n{body}",
        test=f"def check(candidate):\n    assert candidate({depth}) == ref({depth})\n",
    )

    async def main() -> bool:
        async with Sandbox(SandboxSpec(workers=1)) as sandbox:
            return (await sandbox.check(trial)).passed

    assert asyncio.run(main())


EXCEPTIONS = {
    "class Bad(ValueError): pass": ("Bad('no')", "ValueError", "Bad"),
    "import statistics": ("statistics.StatisticsError('no')", "ValueError", "StatisticsError"),
    "import json": ("json.JSONDecodeError('no', '', 0)", "ValueError", "JSONDecodeError"),
    "class Own(Exception): pass": ("Own('no')", "Exception", "Own"),
    "x = 0": ("OSError('no')", "OSError", "OSError"),
}


@pytest.mark.parametrize("before", EXCEPTIONS)
def test_handler_of_a_base_class_catches_a_programs_exception(before: str) -> None:
    error, base, name = EXCEPTIONS[before]
    trial = Trial(
        program=f"{before}\ndef f(n):\n    raise {error}\n",
        entry_point="f",
        test=(
            "def check(candidate):\n    try:\n        candidate(1)\n"
            f"    except {base} as e:\n        assert type(e).__name__ == {name!r}\n"
        ),
    )

    async def main() -> bool:
        async with Sandbox(SandboxSpec(workers=1)) as sandbox:
            return (await sandbox.check(trial)).passed

    assert asyncio.run(main())
