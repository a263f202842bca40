"""Custom algorithms: options, state, weights per token, and requests for more scores."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.algorithm_runs import check_resume, run, saved_in
from support.games import make_match
from support.trainer_recipes import make_game

from collab.errors import RecipeError, TrainingError
from collab.recipe import Recipe, load_recipe
from collab.trainers import TrainingRun

OWN = '''
from collab.trainers.credit import compare


class RoleAverage:
    """RAE (arXiv 2506.24119): each agent against an average of its own returns so far."""

    def __init__(self, *, decay: float = 0.9):
        self.decay, self.averages = decay, {}

    async def credit(self, groups):
        found = []
        for group in groups:
            weights = {}
            for node in group.returns:
                for agent, value in group.returns[node].items():
                    old = self.averages.get(agent, value)
                    self.averages[agent] = self.decay * old + (1 - self.decay) * value
                    weights[(*node, agent)] = value - self.averages[agent]
            found.append(weights)
        return found

    def state(self):
        return {"averages": dict(self.averages)}

    def restore(self, state):
        self.averages = dict(state["averages"])


class Teammates:
    """A response against what it earns with the other episodes' teammates."""

    async def credit(self, groups):
        found = []
        for group in groups:
            weights = {}
            for nodes in group.baselines_over:
                for agent in group.agents:
                    swaps = [{agent: n} for n in range(len(nodes))]
                    rewards = await group.score(nodes, swaps)
                    values = [reward[agent] for reward in rewards]
                    for node, value in zip(nodes, values, strict=True):
                        weights[(*node, agent)] = value - sum(values) / len(values)
            found.append(weights)
        return found

    def state(self):
        return {}

    def restore(self, state):
        pass


def scaled(group, *, factor: float = 1.0):
    return {
        key: factor * weight
        for key, weight in compare(group, lambda r: [v - sum(r) / len(r) for v in r]).items()
    }


def by_token(group, *, last: float = 1.0, short: bool = False):
    weights = {}
    for (episode, turn, agent), weight in scaled(group).items():
        decisions = group.episodes[episode].turns[turn].decisions
        n = sum(len(d.action.token_ids) for d in decisions if d.agent == agent)
        weights[episode, turn, agent] = [weight] * (n - 1 - short) + [weight * last]
    return weights


class Unfinished:
    async def credit(self, groups):
        return []
