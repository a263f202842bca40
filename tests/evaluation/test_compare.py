"""Teams in numbers: estimates, paired differences, speed, cost."""

from typing import Any

import pytest
from support.episodes import make_episode, make_score

from collab.evaluation.results import TeamResult
from collab.evaluation.teams import EvaluatedTeam
from collab.evaluation.values import ValuesByMetric, difference, speed_of, task_values, team_result
from collab.recipe import Recipe
from collab.records import Problem, Score

TASKS = [f"words/{n}" for n in range(6)]


def make_team(label: str, samples: int = 2) -> EvaluatedTeam:
    agents = {name: {"prompt": "write"} for name in ("aux", "main")}
    task = {
        "kind": "text",
        "source": {"path": "x.jsonl"},
        "reward": {"parts": {"p": {"use": "length"}}},
    }
    recipe = Recipe.model_validate(
        {"team": {"name": label, "agents": agents}, "task": task, "samples": samples}
    )
    problems = tuple(Problem(address=task, public={}) for task in TASKS)
    return EvaluatedTeam(label, recipe, problems, tuple(range(len(TASKS))), identity="d")


def result_of(
    label: str, rewards: list[tuple[float, ...]], **fields: Any
) -> tuple[TeamResult, ValuesByMetric]:
    groups = {
        task: [make_episode(task, n, make_score(r), **fields) for n, r in enumerate(given)]
        for task, given in zip(TASKS, rewards, strict=False)
    }
    values = task_values(groups, [1])
    evaluated = make_team(label)
    return team_result(evaluated, groups, values, folder=None, models={"aux": "m"}), values


def test_a_metric_is_the_mean_over_tasks() -> None:
    result, _ = result_of("a", [(1.0, 3.0), (0.0, 0.0), (4.0, 4.0)])
    outcome = result.metrics["return"]
    assert outcome.mean == pytest.approx(2.0)
    assert 0 <= outcome.low < 2.0 < outcome.high <= 4.0
    assert outcome.tasks == 3
    assert (result.planned, result.episodes, result.maximum) == (12, 6, 4.0)


def test_differences_are_paired_by_task() -> None:
    first, base = result_of("a", [(0.0, 0.0), (1.0, 1.0), (2.0, 2.0), (3.0, 3.0)])
    other, values = result_of("b", [(0.5, 0.5), (1.5, 1.5), (2.4, 2.6), (3.5, 3.5), (0.0, 0.0)])
    outcome = difference(first, base, other, values)
    assert (outcome.baseline, outcome.team) == ("a", "b")
    change = outcome.metrics["return"]
    assert change.mean == pytest.approx(0.5)
    assert change.tasks == 4


def test_pairing_removes_shared_task_variance_from_the_interval() -> None:
    first, base = result_of("a", [(n % 4,) for n in range(6)])
    other, values = result_of("b", [(n % 4 + (0.4, 0.5, 0.6)[n % 3] * 0.5,) for n in range(6)])
    change = difference(first, base, other, values).metrics["return"]
    unpaired = other.metrics["return"]
    assert change.low > 0
    assert change.high - change.low < (unpaired.high - unpaired.low) / 3


def test_speed_excludes_time_without_a_running_episode() -> None:
    together = [
        make_episode("a", 0, make_score(), started="2026-01-01T00:00:00.000+00:00", seconds=4.0),
        make_episode("a", 1, make_score(), started="2026-01-01T00:00:01.000+00:00", seconds=5.0),
    ]
    later = make_episode(
        "b", 0, make_score(), make_score(), started="2026-01-01T09:00:00.000+00:00", seconds=2.0
    )
    speed = speed_of([later, *together])
    assert speed is not None
    assert speed.seconds == pytest.approx(8.0)
    assert speed.tokens_per_second == pytest.approx(4 * 20 / 8)
    assert speed.seconds_per_response == pytest.approx(8 / 4)
    groups, values = {"a": [later, *together]}, task_values({"a": together}, [1])
    result = team_result(make_team("t"), groups, values, folder=None, models={})
    assert result.concurrency == 2


def test_episodes_one_after_another_are_not_at_once() -> None:
    starts = [f"2026-01-01T00:00:0{n}.000+00:00" for n in range(3)]
    group = [
        make_episode("a", n, make_score(), started=started, seconds=1.0004)
        for n, started in enumerate(starts)
    ]
    values = task_values({"a": group}, [1])
    result = team_result(make_team("t"), {"a": group}, values, folder=None, models={})
    assert result.concurrency == 1


def test_older_records_with_schemes_load() -> None:
    score = make_score().model_dump()
    schemes = [{"name": "wrapper", "lines": [5], "why": "main returns what aux gives"}]
    assert Score.model_validate({**score, "schemes": schemes}) == make_score()
    result = team_result(make_team("a"), {}, {}, folder=None, models={})
    older = {**result.model_dump(), "schemes": {"wrapper": 1.0}}
    assert TeamResult.model_validate(older) == result
