"""Credit per step: computed while others play, measured, and checked before any work."""

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.episodes import make_episode, make_score, make_turn
from support.trainer_recipes import make_game, steps_of

from collab.errors import RecipeError, TrainingError
from collab.recipe import Recipe, TrainerSpec
from collab.recipe.base import Component
from collab.records import Action, Decision, Episode, Message, Problem, Sampling, Score, Turn
from collab.trainers.credit import Algorithm, Group, Weights, algorithm_for
from collab.trainers.credit.shape import Shape
from collab.trainers.credit.step_credit import StepCredit
from collab.trainers.learner.samples import make_samples
from collab.trainers.training.check import check_recipe
from collab.trainers.training.run import TrainingRun

PROBLEM = Problem(address="t/1", public={})


class Silent(Algorithm):
    """Gives two tokens' weights to an agent that did not act."""

    async def credit(self, groups: Sequence[Group]) -> list[Weights]:
        return [{(0, 0, "other"): [1.0, 2.0]} for _ in groups]


class Asking(Algorithm):
    """Scores all pairs of two agents' answers and records the calls it gets."""

    def __init__(self) -> None:
        self.done: list[str] = []

    async def prepare(self, group: Group) -> None:
        self.done.append("begun")
        await self._score(group)
        self.done.append("prepared")

    async def credit(self, groups: Sequence[Group]) -> list[Weights]:
        self.done.append("credit")
        for group in groups:
            await self._score(group)
        return [{(0, 0, "a"): 1.0} for _ in groups]

    def measures(self) -> Mapping[str, float]:
        return {"credit/a/share": 0.25}

    def check(self, recipe: Recipe, spec: TrainerSpec) -> None:
        if spec.group_size == 3:
            raise RecipeError("not 3; set group_size to 4")

    async def _score(self, group: Group) -> None:
        places = [(g, 0) for g in range(len(group.episodes))]
        numbers = range(len(places))
        await group.score(places, [{"a": g, "b": h} for g in numbers for h in numbers])

    def state(self) -> Mapping[str, Any]:
        return {}

    def restore(self, state: Mapping[str, Any]) -> None:
        pass


class Broken(Asking):
    async def prepare(self, group: Group) -> None:
        raise ValueError("no idea")


def episode(sample: int, a: str, b: str) -> Episode:
    decisions = tuple(
        Decision(
            agent=agent, observation=(Message(role="user", content="?"),), action=Action(text=text)
        )
        for agent, text in (("a", a), ("b", b))
    )
    turn = Turn(
        index=0, decisions=decisions, artifacts={"a": a, "b": b}, joint=a + b,
        score=Score(reward=float(len(a + b)), maximum=9.0),
    )  # fmt: skip
    return Episode(id=f"t#{sample}", task="t/1", team="x", sample=sample, turns=(turn,))


def begin(algorithm: Algorithm, judged: list[Mapping[str, str]]) -> StepCredit:
    async def judge(problem: Problem, artifacts: Mapping[str, str]) -> Score:
        judged.append(artifacts)
        await asyncio.sleep(0.01)
        return Score(reward=float(len("".join(artifacts.values()))), maximum=9.0)

    spec = TrainerSpec(algorithm=Component(use="mine"), group_size=3)
    shape = Shape("chains", 3, 1)
    return StepCredit(judge, agents=("a", "b"), spec=spec, shape=shape, algorithm=algorithm)


EPISODES = [episode(0, "x", "y"), episode(1, "x", "yy"), episode(2, "xxx", "y")]


def test_group_is_scored_while_other_groups_are_sampled() -> None:
    algorithm, judged = Asking(), list[Mapping[str, str]]()

    async def step() -> None:
        credit = begin(algorithm, judged)
        credit.prepare(PROBLEM, EPISODES)
        while "prepared" not in algorithm.done:
            await asyncio.sleep(0.01)  # samples other groups
        algorithm.done.append("sampled")
        found = await credit.credit([(PROBLEM, EPISODES)])
        assert found.measures["credit/a/share"] == 0.25
        assert found.measures["joint_actions/scored"] == 1
        assert found.measures["joint_actions/seconds"] >= 0.01
        assert found.measures["joint_actions/waited"] == 0.0
        assert [dict(weights) for weights in found.weights] == [{(0, 0, "a"): 1.0}]
        await credit.aclose()

    asyncio.run(step())
    assert algorithm.done == ["begun", "prepared", "sampled", "credit"]


def weigh(episodes: Sequence[Episode], turns: int, mode: str) -> Weights:
    """Return the weights of one group of a team of `aux` and `main`."""
    group_size = len(episodes)
    spec = TrainerSpec.model_validate({"group_size": group_size, "normalize": mode})
    credit = StepCredit(
        None,  # type: ignore[arg-type]
        agents=("aux", "main"),
        spec=spec,
        shape=Shape("chains", group_size, turns),
        algorithm=algorithm_for(spec.algorithm),
    )
    [weights] = asyncio.run(credit.credit([(PROBLEM, episodes)])).weights
    return weights


