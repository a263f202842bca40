"""Python functions and problems in place of names."""

from collections import Counter
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import collab
from collab.errors import RecipeError
from collab.models.fakes import EchoModel
from collab.passed_functions import is_passed_in_python, passed_function, register_function
from collab.plugins import load_function
from collab.recipe import load_recipe
from collab.recipe.in_python import Agent, ObjectConverter, split_keywords
from collab.recipe.names import functions_passed_in_python
from collab.recipe.recipe import SECTIONS, Recipe
from collab.rewards import from_trl
from collab.tasks import open_suite

ROWS = [{"prompt": "Which colour?", "answer": "red"}, {"prompt": "Which town?", "answer": "Rome"}]
TEAM = {"agents": {"a": {"prompt": "{{ task.prompt }}"}}}


alias: Any = None


def right(context: Any) -> float:
    return float(context.problem.hidden["answer"] in context.joint.text)


alias = right  # a second name, which the module lists first


def test_function_from_a_file_is_named_by_its_file() -> None:
    name = register_function(right)
    assert name.endswith("test_objects.py:right")
    assert load_function("reward", name) is right


def long_answers(completions: list[str]) -> list[float]:
    return [float(len(text) > 9) for text in completions]


long_enough = from_trl(long_answers)


def test_wrapped_function_is_named_by_its_name_in_the_file() -> None:
    name = register_function(long_enough)
    assert name.endswith("test_objects.py:long_enough")
    assert is_passed_in_python(register_function(from_trl(long_answers)))


def test_function_without_a_file_is_registered_in_this_process() -> None:
    name = register_function(lambda context: 0.5)
    assert is_passed_in_python(name)
    assert name.endswith(":lambda")
    assert load_function("reward", name)(None) == 0.5


def test_different_functions_with_the_same_name_get_different_names() -> None:
    def scaled(by: float) -> Any:
        def scale(context: Any) -> float:
            return by

        return scale

    names = [
        register_function(scaled(0.25)),
        register_function(scaled(0.75)),
        register_function(scaled(0.25)),
    ]
    assert names[0] == names[2] != names[1]
    assert [load_function("reward", name)(None) for name in names] == [0.25, 0.75, 0.25]


def test_partials_with_different_arguments_get_different_names() -> None:
    names = {register_function(partial(max, n)) for n in (1, 2)}
    assert len(names) == 2
    assert all(name.endswith(":max") for name in names)


def test_functions_that_look_alike_get_different_names() -> None:
    class Judge:
        def __init__(self, points: float) -> None:
            self.points = points

        def __repr__(self) -> str:
            return "Judge()"  # as of two models of one architecture

        def score(self, context: Any) -> float:
            return self.points

    def of(judge: Judge) -> Any:
        return lambda context: judge.points

    low, high = Judge(0.25), Judge(0.75)
    functions = [of(low), of(high), partial(Judge.score, low), partial(Judge.score, high)]
    names = [register_function(function) for function in functions]
    assert len(set(names)) == 4
    assert [load_function("reward", name)(None) for name in names] == [0.25, 0.75, 0.25, 0.75]
    assert [register_function(of(high)), register_function(functions[0])] == [names[1], names[0]]
    assert (
        register_function(low.score)
        == register_function(low.score)
        != register_function(high.score)
    )

    def paying(points: float) -> Any:
        def reward(context: Any) -> float:
            return float(vars(reward)["points"])

        vars(reward)["points"] = points
        return reward

    assert (
        register_function(paying(0.25))
        == register_function(paying(0.25))
        != register_function(paying(0.75))
    )


def test_function_unknown_to_this_process_is_refused_with_the_reason() -> None:
    rewards = {"parts": {"right": {"use": "python.00000000:right"}}}
    with pytest.raises(RecipeError, match=r"passed in Python.*name it FILE\.py:right"):
        load_recipe(TEAM, task=ROWS, rewards=rewards)
    assert passed_function("python.00000000:right") is None


def test_builtin_function_is_refused() -> None:
    with pytest.raises(RecipeError, match="a function of Python itself"):
        load_recipe(TEAM, task=ROWS, rewards=[len])


def test_rows_form_a_suite() -> None:
    recipe = load_recipe(TEAM, task=iter(ROWS), rewards=[right], hidden=["answer"])
    assert recipe.task is not None
    assert (recipe.task.name, recipe.task.kind, recipe.task.hidden) == ("rows", "text", ("answer",))
    assert len(Path(str(recipe.task.source.path)).read_text().splitlines()) == 2


