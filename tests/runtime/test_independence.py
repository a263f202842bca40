"""Dependencies between the responses of a turn."""

import pytest

from collab.runtime.independence import Act, find_dependence

ACTS: dict[str, tuple[list[Act], dict[str, str], dict[str, str]]] = {
    # acts, descendants, ancestors
    "parallel": ([("a", 0, ()), ("b", 0, ())], {"a": "", "b": ""}, {"a": "", "b": ""}),
    "sequential": ([("a", 0, ()), ("b", 1, ("a",))], {"a": "b", "b": ""}, {"a": "", "b": "a"}),
    "through another": (
        [("a", 0, ()), ("b", 1, ("a",)), ("c", 2, ("b",))],
        {"a": "bc", "b": "c", "c": ""},
        {"c": "ab"},
    ),
    "one apart": (
        [("a", 0, ()), ("c", 0, ()), ("b", 1, ("a",))],
        {"a": "b", "b": "", "c": ""},
        {"c": ""},
    ),
    "discussion": (
        [("a", 0, ()), ("b", 0, ()), ("a", 1, ("b",)), ("b", 1, ("a",))],
        {"a": "b", "b": "a"},
        {"a": "b", "b": "a"},
    ),
    "alone twice": ([("a", 0, ()), ("a", 0, ()), ("b", 0, ())], {"a": "", "b": ""}, {"a": ""}),
    "nobody sees the last answer": (
        [("a", 0, ()), ("b", 1, ("a",)), ("a", 2, ("b",))],
        {"a": "b", "b": "a"},
        {"b": "a"},
    ),
}


@pytest.mark.parametrize("name", ACTS)
def test_dependence_of_responses(name: str) -> None:
    acts, descendants, ancestors = ACTS[name]
    found = find_dependence(acts)
    assert {a: "".join(sorted(found.descendants(a))) for a in descendants} == descendants
    assert {a: "".join(sorted(found.ancestors(a))) for a in ancestors} == ancestors


def test_agent_is_alone_only_relative_to_the_team() -> None:
    found = find_dependence([("a", 0, ()), ("b", 1, ("a",)), ("c", 0, ())])
    assert [found.is_alone(agent, "abc") for agent in "abc"] == [False, False, True]
    assert found.is_alone("a", "ac"), "agents that do not contribute do not count"


def test_agents_that_saw_one_answer_are_not_alone() -> None:
    found = find_dependence([("a", 0, ()), ("b", 1, ("a",)), ("c", 1, ("a",)), ("d", 1, ())])
    assert [found.is_alone(agent, "bcd") for agent in "bcd"] == [False, False, True]
