"""Held-out evaluation: every episode is recorded next to the results."""

import asyncio
import io
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from support import openai_server
from support.openai_server import OpenAIServer, usage_of
from support.trainer_recipes import changed, make_game, steps_of

from collab.cli.live.view import TextView
from collab.cli.screen.page import PlainPage
from collab.errors import TrainingError
from collab.models.open import open_model
from collab.records import read_episodes
from collab.records.run import open_run
from collab.report.report import write_report
from collab.report.runs import read_run
from collab.runs.log import read_episode_lines
from collab.trainers import TrainingRun, make_plan
from collab.trainers.training.evaluations import fall_warning
from collab.trainers.training.events import Evaluation, HeldOut, StepFinished, TaskResult
from collab.trainers.training.trackers import Trackers


@pytest.fixture(scope="module")
def run(tiny_words: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four held-out tasks, two samples and a greedy one each, every second of four steps."""
    folder = tmp_path_factory.mktemp("heldout")
    recipe = make_game(tiny_words, folder, evaluation={"samples": 2, "every": 2})
    asyncio.run(TrainingRun(recipe, folder / "run").run())
    return folder / "run"


def held_out_of(run: Path) -> list[HeldOut]:
    held_out, complaints = read_episode_lines(run / "evaluation.jsonl", HeldOut)
    assert complaints == []
    return held_out


def test_every_episode_is_recorded(run: Path) -> None:
    counted = Counter((played.step, played.mode) for played in held_out_of(run))
    assert counted == {
        (step, m): n for step in (0, 2, 4) for m, n in (("sampled", 8), ("greedy", 4))
    }
    assert {p.episode.task for p in held_out_of(run)} == {f"game/{n}" for n in range(8, 12)}


def test_evaluation_results_match_the_recorded_episodes(run: Path) -> None:
    for evaluation in read_run(run).evaluations:
        for mode in ("sampled", "greedy"):
            returns: dict[str, list[float]] = {}
            for played in held_out_of(run):
                if (played.step, played.mode) == (evaluation.step, mode):
                    assert played.episode.joint_return is not None
                    returns.setdefault(played.episode.task, []).append(played.episode.joint_return)
            found: dict[str, Any] = getattr(evaluation, mode)
            assert {task: sum(values) / len(values) for task, values in returns.items()} == {
                task: pytest.approx(result.joint_return) for task, result in found.items()
            }


def test_every_evaluation_uses_the_same_seeds(run: Path) -> None:
    seeds = {
        step: {(p.mode, p.episode.id): p.episode.seed for p in held_out_of(run) if p.step == step}
        for step in (0, 2, 4)
    }
    assert seeds[0] == seeds[2] == seeds[4]


def test_tokens_and_log_probabilities_are_kept(run: Path) -> None:
    decisions = [d for p in held_out_of(run) for t in p.episode.turns for d in t.decisions]
    assert all(d.action.prompt_ids and d.action.token_ids for d in decisions)
    assert all(len(d.action.logprobs) == len(d.action.token_ids) for d in decisions)


def test_training_and_held_out_episodes_are_separate(run: Path) -> None:
    trained = {episode.task for episode in read_episodes(run)}
    assert trained.isdisjoint({f"game/{n}" for n in range(8, 12)})
    assert len(open_run(run).episodes) == len(list(read_episodes(run)))


def test_without_an_evaluation_nothing_is_held_out(tiny_words: Path, tmp_path: Path) -> None:
    recipe = make_game(tiny_words, tmp_path, steps=1, evaluation=None)
    remedy = "0 held out; the split test is not used, set 'trainer.evaluation={tasks: test}' to"
    assert remedy in make_plan(recipe).text()
    asyncio.run(TrainingRun(recipe, tmp_path / "run").run())
    assert held_out_of(tmp_path / "run") == []


def test_failed_episodes_are_explained_and_have_no_return(
    tiny_words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = make_game(tiny_words, tmp_path, steps=1, evaluation={"samples": 1, "greedy": False})
    reward = tmp_path / "reward.py"
    reward.write_text("def reward(context):\n    return 1 / (int(context.field('task_id')) < 8)\n")
    recipe = changed(recipe, "task.reward", {"parts": {"r": {"use": f"{reward}:reward"}}})
    logged: list[str] = []
    monkeypatch.setattr(Trackers, "log", lambda _, metrics, __: logged.extend(metrics))
    asyncio.run(TrainingRun(recipe, tmp_path / "run").run())
    first, _ = all_evaluations_of(tmp_path / "run")
    [warning] = first.warnings
    assert "held out: 4 of 4 episodes failed (4 RewardError), the first, game/8#0" in warning
    assert "held_out/return" not in logged
    assert "return/mean" in logged


def all_evaluations_of(run: Path) -> list[Evaluation]:
    return [Evaluation.model_validate(row) for row in steps_of(run, "evaluation.finished")]


def test_expert_is_opened_once_for_steps_and_evaluations(
    tiny_words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A hosted expert's `cost_limit` is that of the whole run."""
    recipe = make_game(
        tiny_words,
        tmp_path,
        steps=2,
        evaluation={"samples": 1, "every": 1},
        curriculum=[{"steps": 1, "turns": 2}],
    )
    expert = {"source": "expert", "model": "echo", "required": False}
    recipe = changed(changed(recipe, "team.turns", 2), "team.feedback", [expert])
    opened: list[Any] = []

    def counted(spec: Any, **options: Any) -> Any:
        opened.append(spec)
        return open_model(spec, **options)

    monkeypatch.setattr("collab.models.open.open_model", counted)
    asyncio.run(TrainingRun(recipe, tmp_path / "run").run())
    assert [spec.engine for spec in opened] == ["transformers", "echo"]


def test_expert_and_agent_share_the_limits_of_a_service(tiny_words: Path, tmp_path: Path) -> None:
    answers = openai_server.answer("a", usage=usage_of(1, 1))
    with OpenAIServer(answers) as server:
        service = {"engine": "openai", "name": "qwen", "base_url": server.base_url}
        prices = {"input_price": 0.0, "output_price": 1e6, "cost_limit": 7.0, "concurrency": 1}
        recipe = make_game(tiny_words, tmp_path, steps=1, tasks_per_step=1, group_size=2)
        expert = {"source": "expert", "model": service | prices, "required": False}
        frozen = {"prompt": "a", "model": service | prices, "trainable": False}
        for path, value in (
            ("team.turns", 2),
            ("team.feedback", [{**expert, "retries": 0, "max_new_tokens": 3}]),
            ("team.agents.b", frozen),
        ):
            recipe = changed(recipe, path, value)
        with pytest.raises(TrainingError, match=r"may spend \$7: \$5.0000 is spent"):
            asyncio.run(TrainingRun(recipe, tmp_path / "run").run())
    assert len(server.bodies) == 5  # of six, of which four are the agent's


def evaluated(step: int, *returns: float) -> Evaluation:
    results = {f"game/{n}": TaskResult(joint_return=r, solved=None) for n, r in enumerate(returns)}
    return Evaluation(step=step, sampled=results)


def test_drop_from_the_best_evaluation_is_reported() -> None:
    best = evaluated(4, 2.0, 3.0, 2.0, 3.0)
    assert fall_warning(best, evaluated(8, 1.0, 2.0, 1.5, 2.0)) == (
        "the held-out return fell by 0.88 ± 0.12 from its best, of step 4: use that step's"
        " checkpoint, which is kept, and lower learning_rate or set kl_coef"
    )
    within_two_errors = evaluated(8, 0.0, 4.0, 1.0, 4.0)
    assert fall_warning(best, within_two_errors) is None
    assert fall_warning(best, evaluated(8, 3.0, 3.0, 2.0, 3.0)) is None
    # One task has no standard error.
    assert fall_warning(evaluated(0, 1.0), evaluated(2, 0.0)) is None


FALLING = """\
calls = 0


def reward(context):
    global calls
    if not 4 <= int(context.field("task_id")) < 8:
        return 0.5
    calls += 1
    return RETURNS[(calls - 1) // 4]
"""
"""A reward that pays 0.5 in training, and the same for the four tasks of one evaluation."""


@pytest.mark.parametrize(
    ("returns", "best"), [([0.2, 0.9, 0.4, 0.3], 1), ([0.9, 0.2, 0.4, 0.3], 0)]
)
def test_a_run_that_falls_warns_and_keeps_its_best_checkpoint(
    tiny_words: Path,
    tmp_path: Path,
    returns: list[float],
    best: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("collab.trainers.training.alarms.WINDOW", 2)
    evaluation = {"tasks": "validation", "every": 1, "samples": 1, "greedy": False}
    options = {"steps": 3, "checkpoint_every": 99, "keep_checkpoints": 1}
    recipe = make_game(tiny_words, tmp_path, evaluation=evaluation, **options)
    reward = tmp_path / "falling.py"
    reward.write_text(FALLING.replace("RETURNS", str(returns)))
    splits = {"train": "0-3", "validation": "4-7", "test": "8-11"}
    recipe = changed(recipe, "task.splits", splits)
    recipe = changed(recipe, "task.reward", {"parts": {"r": {"use": f"{reward}:reward"}}})
    run = tmp_path / "run"
    events: list[Any] = []
    asyncio.run(TrainingRun(recipe, run, emit=events.append).run())
    assert {played.episode.task for played in held_out_of(run)} == {
        f"game/{n}" for n in range(4, 8)
    }
    falls = {e.step: e.warnings for e in all_evaluations_of(run) if e.warnings}
    assert [*falls] == list(range(best + 1, 4))
    fall = returns[best] - returns[-1]
    assert f"fell by {fall:.2f} ± 0.00 from its best, of step {best}" in falls[3][0]
    checkpoints = sorted((run / "checkpoints").iterdir())
    assert [int(path.name.removeprefix("step-")) for path in checkpoints] == [best, 3]
    about = json.loads((run / "run.json").read_text())
    assert about["summary"]["best_step"] == best
    alarms = [" ".join(e.warnings) for e in events if isinstance(e, StepFinished)]
    assert ["groups are dead" in text for text in alarms] == [False, True, False]


def test_log_and_report_show_a_drop(run: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(run, tmp_path / "run")
    rows = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    rows[-1]["warnings"] = ["the held-out return fell"]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert rows[-1]["type"] == "evaluation.finished"
    report = write_report([folder], tmp_path / "report.html")
    assert [(alarm.step, alarm.text) for alarm in report.alarms] == [
        (4, "the held-out return fell")
    ]
    log = io.StringIO()
    TextView(PlainPage(log)).show(read_run(folder).evaluations[-1])
    assert "warning: the held-out return fell\n" in log.getvalue()
