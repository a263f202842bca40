"""Which requests share a batch."""

import asyncio
from collections.abc import Sequence

from collab.errors import ModelTimeout
from collab.models import Call, Progress, Request
from collab.records import Action
from collab.runtime.scheduler import Scheduler


class Recorder:
    """A real engine for these tests: answers with the agent's name, keeps its batches."""

    def __init__(self, batching: str = "static", seconds: float = 0.0) -> None:
        self.name, self.batching, self.seconds = "recorder", batching, seconds
        self.batches: list[list[str]] = []

    async def generate(
        self, requests: Sequence[Request], progress: Progress | None = None
    ) -> list[Action]:
        self.batches.append([f"{r.call.task}{r.call.turn}{r.call.agent}" for r in requests])
        await asyncio.sleep(self.seconds)
        if any(request.call.agent == "broken" for request in requests):
            raise ModelTimeout("no answer within 1 s")
        return [Action(text=request.call.agent) for request in requests]

    async def aclose(self) -> None: ...


def request(task: str, turn: int, agent: str) -> Request:
    return Request(call=Call(task=task, sample=0, turn=turn, round=0, agent=agent))


async def lane(
    scheduler: Scheduler, model: Recorder, task: str, turns: int, pause: float = 0.0
) -> None:
    for turn in range(turns):
        await scheduler.act([(model, request(task, turn, agent)) for agent in "ab"])
        await asyncio.sleep(pause)
    scheduler.leave()


async def play(model: Recorder, turns: dict[str, int], pauses: dict[str, float] | None = None):
    scheduler = Scheduler(lanes=len(turns))
    pauses = pauses or {}
    await asyncio.gather(
        *(lane(scheduler, model, task, n, pauses.get(task, 0.0)) for task, n in turns.items())
    )
    return model.batches


def test_a_static_engine_gets_one_batch_a_turn() -> None:
    batches = asyncio.run(play(Recorder(), {"x": 2, "y": 2}))
    assert batches == [["x0a", "x0b", "y0a", "y0b"], ["x1a", "x1b", "y1a", "y1b"]]


def test_batches_do_not_depend_on_timing() -> None:
    turns = {"x": 3, "y": 1, "z": 2}
    plain = asyncio.run(play(Recorder(), turns))
    slow = asyncio.run(play(Recorder(seconds=0.01), turns, {"x": 0.03, "z": 0.01}))
    assert plain == slow
    assert [len(batch) for batch in plain] == [6, 4, 2]


def test_a_continuous_engine_is_called_at_once() -> None:
    batches = asyncio.run(play(Recorder("continuous", 0.01), {"x": 1, "y": 1}))
    assert sorted(batches) == [["x0a"], ["x0b"], ["y0a"], ["y0b"]]


def test_waiting_for_a_slow_service_does_not_hold_up_a_static_engine() -> None:
    async def mixed() -> list[str]:
        scheduler, ended = Scheduler(lanes=2), []
        slow, local = Recorder("continuous", 0.2), Recorder()

        async def one(name: str, model: Recorder) -> None:
            await scheduler.act([(model, request(name, 0, "a"))])
            scheduler.leave()
            ended.append(name)

        await asyncio.gather(one("claude", slow), one("local", local))
        return ended

    assert asyncio.run(mixed()) == ["local", "claude"]


def test_an_engines_trouble_is_a_failed_action() -> None:
    async def act() -> list[Action]:
        return await Scheduler(lanes=1).act([(Recorder(), request("x", 0, "broken"))])

    [action] = asyncio.run(act())
    assert action.failure is not None
    assert (action.failure.boundary, action.failure.type) == ("model", "ModelTimeout")


def test_a_withdrawn_wait_lets_the_others_go_on() -> None:
    async def main() -> list[list[str]]:
        scheduler, model = Scheduler(lanes=2), Recorder()

        async def impatient() -> None:
            try:
                async with asyncio.timeout(0.01):
                    await scheduler.act([(model, request("x", 0, "a"))])
            except TimeoutError:
                scheduler.leave()

        async def late() -> None:
            await asyncio.sleep(0.03)
            await scheduler.act([(model, request("y", 0, "a"))])
            scheduler.leave()

        await asyncio.gather(impatient(), late())
        return model.batches

    assert asyncio.run(main()) == [["y0a"]]