@pytest.mark.parametrize("mode", ["agent", "step"])
def test_only_turns_in_which_an_agent_acts_count_for_its_deviation(mode: str) -> None:
    """Both act in turns of their own; returns differ more in the first."""

    def taking_turns(sample: int, first: float, second: float) -> Episode:
        turns = (
            make_turn(make_score(reward), index=n).model_copy(
                update={"decisions": make_turn().decisions[n : n + 1]}
            )
            for n, reward in enumerate((first, second))
        )
        return make_episode("t/1", sample).model_copy(update={"turns": tuple(turns)})

    rewards = [(0.0, 0.0), (4.0, 1.0), (0.0, 1.0)]
    weights = weigh([taking_turns(n, *pair) for n, pair in enumerate(rewards)], 2, mode)
    for turn, agent in enumerate(("aux", "main")):
        assert np.std([weights[n, turn, agent] for n in range(3)]) == pytest.approx(1)


def test_group_is_normalized_by_all_joint_actions_that_it_compares() -> None:
    """`main` acts only in episodes that fail; those of `aux` alone enter its baseline too."""

    def played(sample: int, reward: float) -> Episode:
        turn = make_turn(make_score(reward))
        decisions = turn.decisions[: 1 if reward else 2]
        turns = (turn.model_copy(update={"decisions": decisions}),)
        return make_episode("t/1", sample).model_copy(update={"turns": turns})

    episodes = [played(n, reward) for n, reward in enumerate([0.0, 4.0, 4.0, 0.0])]
    weights = weigh(episodes, 1, "group")
    assert [weights[n, 0, "aux"] for n in range(4)] == [-1.0, 1.0, 1.0, -1.0]
    assert [weights[n, 0, "main"] for n in (0, 3)] == [-1.0, -1.0]


def test_tokens_of_an_agent_that_did_not_act_are_refused() -> None:
    credit = StepCredit(
        None,  # type: ignore[arg-type]
        agents=("aux", "other"),
        spec=TrainerSpec(),
        shape=Shape("chains", 2, 1),
        algorithm=Silent(),
    )
    episodes = [make_episode("t/1", n, make_score()) for n in range(2)]
    weights = asyncio.run(credit.credit([(PROBLEM, episodes)]))
    with pytest.raises(TrainingError, match="2 weights for 0 tokens of agent 'other'"):
        make_samples(weights, {"aux": Sampling(), "other": Sampling()}, TrainerSpec())


def test_played_joint_actions_are_not_scored_again() -> None:
    """Three of nine pairs were played; all but one of the others equal a played pair."""
    judged: list[Mapping[str, str]] = []

    async def step() -> None:
        found = await begin(Asking(), judged).credit([(PROBLEM, EPISODES)])
        assert found.measures["joint_actions/waited"] > 0, "no sampling overlapped the scoring"

    asyncio.run(step())
    assert judged == [{"a": "xxx", "b": "yy"}]


def test_removed_answer_is_scored_as_empty() -> None:
    judged: list[Mapping[str, str]] = []

    class Removing(Asking):
        async def _score(self, group: Group) -> None:
            [found] = await group.score([(2, 0)], [{"a": None}])
            assert found == {"a": 1.0, "b": 1.0}

    asyncio.run(begin(Removing(), judged).credit([(PROBLEM, EPISODES)]))
    assert judged == [{"a": "", "b": "y"}]


def test_error_in_prepare_names_the_algorithm() -> None:
    with pytest.raises(TrainingError, match=r"algorithm 'mine'.*no idea"):
        asyncio.run(begin(Broken(), []).credit([(PROBLEM, EPISODES)]))


def test_abandoned_step_leaves_no_task_running() -> None:
    algorithm = Asking()

    async def step() -> None:
        credit = begin(algorithm, [])
        credit.prepare(PROBLEM, EPISODES)
        await asyncio.sleep(0)
        await credit.aclose()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(step())
    assert algorithm.done == ["begun"]


OWN = """
from pathlib import Path
from collab.errors import RecipeError

LOG = Path(__file__).with_suffix(".log")

class Mine:
    async def prepare(self, group):
        with LOG.open("a") as log:
            log.write(f"prepared {len(group.episodes)}\\n")

    async def credit(self, groups):
        with LOG.open("a") as log:
            log.write("credit\\n")
        return [{(0, 0, "a"): 1.0} for group in groups]

    def measures(self):
        return {"credit/mine": 7.0}

    def check(self, recipe, spec):
        if spec.discount < 1:
            raise RecipeError("no discount here; set trainer.discount to 1")

    def state(self):
        return {}

    def restore(self, state):
        pass
"""


@pytest.mark.parametrize("structure", ["chains", "tree"])
def test_custom_algorithm_may_use_every_hook(
    structure: str, tiny_words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(OWN)
    options = {"algorithm": "mine.py:Mine", "group_size": 2, "steps": 1}
    recipe = make_game(tiny_words, tmp_path, **options, turn_structure=structure)
    recipe = recipe.model_copy(update={"team": recipe.team.model_copy(update={"turns": 2})})
    asyncio.run(TrainingRun(recipe, tmp_path / "run").run())
    leaves = 4 if structure == "tree" else 2
    assert (tmp_path / "mine.log").read_text().splitlines() == [f"prepared {leaves}"] * 2 + [
        "credit"
    ]
    [row] = steps_of(tmp_path / "run")
    assert row["credit/mine"] == 7.0
    with pytest.raises(RecipeError, match="no discount here"):
        check_recipe(make_game(tiny_words, tmp_path, **options, discount=0.5))
