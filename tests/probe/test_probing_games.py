"""`collab probe` of games: returns per seat, endings, and unsupported crossing."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from collab.cli.app import app
from collab.probe.results import TeamProbe

PLAYERS = '''\
"""Players who say the same in each of their turns, by agent and sample."""

from dataclasses import replace

from collab.environments.kuhn import Kuhn
from collab.models import Capabilities
from collab.records import Action, Usage

SAID = {
    "poker": {"first": ["bet", "bet"], "second": ["fold", "what?"]},
    "walk": {"scout": ["on", "on"], "walker": ["U", "D L R U"]},
}


class Even(Kuhn):
    """Kuhn poker in which nobody wins anything."""

    def step(self, actions):
        return replace(super().step(actions), rewards=0.0)


class Player:
    name = "player"
    batching = "continuous"
    capabilities = Capabilities(continues=True)

    def __init__(self, said):
        self.said = said

    async def generate(self, requests, progress=None):
        return [
            Action(
                text=self.said[r.call.agent][r.call.sample],
                finish_reason="stop",
                usage=Usage(new_tokens=1),
            )
            for r in requests
        ]

    async def aclose(self):
        pass


def poker(spec):
    return Player(SAID["poker"])


def walk(spec):
    return Player(SAID["walk"])
'''


@pytest.fixture
def folder(here: Path) -> Path:
    (here / "players.py").write_text(PLAYERS)
    return here


def probed(team: str, player: str, *settings: str) -> tuple[TeamProbe, str]:
    command = ["probe", team, "--task", team, "--tasks", "3", "--samples", "2", "--out", "p"]
    engine = ["--set", f"model={{engine: 'players.py:{player}'}}"]
    found = CliRunner().invoke(app, [*command, *engine, *settings])
    assert found.exit_code == 0, found.stderr
    text = " ".join(found.stdout.split())
    return TeamProbe.model_validate_json(Path("p/probe.json").read_text()), text


@pytest.mark.usefixtures("folder")
def test_zero_sum_game_reports_the_return_of_each_seat() -> None:
    found, text = probed("kuhn", "poker")
    assert found.game
    assert found.game.zero_sum
    assert {name: value.mean for name, value in found.game.returns.items()} == {
        "first": 1.5,  # one chip if the other folds, two if it forfeits
        "second": -1.5,
    }
    assert found.game.at_end["legal"].mean == 0.5
    assert (found.dead, found.best, found.crossed) == (0, None, None)
    assert "mean return of first 1.50" in text
    assert "legal, at the end 50%" in text
    assert "0.00 of 0.00" not in text, "a zero-sum joint return is not reported"
    assert "the game is zero-sum" in text


@pytest.mark.usefixtures("folder")
def test_game_that_declares_zero_sum_is_one_when_all_games_are_drawn() -> None:
    found, text = probed("kuhn", "poker", "--set", "task.environment={use: 'players.py:Even'}")
    assert found.game
    assert found.game.zero_sum
    assert "0.00 of 0.00" not in text
    assert "mean return of first 0.00" in text


@pytest.mark.usefixtures("folder")
def test_games_of_several_turns_are_not_crossed() -> None:
    found, text = probed("grid-plan", "walk")
    assert found.game
    assert not found.game.zero_sum
    assert not found.game.returns, "all earn the same"
    assert found.crossed is None
    assert found.best
    assert found.best.whole_games
    assert found.best.combinations is None
    assert found.best.reward.mean > found.mean.mean
    assert "best of 2 games, return" in text
    assert "in turn 1" not in text
    assert "answers are not crossed: in a game of several turns" in text
    assert "near, at the end" in text


@pytest.mark.usefixtures("folder")
def test_a_game_of_one_turn_is_crossed() -> None:
    one = ["--set", "team.turns=1", "--set", "task.environment={use: grid-plan}"]
    found, text = probed("grid-plan", "walk", *one)
    assert found.game
    assert found.game.crosses
    assert found.crossed
    assert "does not apply" not in text
