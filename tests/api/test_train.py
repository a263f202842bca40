"""Training from Python: rows, functions, callbacks, and the results."""

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import collab
from collab.errors import RecipeError, RecordError
from collab.runs.about import this_process

ROWS = [{"prompt": f"say a word {n}", "wanted": "left"} for n in range(4)]
QUICK: dict[str, Any] = {"steps": 2, "group_size": 2, "learning_rate": 1e-2}


def wanted(context: Any) -> float:
    return float(context.field("wanted") in context.joint.text)


def test_a_loaded_model_is_refused() -> None:
    class LlamaForCausalLM:
        def __call__(self) -> None: ...

        def save_pretrained(self) -> None: ...

    with pytest.raises(
        RecipeError, match=r"loaded LlamaForCausalLM .*, and write model='./FOLDER'"
    ):
        collab.Team(agents={"a": collab.Agent()}, model=LlamaForCausalLM())


def test_rows_and_functions_train_a_team(pair: collab.Team, tmp_path: Path) -> None:
    steps: list[dict[str, Any]] = []

    def short(context: Any) -> float:
        return 1 / (1 + len(context.joint.text))

    run = collab.train(
        pair,
        ROWS,
        [wanted, (short, 0.5)],
        trainer="cross",
        hidden=["wanted"],
        on_step=steps.append,
        out=tmp_path / "run",
        tasks="2-3",
        evaluation={"tasks": "0-1", "every": 2},
        **QUICK,
    )
    assert [step["step"] for step in steps] == [1, 2]
    assert {"steps", "return/mean", "points/wanted", "points/short"} <= steps[0].keys()
    assert [row["return/mean"] for row in run.metrics] == [s["return/mean"] for s in steps]
    assert [found.step for found in run.evaluations] == [0, 2]
    assert run.summary["steps"] == 2
    assert "done after 2 steps" in repr(run)
    assert "held out (sampled)" in repr(run)
    assert len(repr(run)) < 300
    assert "<li>return" in run._repr_html_()
    names = {name.rpartition(":")[2] for name in run.about["given_in_python"]}
    assert names == {"short"}, "the other function is copied from its file"
    assert list((tmp_path / "run" / "functions").rglob("*.py"))
    about = {**run.about, "status": "running", "process": {**this_process(), "began": "1"}}
    (run.folder / "run.json").write_text(json.dumps(about))
    assert "killed after 2 steps" in repr(run)
    trained = run.team()
    assert trained.recipe.team.agents["a"].adapter
    assert trained.run().episodes
    compared = collab.evaluate(pair, run, task=ROWS, rewards=[wanted], samples=1)
    assert [team.label for team in compared.teams] == ["pair", "run"]
    (run.folder / "run.json").write_text(json.dumps({**about, "status": "done"}))
    resumed = collab.train(resume=run, rewards=[wanted, (short, 0.5)], settings=["trainer.steps=3"])
    assert (resumed.folder, resumed.summary["steps"]) == (run.folder, 3)


def test_training_in_a_running_loop(pair: collab.Team, tmp_path: Path) -> None:
    async def cell() -> tuple[collab.Training, collab.Training]:
        waited = await collab.atrain(pair, ROWS, [wanted], out=tmp_path / "a", **QUICK)
        plain = collab.train(pair, ROWS, [wanted], out=tmp_path / "b", **QUICK)
        return waited, plain

    waited, plain = asyncio.run(cell())
    returns = [[row["return/mean"] for row in run.metrics] for run in (waited, plain)]
    assert returns[0] == returns[1]


