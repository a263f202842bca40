"""Batching of requests, and the number of episodes that run at the same time."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from collab.errors import ModelTimeout
from collab.models import Call, Model, Progress, Request, weights
from collab.models.base import Batching, OnAnswer
from collab.recipe import load_recipe
from collab.recipe.recipe import DEFAULT_CONCURRENCY, WIDE_CONCURRENCY
from collab.records import Action
from collab.runtime.scheduler import Scheduler
from collab.runtime.session import concurrency_of


class Recorder(Model):
    """An engine that answers with the agent's name and records its batches."""

    def __init__(self, batching: Batching = "static", seconds: float = 0.0) -> None:
        self.name, self.seconds = "recorder", seconds
        self.batching: Batching = batching
        self.batches: list[list[str]] = []

    async def generate(
        self, requests: Sequence[Request], progress: Progress | None = None
    ) -> list[Action]:
        self.batches.append([f"{r.call.task}{r.call.turn}{r.call.agent}" for r in requests])
        await asyncio.sleep(self.seconds)
        if any(request.call.agent == "broken" for request in requests):
            raise ModelTimeout("no answer within 1 s")
        return [Action(text=request.call.agent) for request in requests]


class OneByOne(Recorder):
    """Delivers its answers one after another."""

    async def answer_each(
        self, requests: Sequence[Request], answered: OnAnswer, progress: Progress | None = None
    ) -> None:
        actions = await self.generate(requests, progress)
        for index, action in enumerate(actions):
            await asyncio.sleep(self.seconds)
            answered(index, action)


class Late(OneByOne):
    """Fails after its first two answers."""

    async def answer_each(
        self, requests: Sequence[Request], answered: OnAnswer, progress: Progress | None = None
    ) -> None:
        for index, action in enumerate(await self.generate(requests[:2], progress)):
            answered(index, action)
        raise ModelTimeout("no answer within 1 s")


class Forgetful(OneByOne):
    """Ends without an answer to its last request."""

    async def answer_each(
        self, requests: Sequence[Request], answered: OnAnswer, progress: Progress | None = None
    ) -> None:
        for index, action in enumerate(await self.generate(requests[:-1], progress)):
            answered(index, action)


