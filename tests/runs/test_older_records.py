"""Records, recipes, functions and runs of older versions still work."""

import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from collab.cli.app import app
from collab.evaluation.results import Difference
from collab.feedback.plain import Outcome
from collab.recipe import TrainerSpec
from collab.records import Decision, Score, Turn, read_episodes
from collab.rewards import RewardContext
from collab.runs.metrics import parse_row
from collab.runtime.turn import Turn as PlayedTurn


def test_a_turn_is_read_under_the_former_name() -> None:
    turn = Turn.model_validate({"index": 0, "decisions": [], "artefacts": {"a": "x"}})
    assert turn.artifacts == {"a": "x"}
    assert "artefacts" not in turn.model_dump()


def test_decisions_are_read_without_their_former_mark() -> None:
    data = {"agent": "a", "observation": [], "action": {"text": "x"}, "given": True}
    assert "given" not in Decision.model_validate(data).model_dump()


def test_scores_are_read_under_former_names() -> None:
    score = Score.model_validate(
        {"reward": 1.0, "maximum": 1.0, "passed": True, "told": "won", "schemes": []}
    )
    assert (score.solved, score.summary) == (True, "won")
    assert '"solved":true' in score.model_dump_json()


def test_functions_may_use_the_former_name() -> None:
    turn = Turn(index=0, decisions=(), artifacts={"a": "x"})
    assert turn.artefacts == {"a": "x"}
    for holder in (RewardContext, Outcome, PlayedTurn):
        assert hasattr(holder, "artefacts")


def test_trainers_are_read_under_former_names() -> None:
    former = {"normalise": "step", "ranks": {"limit": 3.0, "shard": False}, "report_samples": 1}
    now = {"normalize": "step", "rank_timeout": 3.0, "report_episodes": 1}
    assert TrainerSpec.model_validate(former) == TrainerSpec.model_validate(now)
    recorded = TrainerSpec.model_validate({"algorithm": "sft", "episodes": "runs/a"})
    assert recorded.learn_from == "runs/a"


def test_steps_are_read_under_former_names() -> None:
    row = parse_row(b'{"type": "step.finished", "step": 1, "part/a.b": 2, "hack_suspects": 0}')
    assert row == {"type": "step.finished", "step": 1, "points/a.b": 2, "episodes/flagged": 0}


def test_evaluations_are_read_under_former_names() -> None:
    former = ("part.a", "level.a", "solved.turn_2", "tokens.of_5 tokens", "final.share", "coop@2")
    estimate = {"mean": 0.5, "low": 0.0, "high": 1.0, "tasks": 3}
    data = {"team": "a", "baseline": "b", "metrics": dict.fromkeys(former, estimate)}
    assert [*Difference.model_validate(data).metrics] == [
        "value/a", "level/a", "solved/turn_2", "tokens/of_5 tokens", "last_reward/share", "coop@2",
    ]  # fmt: skip


RECORDED = Path(__file__).parents[1] / "recorded"


def test_recorded_run_is_read() -> None:
    [episode] = read_episodes(RECORDED / "run")
    assert episode.solved
    rewards = [turn.score.reward for turn in episode.turns if turn.score]
    assert rewards == pytest.approx([11 / 6, 4.0])


@pytest.mark.parametrize("command", ["show", "replay", "report"])
def test_recorded_run_is_shown_and_replayed(tmp_path: Path, command: str) -> None:
    folder = tmp_path / "run"
    shutil.copytree(RECORDED / "run", folder)
    result = CliRunner().invoke(app, [command, str(folder)])
    assert result.exit_code == 0, result.output
