"""Teams in scripts and notebooks: built from objects, kept open, used inside a running loop."""

import asyncio
import importlib
import json
import os
import pickle
import signal
import threading
import warnings
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import collab
from collab.cli.app import app
from collab.errors import CollabError, RecipeError, TaskError
from collab.models import open as opening
from collab.models.fakes import EchoModel
from collab.models.loop_thread import LoopThread
from collab.records import Failure
from collab.runtime.summary import Rollout
from collab.runtime.waiting import wait_for
from collab.wording import escape_controls

ROWS = [{"prompt": "red", "answer": "RED"}, {"prompt": "blue", "answer": "RED"}]


def make(**parts: Any) -> collab.Team:
    """A team of two agents that echo their prompt; the second uses capitals."""

    def right(context: Any) -> float:
        return float(context.field("answer") in context.joint.text)

    agents = {
        "low": collab.Agent(prompt="{{ task.prompt }}"),
        "high": collab.Agent(prompt="{{ task.prompt }}", parser=lambda response: response.upper()),
    }
    made = {"name": "pair", "agents": agents, "model": "echo", "rewards": [right], **parts}
    return collab.Team(**made, hidden=["answer"])


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Records the engines of opened models."""
    found: list[str] = []
    real = opening.open_model

    def watched(spec: Any, **options: Any) -> Any:
        found.append(spec.engine)
        return real(spec, **options)

    monkeypatch.setattr(opening, "open_model", watched)
    return found


def rewards(rollout: collab.Rollout) -> list[float | None]:
    return [episode.reward for episode in rollout.episodes]


def test_without_a_reward_a_team_answers_unscored() -> None:
    team = collab.Team(agents={"a": collab.Agent(prompt="Q: {{ task.prompt }}")}, model="echo")
    rollout = team.run({"prompt": "why?"})
    assert rollout.answer.strip() == "Q: why?"
    assert (rollout.episode.score, repr(rollout)) == (
        None,
        "<Rollout: 1 episode, not scored, 0 failed>",
    )


def test_feedback_that_reads_the_reward_is_refused_without_one() -> None:
    agent = collab.Agent(prompt="{{ task.prompt }}", revise="Again.")
    team = collab.Team({"a": agent}, turns=2, feedback=["solved"], model="echo")
    with pytest.raises(RecipeError, match=r"'solved' reads the reward, but .* 'rows' are not"):
        team.run({"prompt": "why?"})
    optional = [{"source": "solved", "required": False}]
    team = collab.Team({"a": agent}, turns=2, feedback=optional, model="echo")
    assert len(team.run({"prompt": "why?"}).episode.turns) == 2


def test_failed_episodes_are_not_called_unscored() -> None:
    def broken(artifacts: dict[str, str], problem: object) -> str:
        raise ValueError("no")

    assert "0 solved, 2 failed" in repr(make(join=broken).run(ROWS))


def test_an_empty_list_of_rewards_replaces_the_reward(tmp_path: Path) -> None:
    make().run(ROWS, out=tmp_path / "run")
    rollout = collab.load(str(tmp_path / "run"), rewards=[]).run({"prompt": "green"})
    assert rollout.episode.failure is None
    assert rollout.episode.reward is None


def test_a_team_of_objects_runs_rows() -> None:
    assert rewards(make().run(ROWS)) == [1.0, 0.0]
    assert rewards(make().run(ROWS[0])) == [1.0]
    assert repr(make()) == "<Team pair: low, high>"


def test_custom_protocol_is_played() -> None:
    async def only_the_second(turn: Any) -> None:
        await turn.act("high")

    rollout = make(protocol=only_the_second).run(ROWS)
    assert [d.agent for d in rollout.episodes[0].turns[0].decisions] == ["high"]


def test_given_rewards_apply_to_the_teams_own_suite() -> None:
    source = {"generate": "split_sum", "rows": 2}
    task = {"name": "sums", "kind": "text", "source": source, "reward": "split-sum"}
    agents = {"a": collab.Agent(prompt="{{ task.sum }}")}
    made = collab.Team(agents=agents, model="echo", task=task, rewards=[lambda context: 0.75])
    assert rewards(made.run()) == [0.75, 0.75]


def test_a_team_may_be_loaded_with_rows_and_rewards() -> None:
    team: dict[str, Any] = {"agents": {"a": {}}}
    own: dict[str, Any] = {"rewards": [lambda context: 0.75], "hidden": ["answer"]}
    loaded = collab.load(team, model="echo", task=ROWS, **own)
    assert rewards(loaded.run()) == [0.75, 0.75]
    with pytest.raises(RecipeError, match="write `task: humaneval`"):
        collab.load("coding", task="humaneval/0-3", **own)
    bare = {"name": "bare", "kind": "text", "source": {"generate": "split_sum", "rows": 2}}
    team["agents"]["a"] = {"prompt": "{{ task.sum }}"}
    loaded = collab.load(team, model="echo", task=bare, rewards=own["rewards"])
    assert rewards(loaded.run()) == [0.75, 0.75]


def test_given_rewards_apply_to_any_suite() -> None:
    def long(context: Any) -> float:
        return 0.25

    team = collab.load("tldr", model="echo", rewards=[long], samples=2)
    assert rewards(team.run("tldr/0")) == [0.25, 0.25]
    single = collab.load("coding-single", model="echo", rewards=[long])
    assert rewards(single.run("humaneval/0")) == [0.25]


def test_run_works_in_a_running_loop() -> None:
    async def cell() -> list[float | None]:
        return rewards(make().run(ROWS))

    assert asyncio.run(cell()) == [1.0, 0.0]


def test_a_team_that_is_entered_opens_its_model_once(opened: list[str]) -> None:
    with make() as team:
        assert rewards(team.run(ROWS)) == rewards(team.run(ROWS)) == [1.0, 0.0]
        assert asyncio.run(team.arun(ROWS[0])).episode.reward == 1.0
    assert opened == ["echo"]
    assert rewards(team.run(ROWS)) == [1.0, 0.0]
    assert opened == ["echo", "echo"]


def test_entered_team_opens_its_model_once_in_a_loop(opened: list[str]) -> None:
    async def main() -> None:
        async with make() as team:
            await asyncio.gather(team.arun(ROWS), team.arun(ROWS))
            with pytest.raises(CollabError, match=r"await team\.arun"):
                team.run(ROWS)

    asyncio.run(main())
    assert opened == ["echo"]


def test_a_team_is_entered_once_at_a_time() -> None:
    with make() as team, pytest.raises(CollabError, match="already in use"), team:
        pass


def test_only_an_unopened_team_is_pickled() -> None:
    team = collab.Team({"one": collab.Agent(prompt="{{ task.prompt }}")}, model="echo")
    with team, pytest.raises(TypeError, match="send it there, and open it there"):
        pickle.dumps(team)
    assert pickle.loads(pickle.dumps(team)).run(ROWS[0]).answer == "red"


def test_team_opened_before_a_fork_is_refused_there(tmp_path: Path) -> None:
    with make() as team, warnings.catch_warnings(action="ignore"):
        if not (child := os.fork()):
            signal.alarm(10)
            for ask in (team.run, lambda row: asyncio.run(team.arun(row))):
                try:
                    ask(ROWS[0])
                except CollabError as error:
                    (tmp_path / "errors").open("a").write(f"{error}\n")
            os._exit(0)
        os.waitpid(child, 0)
        assert team.run(ROWS[0]).episode.failure is None
    assert (tmp_path / "errors").read_text().count("opened before this process was forked") == 2


def test_interrupted_wait_cancels_the_work_and_waits_for_it() -> None:
    ended = threading.Event()

    async def work() -> None:
        await asyncio.sleep(0.05)  # wait until the caller waits
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.01)
            ended.set()

    loop = LoopThread("loop")
    ignored = signal.signal(signal.SIGINT, signal.default_int_handler)  # xdist ignores it
    try:
        with pytest.raises(KeyboardInterrupt):
            loop.wait_for(work())
    finally:
        signal.signal(signal.SIGINT, ignored)
    assert ended.is_set()
    loop.close()


def test_exception_of_the_work_is_raised() -> None:
    async def work() -> None:
        raise ValueError("no")

    async def cell() -> None:
        wait_for(work())

    with pytest.raises(ValueError, match="no"):
        asyncio.run(cell())


def test_record_lists_the_functions_given_in_python(tmp_path: Path) -> None:
    rollout = make().run(ROWS, out=tmp_path / "run")
    assert rollout.folder == tmp_path / "run"
    about = json.loads((tmp_path / "run" / "run.json").read_text())
    names = {name.rpartition(":")[2] for name in about["given_in_python"]}
    assert names == {"right", "lambda"}
    recipe = (tmp_path / "run" / "recipe.yaml").read_text()
    assert recipe.startswith("# These functions were passed in Python")
    assert all(name in recipe.partition("\nname:")[0] for name in about["given_in_python"])


def test_record_is_read_without_functions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = str(tmp_path / "run")
    make().run(ROWS, out=run)
    assert rewards(collab.load(run).run()) == [1.0, 0.0], "the functions are known in this process"
    monkeypatch.setattr("collab.passed_functions._FUNCTIONS", {})
    with pytest.raises(RecipeError, match=r"algorithm=lambda, or make the collab\.Team"):
        collab.load(run)
    again = collab.load(
        run, rewards=[lambda context: 0.5], settings=["team.agents.high.parser=text"]
    )
    assert rewards(again.run()) == [0.5, 0.5], "new functions replace the missing ones"
    runner = CliRunner()
    assert runner.invoke(app, ["show", run]).exit_code == 0
    assert runner.invoke(app, ["report", run]).exit_code == 0
    replayed = runner.invoke(app, ["replay", run])
    assert (replayed.exit_code, "are not in a file" in replayed.output) == (0, True)


def test_team_from_a_recipe_accepts_no_parts() -> None:
    recipe = make().recipe
    with pytest.raises(RecipeError, match="takes no turns"):
        collab.Team(recipe, turns=2)


def test_team_by_name_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"got 'coding'; .*use collab\.load"):
        collab.Team("coding")  # type: ignore[arg-type]


def test_a_rollout_names_its_first_failure() -> None:
    rollout = make(rewards=[lambda context: 3]).run({"prompt": "red", "answer": "RED"})
    assert "1 failed (first: RewardError: " in repr(rollout)


def test_rollout_repr_is_short_and_its_html_escaped() -> None:
    rollout = make().run([{"prompt": "<b>red", "answer": "RED"}] * 30)
    assert repr(rollout) == ("<Rollout: 30 episodes, 0 failed, mean return 1.00 of 1.00>")
    page = rollout._repr_html_()
    assert (page.count("<tr>"), "&lt;b&gt;red" in page, "<b>red" in page) == (21, True, False)


def test_a_shown_rollout_cannot_control_the_terminal() -> None:
    rollout = make().run({"prompt": "\x1b[2J\u202ered", "answer": "RED"})
    failure = Failure(type="\x1b]0;x\x07", message="\x9b2J", boundary="RewardError")
    failed = rollout.episode.model_copy(update={"failure": failure, "id": "\u202e"})
    shown = repr(Rollout((failed,), {}))
    assert "first: \\x1b]0;x\\x07: \\x9b2J" in shown
    for text in (shown, rollout._repr_html_(), Rollout((failed,), {})._repr_html_()):
        assert text == escape_controls(text)


def test_load_accepts_keys_of_a_section() -> None:
    recipe = collab.load(make().recipe, max_new_tokens=7, turns=2, seed=3).recipe
    assert (recipe.sampling.max_new_tokens, recipe.team.turns, recipe.seed) == (7, 2, 3)
    with pytest.raises(RecipeError, match=r"steps is a key of trainer; write .*=2'\]"):
        collab.load(make().recipe, steps=2)
    with pytest.raises(RecipeError, match=r"key of trainer; write trainer={'steps': 2}$"):
        collab.Team({"a": collab.Agent()}, steps=2)


def test_own_run_needs_no_approval(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "judging.py").write_text("def judged(context):\n    return 0.25\n")
    monkeypatch.syspath_prepend(here)
    judged = importlib.import_module("judging").judged
    agents = {"a": collab.Agent(prompt="{{ task.prompt }}")}
    make(rewards=[judged], agents=agents).run(ROWS, out="run")
    team = collab.load("run")
    assert rewards(team.run({"prompt": "red", "answer": "no"})) == [0.25]
    results = collab.evaluate(team, task=ROWS)
    assert results.teams[0].metrics["return"].mean == 0.25


def test_row_without_an_answer_needs_another_reward(tmp_path: Path) -> None:
    run = str(tmp_path / "run")
    make().run(ROWS, out=run)
    with pytest.raises(TaskError, match=r"no row of the task passed in Python.*hidden=\[\]"):
        collab.load(run).run({"prompt": "green"})
    other = collab.load(run, rewards=[lambda context: 0.5], hidden=[])
    assert rewards(other.run({"prompt": "green"})) == [0.5]


def test_error_has_no_internal_context(tmp_path: Path) -> None:
    make().run(ROWS, out=tmp_path / "run")
    with pytest.raises(CollabError, match=r"in Python: out=") as found:
        make().run(ROWS, out=tmp_path / "run")
    assert found.value.__context__ is None


def test_a_protocol_or_harness_that_is_not_async_is_refused() -> None:
    def talk(turn: Any) -> None:
        """Do nothing."""

    with pytest.raises(RecipeError, match="protocol 'talk' must be `async def`"):
        make(protocol=talk).run(ROWS)
    agents = {"a": collab.Agent(harness=talk)}
    with pytest.raises(RecipeError, match="harness 'talk' must be `async def`"):
        make(agents=agents).run(ROWS)


def test_lambda_reward_is_named_lambda() -> None:
    rollout = make(rewards=[lambda context: 1.0, lambda context: 0.5]).run(ROWS[0])
    [turn] = rollout.episode.turns
    assert turn.score is not None
    assert [part.name for part in turn.score.parts] == ["lambda", "lambda_2"]


def test_run_takes_samples_and_seed() -> None:
    rollout = make(samples=3).run(ROWS[0], samples=2, seed=5)
    assert [(episode.sample, episode.seed) for episode in rollout.episodes] == [(0, 5), (1, 5)]
    with pytest.raises(RecipeError, match="samples"):
        make().run(ROWS[0], samples=0)


def test_answer_of_one_agent_equals_its_artifact() -> None:
    def exact(context: Any) -> float:
        return float(context.answer == context.field("answer"))

    team = collab.Team({"a": collab.Agent()}, model="echo", rewards=[exact], hidden=["answer"])
    assert rewards(team.run({"prompt": "cherry", "answer": "cherry"})) == [1.0]


def test_answer_of_a_failed_episode_is_its_error() -> None:
    team = collab.Team({"a": collab.Agent(prompt="{{ task.nope }}")}, model="echo")
    with pytest.raises(CollabError, match=r"the episode failed: AgentError: .*no 'nope'"):
        assert team.run({"prompt": "red"}).answer


def test_engine_may_be_a_function_of_the_script() -> None:
    def engine(spec: Any) -> EchoModel:
        return EchoModel()

    for team in (
        collab.Team({"a": collab.Agent()}, model=engine),
        collab.Team({"a": collab.Agent(model=engine)}),
    ):
        assert team.run({"prompt": "red"}).answer == "red"


def test_run_takes_several_rows() -> None:
    assert rewards(make().run(ROWS[0], ROWS[1])) == [1.0, 0.0]


def test_field_may_have_the_name_of_a_method() -> None:
    prompt = "{% for item in task.items %}{{ item }},{% endfor %}"
    team = collab.Team({"a": collab.Agent(prompt=prompt)}, model="echo")
    assert team.run({"prompt": "q", "items": ["x", "y"]}).answer == "x,y,"


def test_team_takes_keys_of_a_section() -> None:
    team = collab.Team({"a": collab.Agent()}, model="echo", max_new_tokens=2)
    assert team.recipe.sampling.max_new_tokens == 2


def test_typed_script_is_not_asked_about(tmp_path: Path) -> None:
    make().run(ROWS[0], out=tmp_path / "run")
    script = tmp_path / "script.yaml"
    script.write_text("[red, blue]")
    team = collab.load(str(tmp_path / "run"), model=f"scripted:{script}")
    assert team.run().episode.turns[-1].artifacts == {"low": "red", "high": "BLUE"}


def test_a_team_is_loaded_with_other_settings() -> None:
    team = collab.load(make(), rewards=[lambda context: 0.25], turns=2)
    assert collab.load(team).run(ROWS[0]).episode.joint_return == 0.5
    assert make().run(ROWS[0]).episode.joint_return == 1.0


def test_an_object_that_is_no_team_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"a team is a name, .* or a collab\.Team, got 4"):
        collab.load(4)  # type: ignore[arg-type]
