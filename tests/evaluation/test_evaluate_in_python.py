"""Evaluations of teams, rows and functions defined in Python."""

import asyncio
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import collab
from collab.errors import CollabError, RecipeError
from collab.wording import escape_controls

ROWS = [{"prompt": "red", "answer": "red"}, {"prompt": "blue", "answer": "red"}]


def right(context: Any) -> float:
    return float(context.field("answer") in context.joint.text)


def team(name: str, prompt: str) -> collab.Team:
    agents = {"a": collab.Agent(prompt=prompt)}
    return collab.Team(name=name, agents=agents, model="echo", rewards=[right], hidden=["answer"])


def test_teams_with_different_rewards_are_refused() -> None:
    agents = {"a": collab.Agent(prompt="red")}
    other = collab.Team(name="two", agents=agents, model="echo", rewards=[lambda context: 0.25])
    with pytest.raises(RecipeError, match=r"the rewards of 'one' and 'two' differ; pass rewards="):
        collab.evaluate(team("one", "red"), other, task=ROWS)
    results = collab.evaluate(team("one", "red"), other, task=ROWS, rewards=[right], hidden=[])
    assert len(results.teams) == 2
    same = collab.Team(name="two", agents=agents, model="echo", rewards=right, hidden="answer")
    results = collab.evaluate(team("one", "red"), same, task=ROWS)
    assert [result.metrics["return"].mean for result in results.teams] == [1.0, 1.0]
    results = collab.evaluate(team("one", "red"), other, task=ROWS, reward_from="two", hidden=[])
    assert [result.metrics["return"].mean for result in results.teams] == [0.25, 0.25]


def test_teams_from_python_are_evaluated_in_a_running_loop() -> None:
    async def cell() -> Any:
        return collab.evaluate(team("one", "{{ task.prompt }}"), team("two", "red"), task=ROWS)

    results = asyncio.run(cell())
    assert [result.label for result in results.teams] == ["one", "two"]
    assert [result.metrics["return"].mean for result in results.teams] == [0.5, 1.0]
    assert "<td>one</td><td>two</td>" in results._repr_html_()


def test_results_become_a_data_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "eval"
    collab.evaluate(team("one", "{{ task.prompt }}"), team("two", "red"), task=ROWS, out=out)
    results = collab.read_results(str(out))
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(CollabError, match="to_pandas needs pandas; run: pip install pandas"):
        results.to_pandas()
    pandas = SimpleNamespace(DataFrame=SimpleNamespace(from_records=list))
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    rows: Any = results.to_pandas()
    returns = [row for row in rows if row["metric"] == "return"]
    assert [(row["team"], row["minus"], row["mean"]) for row in returns] == [
        ("one", "", 0.5),
        ("two", "", 1.0),
        ("two", "one", 0.5),
    ]
    assert all(row["tasks"] == 2 for row in returns)
    first = collab.to_pandas(collab.read_episodes(out / "two"))[0]
    assert (first["joint_return"], first["answer"], first["solved"]) == (1.0, "red", False)


def test_the_table_shows_a_level_once() -> None:
    rewards = {"right": {"use": right, "best_of": "hit", "level": "match"}}
    results = collab.evaluate(
        team("one", "{{ task.prompt }}"), task=ROWS, rewards=rewards, samples=2, k=[1, 2]
    )
    metrics = results.teams[0].metrics
    assert metrics["hit@1"] == metrics["level/match"]
    titles = [line.partition("  ")[0] for line in repr(results).splitlines()]
    assert {"hit@2 %", "match %"} <= set(titles)
    assert "hit@1 %" not in titles


def test_the_public_names_are_listed() -> None:
    assert {*collab.__all__, "__version__"} <= {*dir(collab)}
    assert collab.Results is type(collab.evaluate(team("one", "red"), task=ROWS))


def test_a_notebook_shows_names_as_text() -> None:
    results = collab.evaluate(team("a", "red"), task=ROWS)
    [result] = results.teams
    results = results.model_copy(update={"teams": (result.model_copy(update={"label": "a<b>"}),)})
    assert "<td>a&lt;b&gt;</td>" in results._repr_html_()


def test_shown_results_cannot_control_the_terminal() -> None:
    results = collab.evaluate(team("a", "red"), task=ROWS)
    label = results.teams[0].model_copy(update={"label": "\x1b[2Ja"})
    results = results.model_copy(update={"teams": (label,), "notes": ("\x9b2J",)})
    assert "\\x1b[2Ja" in repr(results)
    assert "note: \\x9b2J" in repr(results)
    for text in (repr(results), results._repr_html_()):
        assert text == escape_controls(text)