class Held(Recorder):
    """Waits for permission before it answers."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.may_answer = asyncio.Event(), asyncio.Event()

    async def generate(
        self, requests: Sequence[Request], progress: Progress | None = None
    ) -> list[Action]:
        self.begun.set()
        await self.may_answer.wait()
        return [Action(text=request.call.agent) for request in requests]


def request(task: str, turn: int, agent: str) -> Request:
    return Request(call=Call(task=task, sample=0, turn=turn, round=0, agent=agent))


async def act_both(scheduler: Scheduler, model: Recorder, task: str, turn: int) -> list[Action]:
    """Let two agents act at the same time, and return their actions as they arrive."""
    actions: list[Action] = []

    async def act(agent: str) -> None:
        actions.append(await scheduler.act(model, request(task, turn, agent), "ab".index(agent)))

    await scheduler.together([act("a"), act("b")])
    return actions


async def episode(
    scheduler: Scheduler, model: Recorder, task: str, turns: int, pause: float = 0.0
) -> None:
    for turn in range(turns):
        await act_both(scheduler, model, task, turn)
        await asyncio.sleep(pause)
    scheduler.remove_episode()


async def play(
    model: Recorder, turns: dict[str, int], pauses: dict[str, float] | None = None
) -> list[list[str]]:
    scheduler = Scheduler(episodes=len(turns))
    pauses = pauses or {}
    await asyncio.gather(
        *(episode(scheduler, model, task, n, pauses.get(task, 0.0)) for task, n in turns.items())
    )
    return model.batches


def test_static_engine_gets_one_batch_per_turn() -> None:
    batches = asyncio.run(play(Recorder(), {"x": 2, "y": 2}))
    assert batches == [["x0a", "x0b", "y0a", "y0b"], ["x1a", "x1b", "y1a", "y1b"]]


@pytest.mark.parametrize("engine", [Recorder, OneByOne])
def test_batches_do_not_depend_on_timing(engine: type[Recorder]) -> None:
    turns = {"x": 3, "y": 1, "z": 2}
    plain = asyncio.run(play(Recorder(), turns))
    slow = asyncio.run(play(engine(seconds=0.01), turns, {"x": 0.03, "z": 0.01}))
    assert plain == slow
    assert [len(batch) for batch in plain] == [6, 4, 2]


def test_finished_answer_is_delivered_while_the_batch_continues() -> None:
    finished: list[str] = []

    async def main() -> list[list[str]]:
        scheduler, model = Scheduler(episodes=2), OneByOne(seconds=0.02)

        async def one(name: str) -> None:
            for turn in range(2):
                await scheduler.act(model, request(name, turn, "a"))
                finished.append(f"{name}{turn} at {len(model.batches)}")
            scheduler.remove_episode()

        await asyncio.gather(one("x"), one("y"))
        return model.batches

    assert asyncio.run(main()) == [["x0a", "y0a"], ["x1a", "y1a"]]
    assert finished == ["x0 at 1", "y0 at 1", "x1 at 2", "y1 at 2"]


def test_a_batch_waits_for_another_models_batch() -> None:
    """Otherwise the batches would depend on which model is faster."""

    async def main(first: float, second: float) -> list[list[str]]:
        scheduler = Scheduler(episodes=2)
        quick, slow = OneByOne(seconds=first), OneByOne(seconds=second)

        async def one(name: str, models: tuple[Recorder, Recorder]) -> None:
            for turn, model in enumerate(models):
                await scheduler.act(model, request(name, turn, "a"))
            scheduler.remove_episode()

        await asyncio.gather(one("x", (quick, quick)), one("y", (slow, quick)))
        return quick.batches

    assert asyncio.run(main(0.0, 0.03)) == asyncio.run(main(0.03, 0.0)) == [["x0a"], ["x1a", "y1a"]]


def test_batch_failure_keeps_the_complete_answers() -> None:
    async def main() -> list[Action]:
        scheduler, model = Scheduler(episodes=2), Late()
        both = [act_both(scheduler, model, task, 0) for task in "xy"]
        return [action for actions in await asyncio.gather(*both) for action in actions]

    reasons = [action.finish_reason for action in asyncio.run(main())]
    assert reasons == ["stop", "stop", "failed", "failed"]


def test_too_few_answers_are_an_error() -> None:
    class Short(Recorder):
        async def generate(
            self, requests: Sequence[Request], progress: Progress | None = None
        ) -> list[Action]:
            return (await super().generate(requests, progress))[1:]

    async def main() -> list[Action]:
        return await act_both(Scheduler(episodes=1), Short(), "x", 0)

    failures = [action.failure for action in asyncio.run(main())]
    assert [failure.message for failure in failures if failure] == [
        "model 'recorder' returned an invalid answer: 2 requests returned 1 actions"
    ] * 2


def test_answers_that_are_no_actions_are_an_error() -> None:
    class Talking(Recorder):
        async def generate(self, requests: Sequence[Request], progress: Any = None) -> list[Any]:
            return ["Hello." for _ in requests]

    class Whispering(OneByOne):
        async def answer_each(
            self, requests: Sequence[Request], answered: Any, progress: Any = None
        ) -> None:
            answered(0, "Hello.")

    for model in (Talking(), Whispering()):
        action = asyncio.run(Scheduler(episodes=1).act(model, request("x", 0, "a")))
        assert action.failure
        assert action.failure.type == "ModelError"
        assert "'recorder' answered with a str; an engine answers" in action.failure.message


def test_a_continuous_engine_is_called_at_once() -> None:
    batches = asyncio.run(play(Recorder("continuous", 0.01), {"x": 1, "y": 1}))
    assert sorted(batches) == [["x0a"], ["x0b"], ["y0a"], ["y0b"]]


def test_slow_service_does_not_delay_a_static_engine() -> None:
    async def mixed() -> list[str]:
        scheduler, ended = Scheduler(episodes=2), []
        slow, local = Recorder("continuous", 0.2), Recorder()

        async def one(name: str, model: Recorder) -> None:
            await scheduler.act(model, request(name, 0, "a"))
            scheduler.remove_episode()
            ended.append(name)

        await asyncio.gather(one("claude", slow), one("local", local))
        return ended

    assert asyncio.run(mixed()) == ["local", "claude"]


def test_engine_error_becomes_a_failed_action() -> None:
    action = asyncio.run(Scheduler(episodes=1).act(Recorder(), request("x", 0, "broken")))
    assert action.failure is not None
    assert (action.failure.boundary, action.failure.type) == ("model", "ModelTimeout")


def test_canceled_request_does_not_block_the_others() -> None:
    async def main() -> list[list[str]]:
        scheduler, model = Scheduler(episodes=2), Recorder()

        async def impatient() -> None:
            try:
                async with asyncio.timeout(0.01):
                    await scheduler.act(model, request("x", 0, "a"))
            except TimeoutError:
                scheduler.remove_episode()

        async def patient() -> None:
            await asyncio.sleep(0.03)
            await scheduler.act(model, request("y", 0, "a"))
            scheduler.remove_episode()

        await asyncio.gather(impatient(), patient())
        return model.batches

    assert asyncio.run(main()) == [["y0a"]]


def test_missing_answer_from_an_engine_is_a_failure() -> None:
    async def main() -> list[Action]:
        async with asyncio.timeout(5):
            return await act_both(Scheduler(episodes=1), Forgetful(), "x", 0)

    first, last = asyncio.run(main())
    assert (first.text, first.failure) == ("a", None)
    assert last.failure is not None
    assert "no action for 1 of 2 requests" in last.failure.message


def test_cancellation_during_delivery_keeps_the_other_answers() -> None:
    async def main() -> Action:
        scheduler, model = Scheduler(episodes=2), Held()
        leaving = asyncio.create_task(scheduler.act(model, request("x", 0, "a")))
        staying = asyncio.create_task(scheduler.act(model, request("y", 0, "a")))
        await model.begun.wait()
        model.may_answer.set()  # the engine finishes before the cancellation takes effect
        leaving.cancel()
        async with asyncio.timeout(5):
            return await staying

    action = asyncio.run(main())
    assert (action.text, action.failure) == ("a", None)


def test_running_call_is_canceled_once() -> None:
    """A second cancellation would end the engine's wait for its call to stop."""
    stopped = []

    class Stopping(Recorder):
        async def generate(
            self, requests: Sequence[Request], progress: Progress | None = None
        ) -> list[Action]:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                await asyncio.sleep(0.05)
                stopped.append(len(requests))
                raise
            return []

    async def go() -> None:
        scheduler = Scheduler(2)
        model = Stopping()
        asking = [asyncio.create_task(scheduler.act(model, request(n, 0, "a"))) for n in "xy"]
        await asyncio.sleep(0.01)
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await scheduler.aclose()

    asyncio.run(go())
    assert stopped == [2]


