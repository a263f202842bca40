"""Models without weights: scripted, echo and replay."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from collab.errors import ModelError, RecipeError, RecordError
from collab.models import Call, Model, Request
from collab.models.fakes import EchoModel, ReplayModel, ScriptedModel
from collab.records import Action, Decision, Episode, Message, Sampling, Turn, Usage


def request_of(agent: str = "main", text: str = "say", **call: Any) -> Request:
    place = {"task": "t/0", "sample": 0, "turn": 0, "round": 0, **call}
    return Request(
        call=Call(agent=agent, **place),
        messages=(Message(role="system", content="be"), Message(role="user", content=text)),
    )


def ask(model: Model, *requests: Request) -> list[Action]:
    return asyncio.run(model.generate(requests))


def test_one_list_is_consumed_in_order_by_all_agents() -> None:
    model = ScriptedModel(["one", {"text": "two", "token_ids": [7, 8], "logprobs": [-1, -2]}])
    first, second = ask(model, request_of("aux"), request_of("main"))
    assert (first.text, first.token_ids) == ("one", tuple(b"one"))
    assert first.usage == Usage(prompt_tokens=5, new_tokens=3)
    assert (second.text, second.token_ids, second.logprobs) == ("two", (7, 8), (-1.0, -2.0))
    assert Action.model_validate(second.model_dump()) == second
    model.verify()


def test_each_agent_has_its_own_list() -> None:
    model = ScriptedModel({"main": ["m1", "m2"], "aux": ["a1"]})
    texts = [a.text for a in ask(model, request_of("main"), request_of("aux"), request_of("main"))]
    assert texts == ["m1", "a1", "m2"]
    model.verify()


def test_script_entry_may_fail_be_slow_or_be_truncated() -> None:
    model = ScriptedModel(
        [{"failure": "no luck"}, {"text": "x", "finish_reason": "length", "seconds": 0.1}]
    )
    started = time.monotonic()
    failed, cut = ask(model, request_of(), request_of())
    assert time.monotonic() - started >= 0.1
    assert failed.failure is not None
    assert (failed.failure.type, failed.failure.message) == ("ModelError", "no luck")
    assert failed.finish_reason == "failed"
    assert (cut.finish_reason, cut.seconds) == ("length", 0.1)


def test_exhausted_script_fails_its_requests_and_the_run() -> None:
    model = ScriptedModel({"main": ["only"]})
    good, over, stranger = ask(model, request_of(), request_of(), request_of("critic"))
    assert good.text == "only"
    assert over.failure is not None
    assert "agent 'main' needs more answers than the 1" in over.failure.message
    assert stranger.failure is not None
    assert "agent 'critic'" in stranger.failure.message
    with pytest.raises(ModelError, match="has run out"):
        model.verify()


def test_unused_script_answers_are_an_error() -> None:
    model = ScriptedModel({"main": ["one", "two", "three"], "aux": ["a"]})
    ask(model, request_of("main"), request_of("aux"))
    with pytest.raises(ModelError, match="2 of 3 for agent 'main', next 'two'"):
        model.verify()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("- [", "answers.yaml, line 1, column 4"),
        ("main: hello", "main: must be a list"),
        ("- txt: hello", r"0\.txt: unknown key"),
        ("hello", r"is not a script \(must be a list\)"),
    ],
)
def test_bad_scripts(tmp_path: Path, content: str, words: str) -> None:
    file = tmp_path / "answers.yaml"
    file.write_text(content)
    with pytest.raises(RecipeError, match=f"(?s){words}"):
        ScriptedModel.from_file(file)
    with pytest.raises(RecipeError, match="does not exist; check the path"):
        ScriptedModel.from_file(tmp_path / "nothing.yaml")


def test_echo_answers_with_the_last_message_in_bytes() -> None:
    [action] = ask(EchoModel(), request_of(text="héllo"))
    assert action.text == "héllo"
    assert action.token_ids == tuple("héllo".encode())
    assert action.usage.new_tokens == 6


def test_echo_keeps_to_length_and_stop_strings() -> None:
    request = request_of(text="héllo END more")
    cut = request.model_copy(update={"sampling": Sampling(max_new_tokens=2)})
    stopped = request.model_copy(update={"sampling": Sampling(stop=("END", "mo"))})
    first, second = ask(EchoModel(), cut, stopped)
    assert (first.text, first.finish_reason, len(first.token_ids)) == ("h", "length", 2)
    assert (second.text, second.finish_reason) == ("héllo ", "stop")


def recorded(sample: int, text: str) -> Episode:
    action = Action(text=text, token_ids=(1, 2), seconds=1.5, model="real", usage=Usage(cost=0.1))
    decision = Decision(agent="main", observation=(), action=action)
    return Episode(
        id=f"e{sample}",
        task="t/0",
        team="x",
        sample=sample,
        turns=(Turn(index=0, decisions=(decision,)),),
    )


def save(folder: Path, *episodes: Episode, tail: str = "") -> Path:
    lines = [e.model_dump_json() + "\n" for e in episodes]
    (folder / "episodes.jsonl").write_text("".join(lines) + tail)
    return folder


def test_replay_gives_the_recorded_actions(tmp_path: Path) -> None:
    save(tmp_path, recorded(0, "zero"), recorded(1, "one"), tail='{"id": "torn')
    for source in (tmp_path, tmp_path / "episodes.jsonl"):
        one, zero = ask(ReplayModel(source), request_of(sample=1), request_of(sample=0))
        assert (zero.text, one.text) == ("zero", "one")
        assert one == recorded(1, "one").turns[0].decisions[0].action


def test_a_task_that_was_run_twice_is_replayed_twice(tmp_path: Path) -> None:
    again = recorded(0, "second").model_copy(update={"seed": 1})
    model = ReplayModel(save(tmp_path, recorded(0, "first"), again))
    assert [a.text for a in ask(model, request_of(), request_of())] == ["first", "second"]


def test_unrecorded_call_fails_individually(tmp_path: Path) -> None:
    model = ReplayModel(save(tmp_path, recorded(0, "zero")))
    good, missing = ask(model, request_of(), request_of("aux", turn=3))
    assert good.text == "zero"
    assert missing.failure is not None
    assert "agent 'aux' to task 't/0', sample 0, turn 3, round 0" in missing.failure.message


def test_missing_or_broken_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="does not exist; check the path"):
        ReplayModel(tmp_path)
    save(tmp_path, tail='{"id": 3}\n')
    with pytest.raises(RecordError, match="line 1"):
        ReplayModel(tmp_path)