def test_keyword_argument_sets_a_recipe_setting() -> None:
    team_a = team("a", "one two three four")
    results = collab.evaluate(team_a, task=ROWS, max_new_tokens=2, concurrency=1)
    assert results.teams[0].agents["a"]["new_tokens"] == 2 * len(ROWS)
    with pytest.raises(RecipeError, match="unknown setting 'num_turns'; did you mean"):
        collab.evaluate(team_a, task=ROWS, num_turns=2)


def last(artifacts: Any, problem: Any) -> Any:
    return list(artifacts.values())[-1]


@pytest.mark.parametrize("config", ["config", "/proc/nowhere"], ids=["kept", "read-only"])
def test_own_run_accepts_other_rows_without_approval(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: str
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / config))
    agents = {"a": collab.Agent(prompt="{{ task.prompt }}")}
    custom_team = collab.Team(
        agents=agents, model="echo", join=last, rewards=[right], hidden=["answer"]
    )
    custom_team.run(ROWS[0], out=tmp_path / "j1")
    results = collab.evaluate(str(tmp_path / "j1"), task=ROWS, rewards=[right], hidden=["answer"])
    assert results.teams[0].metrics["return"].mean == 0.5


def test_evaluation_without_finished_episodes_names_the_first_failure() -> None:
    def broken(context: Any) -> float:
        raise ValueError("no scale")

    with pytest.raises(CollabError, match=r"failed \(2 of 2\); first failure: .*no scale"):
        collab.evaluate(team("a", "red"), task=ROWS, rewards=[broken])


def test_tokens_of_failed_episodes_do_not_count(tmp_path: Path) -> None:
    script = tmp_path / "answers.yaml"
    script.write_text("a: [red, red]\nb: [four, {failure: no answer}]\n")
    agents = {name: collab.Agent(prompt="{{ task.prompt }}") for name in "ab"}
    two = collab.Team(
        agents=agents, protocol="sequential", model=f"scripted:{script}", rewards=[right], hidden=[]
    )
    results = collab.evaluate(two, task=ROWS, concurrency=1)
    assert results.teams[0].failed == 1
    rows = dict(
        line.rsplit(maxsplit=1) for line in repr(results).splitlines() if "tokens of" in line
    )
    assert rows == {"tokens of a": "3.0", "tokens of b": "4.0"}


def test_team_whose_episodes_all_fail_raises_a_warning() -> None:
    def parse(response: str) -> str:
        raise ValueError("no parse")

    agents = {"a": collab.Agent(prompt="red", parser=parse)}
    broken = collab.Team(name="broken", agents=agents, model="echo")
    with pytest.warns(UserWarning, match=r"of broken failed \(2 of 2\); first failure: .*no parse"):
        results = collab.evaluate(team("a", "red"), broken, task=ROWS)
    assert results.teams[0].metrics["return"].mean == 1.0


def test_a_reward_of_trl_is_refused_before_any_work() -> None:
    def trl(completions: Any, **columns: Any) -> list[float]:
        return [0.5 for _ in completions]

    with pytest.raises(RecipeError, match=r"'trl' .* takes completions.*from_trl"):
        collab.evaluate(team("a", "red"), task=ROWS, rewards=[trl])


def test_prompt_is_checked_before_any_work() -> None:
    with pytest.raises(RecipeError, match="task has no 'question'"):
        collab.evaluate(team("a", "{{ task.question }}"), task=ROWS)


def test_unused_templates_raise_a_warning() -> None:
    agents = {"a": collab.Agent(prompt="{{ task.prompt }}", templates={"rebut": "No."})}
    custom_team = collab.Team(agents=agents, model="echo", rewards=[right], hidden=["answer"])
    with pytest.warns(UserWarning, match=r"rebut is not used"):
        collab.evaluate(custom_team, task=ROWS)


def test_callbacks_receive_episodes_and_events() -> None:
    ids: list[str] = []
    types: list[str] = []
    collab.evaluate(
        team("a", "red"),
        task=ROWS,
        on_episode=lambda episode: ids.append(episode.id),
        on_event=lambda event: types.append(event.type),
    )
    assert ids == ["rows/0#0", "rows/1#0"]
    assert (types[0], types[-1]) == ("eval.started", "eval.finished")


def test_rows_without_a_reward_are_refused() -> None:
    custom_team = collab.Team(agents={"a": collab.Agent()}, model="echo")
    with pytest.raises(RecipeError, match=r"'rows' are not scored.*rewards=\[\.\.\.\]"):
        collab.evaluate(custom_team, task=ROWS)


def test_an_object_that_is_no_team_is_refused() -> None:
    with pytest.raises(RecipeError, match=r"a team is a name, .*, got 4"):
        collab.evaluate(4, task=ROWS)  # type: ignore[arg-type]


def test_selection_must_be_a_selection_object() -> None:
    with pytest.raises(RecipeError, match=r"takes a collab\.Selection, got 'examples'"):
        collab.evaluate(team("one", "red"), task=ROWS, select="examples")  # type: ignore[arg-type]