def test_run_stopped_by_a_callback_can_be_resumed(
    pair: collab.Team, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def stop(metrics: dict[str, Any]) -> None:
        raise KeyboardInterrupt

    out = tmp_path / "run"
    with pytest.raises(KeyboardInterrupt):
        collab.train(pair, ROWS, [wanted], on_step=stop, out=out, **QUICK)
    assert collab.list_runs(tmp_path)[0]["status"] == "interrupted"
    assert len(collab.read_metrics(out)) == 1
    assert f"interrupted; continue: collab.train(resume='{out}')" in caplog.text
    run = collab.train(resume=out)
    assert [row["step"] for row in run.metrics] == [1, 2]


def test_resumed_run_accepts_the_same_functions(
    pair: collab.Team, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def half(context: Any) -> float:
        return 0.5

    run = collab.train(pair, ROWS, [half], out=tmp_path / "run", **{**QUICK, "steps": 1})
    assert "nothing was learned: all returns of each group are equal" in caplog.text
    assert "done after 1 step, nothing was learned in 1 of 1 step" in repr(run)
    again = collab.train(resume=run.folder, rewards=[half], steps=2)
    assert len(again.metrics) == 2


def test_settings_reach_their_section_of_the_recipe(pair: collab.Team, tmp_path: Path) -> None:
    out = tmp_path / "run"
    collab.train(
        pair, ROWS, [wanted], out=out, seed=3, turns=2, temperature=0.7, lora={"rank": 2}, **QUICK
    )
    recipe = collab.load_recipe(str(out / "training.yaml"))
    assert recipe.trainer is not None
    assert (recipe.seed, recipe.team.turns, recipe.trainer.lora.rank) == (3, 2, 2)
    assert recipe.sampling_of("a").temperature == 0.7
    assert recipe.trainer.learning_rate == 1e-2


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"learning_rat": 1}, "did you mean 'learning_rate'"),
        ({"trainer": "magrp"}, "did you mean 'magrpo'"),
        ({"rewards": []}, "are not scored"),
        ({"task": None, "rewards": None}, "the recipe has no task"),
    ],
)
def test_mistakes_are_refused_before_any_work(
    pair: collab.Team, tmp_path: Path, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(RecipeError, match=message):
        collab.train(
            **{"team": pair, "task": ROWS, "rewards": [wanted], "out": tmp_path / "r", **given}
        )
    assert not (tmp_path / "r").exists()


def test_resume_accepts_no_team_and_train_needs_one(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="resume continues a run with its own recipe"):
        collab.train("coding", resume=tmp_path)
    with pytest.raises(RecipeError, match="pass a team"):
        collab.train()


def test_settings_are_a_list(pair: collab.Team, tmp_path: Path) -> None:
    message = r"settings is a list, e.g. \['team.turns=2'\], got 'trainer.steps=2'"
    with pytest.raises(RecipeError, match=message):
        collab.train(pair, settings="trainer.steps=2", out=tmp_path / "run")
    with pytest.raises(RecipeError, match=message):
        collab.load("tldr", settings="trainer.steps=2")


def test_settings_accept_numpy_scalars_and_refuse_arrays(pair: collab.Team, tmp_path: Path) -> None:
    settings = {**QUICK, "steps": np.int64(1), "learning_rate": np.float64(1e-4)}
    run = collab.train(pair, ROWS, [wanted], out=tmp_path / "run", **settings)
    assert run.summary["steps"] == 1
    resumed = collab.train(resume=run.folder, rewards=[wanted], settings=["trainer.steps=2"])
    assert resumed.summary["steps"] == 2
    with pytest.raises(RecipeError, match=r"learning_rate: YAML cannot hold .* of type ndarray"):
        collab.train(pair, ROWS, [wanted], learning_rate=np.array([1e-4]))


@pytest.mark.parametrize("name", ["defaults", "is_run"])
def test_unknown_settings_are_refused(pair: collab.Team, name: str) -> None:
    setting: dict[str, Any] = {name: {}, "steps": 1, "beta": 0.1, "gamma": 1}
    with pytest.raises(RecipeError, match=f"'{name}'.* \\(also unknown: 'beta', 'gamma'\\)$"):
        collab.train(pair, ROWS, [wanted], **setting)


def test_folder_without_runs_lists_none(tmp_path: Path) -> None:
    assert collab.list_runs(tmp_path) == []
    with pytest.raises(RecordError, match="is not a folder"):
        collab.list_runs(tmp_path / "none")
    with pytest.raises(RecordError, match="not a training run"):
        collab.read_metrics(tmp_path)


def test_broken_metrics_line_is_refused_and_a_partial_one_skipped(tmp_path: Path) -> None:
    run = tmp_path / "cut off"
    run.mkdir()
    (run / "metrics.jsonl").write_text('{"type": "step.finished", "step": 1}\n{"ty')
    assert collab.read_metrics(run) == [{"step": 1}], "a running run ends with a partial line"
    (run / "metrics.jsonl").write_text('{"type": "step.finished", "step": 1}\nbroken\n')
    with pytest.raises(RecordError, match="line 2: not JSON"):
        collab.read_metrics(run)


def test_broken_run_does_not_hide_the_others(tmp_path: Path) -> None:
    for name, text in (("good", '{"status": "done", "folder": "moved"}'), ("bad", "{")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.json").write_text(text)
    found = {Path(run["folder"]).name: run["status"] for run in collab.list_runs(tmp_path)}
    assert found["good"] == "done"
    assert found["bad"].startswith("cannot be read")