def test_rows_with_tests_form_a_code_suite() -> None:
    rows = [{"prompt": "p", "entry_point": "f", "test": "assert f()"}]
    recipe = load_recipe("coding", task=rows)
    assert recipe.task is not None
    assert recipe.task.reward is not None
    assert recipe.task.kind == "code"
    assert "tests" in recipe.task.reward.parts


@pytest.mark.parametrize(
    ("task", "message"),
    [
        ([], "empty"),
        (["Which colour?"], "row 0 of the task is a str, not a mapping"),
        ([{"prompt": "p"}, {"prompt": {1}}], "row 1 of the task, field 'prompt'"),
        ([{"prompt": float("nan")}], "row 0 of the task, field 'prompt'"),
    ],
)
def test_invalid_rows_are_refused(task: Any, message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        load_recipe(TEAM, task=task, rewards=[right])


def parts_of(rewards: Any) -> dict[str, tuple[str, float]]:
    recipe = load_recipe(TEAM, task=ROWS, rewards=rewards)
    assert recipe.task is not None
    assert recipe.task.reward is not None
    return {
        name: (part.use.rpartition(":")[2], part.weight)
        for name, part in recipe.task.reward.parts.items()
    }


@pytest.mark.parametrize(
    ("rewards", "parts"),
    [
        (right, {"right": ("right", 1.0)}),
        ((right, 2), {"right": ("right", 2.0)}),
        ([right, (right, 0.5)], {"right": ("right", 1.0), "right_2": ("right", 0.5)}),
        ({"use": right, "weight": -1}, {"right": ("right", -1.0)}),
        ({"first": right, "second": (right, 3)}, {"first": ("right", 1), "second": ("right", 3)}),
        ([{"use": "length", "options": {"most": 9}}, right], None),
        ("code", None),
    ],
)
def test_rewards_accept_several_forms(rewards: Any, parts: Mapping[str, Any] | None) -> None:
    if parts is None:
        assert len(parts_of(rewards)) > 1
    else:
        assert parts_of(rewards) == parts


@pytest.mark.parametrize("rewards", [[3], [(right, "much")]])
def test_invalid_rewards_are_refused(rewards: Any) -> None:
    with pytest.raises(RecipeError, match="reward"):
        load_recipe(TEAM, task=ROWS, rewards=rewards)


def test_rewards_of_a_suite_can_be_replaced() -> None:
    recipe = load_recipe("coding", task="humaneval", rewards=[right])
    assert recipe.task is not None
    assert recipe.task.reward is not None
    assert recipe.task.name == "humaneval"
    assert list(recipe.task.reward.parts) == ["right"]


def test_every_setting_for_a_function_accepts_one() -> None:
    async def talk(turn: Any) -> None:
        await turn.act("a")

    def shout(response: str) -> str:
        return response.upper()

    def joined(artifacts: Mapping[str, str], problem: Any) -> str:
        return " ".join(artifacts.values())

    def look_up(word: str) -> str:
        """Define a word."""
        return word

    def tell(outcome: Any, *, often: int = 1) -> str:
        return "no" * often

    recipe = load_recipe(
        {
            "protocol": talk,
            "join": joined,
            "turns": 2,
            "feedback": [tell, {"source": tell, "options": {"often": 2}}],
            "agents": {"a": Agent(prompt="{{ task.prompt }}", parser=shout, tools=[look_up])},
        },
        task=ROWS,
        rewards=[right],
        model={"engine": lambda spec: spec},
        trainer={"algorithm": lambda group: None},
    )
    found = {name.rpartition(":")[2] for name in functions_passed_in_python(recipe)}
    assert found == {"talk", "shout", "joined", "look_up", "tell", "lambda"}


def test_function_as_an_option_value_is_refused() -> None:
    part = {"use": right, "options": {"by": right}}
    with pytest.raises(RecipeError, match=r"options: the function right .*functools\.partial"):
        load_recipe(TEAM, task=ROWS, rewards=[part])


@pytest.mark.parametrize("loaded", [False, True], ids=["named", "as data"])
@pytest.mark.parametrize("suite", ["arxiv-hub", "math-500"])
def test_own_rows_reset_the_ids_format_and_splits_of_a_suite(suite: str, loaded: bool) -> None:
    """The suite's settings for its own ids and rows do not apply to these rows."""
    recipe: Any = {"team": TEAM, "task": suite, "model": "echo"}
    rows = [{**row, "solution": "It is known."} for row in ROWS]
    task = load_recipe(load_recipe(recipe) if loaded else recipe, task=rows).task
    original = load_recipe(recipe).task
    assert task is not None
    assert original is not None
    assert (task.id_field, task.source.adapt, task.splits) == ("task_id", None, {})
    assert (task.reward, task.hidden) == (original.reward, original.hidden)
    assert [p.public["prompt"] for p in open_suite(task).select("")] == [r["prompt"] for r in ROWS]


def test_own_rows_replace_those_of_a_file(here: Path) -> None:
    (here / "rows.jsonl").write_text('{"prompt": "Which river?", "abstract": "The Nile."}\n')
    recipe = {"team": {**TEAM, "suite": "arxiv"}, "task": "rows.jsonl"}
    task = load_recipe(recipe, task=ROWS).task
    assert task is not None
    assert (task.name, task.reward) == ("rows", load_recipe(TEAM, task="arxiv").reward)
    assert [p.public["prompt"] for p in open_suite(task).select("")] == [r["prompt"] for r in ROWS]


@pytest.mark.parametrize(
    ("value", "data"),
    [
        (np.float64(1e-4), 1e-4), (np.float32(0.5), 0.5), (np.int64(3), 3), (np.bool_(True), True),
        (np.array(2), 2), (np.str_("a"), "a"), ([np.int8(1)], [1]), (None, None), (True, True),
    ],
)  # fmt: skip
def test_numpy_scalar_becomes_a_python_number(value: Any, data: Any) -> None:
    found = ObjectConverter().convert(value, "learning_rate")
    assert found == data
    assert type(found) is type(data)
    assert yaml.safe_load(yaml.safe_dump({"it": found})) == {"it": data}


@pytest.mark.parametrize("value", [{1, 2}, b"half", np.array([1.0]), 1j, object()], ids=type)
def test_value_unsupported_by_yaml_is_refused_with_its_key(value: Any) -> None:
    with pytest.raises(RecipeError, match=r"^learning_rate: YAML cannot hold .* of type"):
        ObjectConverter().convert({"trainer": {"learning_rate": value}})


def test_engine_is_passed_by_a_function() -> None:
    engine: Any = EchoModel()
    with pytest.raises(RecipeError, match=r"^model: pass a function that returns the engine"):
        collab.Team({"a": Agent()}, model=engine)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"reward": [right]}, r"task\.reward: must be a name .* \(in Python: rewards=\[\.{3}\]\)"),
        ({"reward": right}, r"unknown reward .* \(in Python: rewards=\[\.{3}\]\)$"),
        ({"id_field": "id"}, r"needs source and reward; .* \(in Python: task='humaneval'\)$"),
        ({"trainer": {"tasks": 12}}, r"trainer\.tasks: .* got 12; write \"12\", quotes included$"),
    ],
)
def test_wrong_keyword_names_the_remedy(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        collab.Team({"a": Agent()}, **keys)


def test_a_key_of_several_sections_needs_its_section() -> None:
    keys = Counter(key for section in SECTIONS.values() for key in section.model_fields)
    shared = {key for key, times in keys.items() if times > 1} - {*Recipe.model_fields}
    assert shared == {"tokens", "seconds"}
    for key in shared:
        keywords: dict[str, Any] = {key: 60}
        with pytest.raises(RecipeError, match=rf"^{key} is a key of .*\['budget\.{key}=60'\]$"):
            load_recipe(TEAM, **keywords)
    with pytest.raises(RecipeError, match=r"budget; write sandbox=.* or budget={'seconds': 60}$"):
        collab.Team({"a": Agent()}, seconds=60)
    _, settings = split_keywords({"tokens": 60}, SECTIONS, top_keys=set(), preferred="trainer")
    assert [*map(str.split, settings)] == [["trainer.tokens=60", "..."]]


def test_agents_passed_as_a_keyword_keep_their_order() -> None:
    agents = {name: Agent(prompt="{{ task.prompt }}") for name in ("writer", "editor")}
    assert [*load_recipe("coding", agents=agents).team.agents] == [*agents]