'''


@pytest.fixture
def algorithm_file(tmp_path: Path) -> str:
    (tmp_path / "own.py").write_text(OWN)
    return str(tmp_path / "own.py")


def recipe_of(model: Path, folder: Path, algorithm: Any, **trainer: Any) -> Recipe:
    return make_game(model, folder, algorithm=algorithm, steps=2, **trainer)


def norms(rows: list[dict[str, Any]]) -> list[float]:
    return [row["gradient_norm/a"] for row in rows]


def test_options_reach_the_function_and_constant_token_weights_are_equal(
    tiny_words: Path, tmp_path: Path, algorithm_file: str
) -> None:
    def norms_of(function: str, steps: int = 1, **options: float) -> list[float]:
        algorithm = {"use": function, "options": options}
        recipe = make_game(tiny_words, tmp_path, algorithm=algorithm, steps=steps)
        return norms(run(recipe, tmp_path / f"{function.rpartition(':')[2]}-{options}"))

    plain = norms_of("magrpo", steps=2)
    assert norms_of(f"{algorithm_file}:scaled", factor=1.0) == pytest.approx(plain[:1])
    assert norms_of(f"{algorithm_file}:scaled", factor=2.0) == pytest.approx([2 * plain[0]])
    assert norms_of(f"{algorithm_file}:by_token", steps=2) == pytest.approx(plain)
    assert norms_of(f"{algorithm_file}:by_token", last=0.0) != pytest.approx(plain[:1])


def test_state_survives_a_resume_bit_by_bit(tiny_words: Path, tmp_path: Path) -> None:
    """The state holds types that are related to those of JSON."""
    own = OWN.replace("self.averages = decay, {}", "self.averages = decay, defaultdict(np.float64)")
    own = own.replace('{"averages": dict(self.averages)}', '{"averages": self.averages}')
    imports = "from collections import defaultdict\nimport numpy as np\n"
    (tmp_path / "own.py").write_text(imports + own)
    check_resume(f"{tmp_path / 'own.py'}:RoleAverage", tiny_words, tmp_path)
    assert set(saved_in(tmp_path / "part")["algorithm"]["averages"]) == {"a", "b"}


def test_state_of_another_type_is_refused_before_a_step(tiny_words: Path, tmp_path: Path) -> None:
    own = OWN.replace("return {}", 'return {"mean": np.zeros(2)}')
    (tmp_path / "own.py").write_text(f"import numpy as np\n{own}")
    recipe = recipe_of(tiny_words, tmp_path, f"{tmp_path / 'own.py'}:Teammates")
    with pytest.raises(TrainingError, match=r"cannot keep 'mean' of .* type ndarray"):
        asyncio.run(TrainingRun(recipe, tmp_path / "run").run())
    assert not (tmp_path / "run/metrics.jsonl").read_text()


def test_measures_may_be_numbers_of_numpy(tiny_words: Path, tmp_path: Path) -> None:
    def train(value: str) -> list[dict[str, Any]]:
        own = OWN.replace(
            "    def state", f"    def measures(self):\n        {value}\n\n    def state"
        )
        (tmp_path / "own.py").write_text(f"import numpy as np\n{own}")
        recipe = recipe_of(tiny_words, tmp_path, f"{tmp_path / 'own.py'}:RoleAverage")
        return run(recipe, tmp_path / "run")

    with pytest.raises(TrainingError, match="could not convert string to float: 'high'"):
        train("return {'mine': 'high'}")
    assert [row["mine"] for row in train("return {'mine': np.float32(0.5)}")] == [0.5, 0.5]


def test_more_actions_can_be_scored(tiny_words: Path, tmp_path: Path, algorithm_file: str) -> None:
    rows = run(recipe_of(tiny_words, tmp_path, f"{algorithm_file}:Teammates"), tmp_path / "run")
    assert len(rows) == 2
    assert any(norm > 0 for norm in norms(rows))


@pytest.mark.parametrize(
    ("algorithm", "message"),
    [
        ({"use": "FILE:scaled", "options": {"facto": 2}}, "did you mean 'factor'"),
        ({"use": "FILE:RoleAverage", "options": {"decay": "much"}}, "decay"),
        ({"use": "FILE:Unfinished"}, "credit, state, restore"),
        ({"use": "magrpo", "options": {"x": 1}}, "unknown option"),
    ],
)
def test_invalid_custom_algorithm_is_refused(
    tiny_words: Path, tmp_path: Path, algorithm_file: str, algorithm: dict[str, Any], message: str
) -> None:
    algorithm = {**algorithm, "use": algorithm["use"].replace("FILE", algorithm_file)}
    with pytest.raises(RecipeError, match=message):
        TrainingRun(recipe_of(tiny_words, tmp_path, algorithm), tmp_path / "run")


def test_too_few_token_weights_are_refused(
    tiny_words: Path, tmp_path: Path, algorithm_file: str
) -> None:
    algorithm = {"use": f"{algorithm_file}:by_token", "options": {"short": True}}
    with pytest.raises(TrainingError, match=r"weights for \d+ tokens"):
        run(recipe_of(tiny_words, tmp_path, algorithm), tmp_path / "run")


def test_weights_by_token_cannot_be_normalized(
    tiny_words: Path, tmp_path: Path, algorithm_file: str
) -> None:
    recipe = recipe_of(tiny_words, tmp_path, f"{algorithm_file}:by_token", normalize="group")
    with pytest.raises(TrainingError, match=r"set trainer\.normalize to 'none'"):
        run(recipe, tmp_path / "run")


def test_rescoring_a_game_of_several_turns_is_refused(
    tiny_words: Path, here: Path, algorithm_file: str
) -> None:
    """The algorithm is refused even if only `credit` asks for scores."""
    make_match(here)
    recipe = load_recipe(
        "pair",
        task="match",
        model={"name": str(tiny_words), "dtype": "float32", "device": "cpu"},
        sampling={"max_new_tokens": 3},
        trainer={"steps": 1, "group_size": 2, "algorithm": f"{algorithm_file}:Teammates"},
    )
    with pytest.raises(RecipeError, match="an environment of 2 turns depends on earlier turns"):
        run(recipe, here / "run")
