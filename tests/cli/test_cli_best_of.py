"""`collab run --best-of`: all combinations of the answers, and the report of the best one."""

import json
from pathlib import Path

import pytest
import yaml
from support.command_line import Collab, Result

pytestmark = pytest.mark.usefixtures("project")

ANSWERS = {
    # by agent and sample: only a's first and b's second answer are right
    "a": ["Say w0.", "no", "no"],
    "b": ["no", "Say w0.", "no"],
}


def script(answers: dict[str, list[str]]) -> str:
    Path("script.yaml").write_text(yaml.safe_dump(answers))
    return "scripted:script.yaml"


def run(collab: Collab, *more: str, answers: dict[str, list[str]] = ANSWERS) -> Result:
    model = script(answers)
    return collab("run", "pair", "-t", "words/0", "--model", model, "--best-of", "3", *more)


def test_best_pair_is_a_new_combination(collab: Collab) -> None:
    result = run(collab, "--out", "out")
    assert result.status == 0
    message = (
        "best of 9 combinations of 3 samples: reward 1.00 of 1.00 by a of sample 0, b of sample 1"
    )
    assert message in " ".join(result.out.split())
    assert "a new combination; best sample: 0.50" in " ".join(result.out.split())
    [line] = Path("out/best.jsonl").read_text().splitlines()
    best = json.loads(line)
    assert (best["made_of"], best["played"], best["scored"]) == ({"a": 0, "b": 1}, False, 9)
    assert best["artifacts"] == {"a": "Say w0.", "b": "Say w0."}
    assert best["score"]["reward"] == 1.0
    assert len(Path("out/episodes.jsonl").read_text().splitlines()) == 3, (
        "only the samples were played"
    )


def test_played_combination_wins_ties(collab: Collab) -> None:
    answers = {"a": ["no", "Say w0.", "Say w0."], "b": ["no", "Say w0.", "no"]}
    result = run(collab, "--json", answers=answers)
    best = result.events[-1]
    assert (best["type"], best["played"], best["made_of"]) == ("best_of", True, {"a": 1, "b": 1})


READS_C = "{use: contains, options: {phrases: [n], agent: c}}"
TOLD = (
    *("--set", "agents.c={prompt: Say no., contributes: false}"),
    *("--set", f"task.reward.parts.told={READS_C}"),
)
"""An agent that does not contribute, and a part that reads its answer."""


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--samples", "2"), "runs 3 episodes per task; leave out --samples"),
        (("--set", "team.protocol=sequential"), "agents see each other's answers"),
        (("--set", "team.turns=2", "--set", "team.feedback=[self]"), "set team.turns=1"),
        (("--best-of", "100"), "100^2 = 10000 joint artifacts"),
        (TOLD, "the reward's told reads another agent's"),
    ],
)
def test_best_of_is_refused_when_answers_cannot_be_recombined(
    collab: Collab, more: tuple[str, ...], message: str
) -> None:
    result = run(collab, *more)
    assert result.status == 2
    assert message in " ".join(result.err.split())


def test_a_problem_whose_episodes_all_fail_is_not_solved(collab: Collab) -> None:
    gone = [{"failure": "gone"}] * 2
    answers = {"a": ["Say w0.", "no", *gone], "b": ["no", "Say w0.", *gone]}
    Path("script.yaml").write_text(yaml.safe_dump(answers))
    words = ["run", "pair", "-m", "scripted:script.yaml", "--best-of", "2", "--require-solved"]
    result = collab(*words, "-t", "words/0-1")
    assert result.status == 1
    assert "words/0: best of 4 combinations" in result.out