TWO = {"engine": "vllm", "name": "m", "servers": ["http://one:1", "http://two:2"]}


@pytest.mark.parametrize(
    ("model", "concurrency", "expected"),
    [
        ("echo", None, DEFAULT_CONCURRENCY),
        ("smollm2-135m", None, DEFAULT_CONCURRENCY),
        ("vllm:smollm2-135m", None, WIDE_CONCURRENCY),
        (TWO, None, 2 * WIDE_CONCURRENCY),
        (TWO, 8, 8),
        ({"name": "smollm2-135m", "device": "cuda:99"}, None, DEFAULT_CONCURRENCY),
        ("echo", 100, 100),
    ],
)
def test_concurrency_depends_on_the_engine_unless_set(
    model: Any, concurrency: int | None, expected: int
) -> None:
    recipe = load_recipe("coding", task="humaneval", model="echo")
    data = {**recipe.model_dump(), "model": model, "concurrency": concurrency}
    assert concurrency_of(type(recipe).model_validate(data)) == expected


def test_a_local_model_on_a_gpu_gets_wide_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    recipe = load_recipe("coding", task="humaneval", model="smollm2-135m")
    monkeypatch.setattr(weights, "pick_device", lambda _: torch.device("cuda"))
    assert concurrency_of(recipe) == WIDE_CONCURRENCY
