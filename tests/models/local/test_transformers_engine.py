"""The transformers engine on a tiny random Llama: its answers, its records and its end."""

import asyncio
import gc
import time
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import torch
from support.loops import in_loop
from support.shares import one_in

from collab.errors import ModelError, ModelUnavailable, UnknownName
from collab.models import Call, Request
from collab.models.local.engine import TransformersEngine
from collab.models.local.fast import prepacked_weights
from collab.models.local.fast.accelerated import fused_projections
from collab.models.local.fast.prepacked_weights import can_pack
from collab.models.local.kv_cache import KVCache
from collab.recipe.model import TransformersSpec
from collab.records import Action, Message, Sampling

END = 96


def request_of(number: int = 0, text: str = "abc", seed: int | None = None, **more: Any) -> Request:
    adapter = more.pop("adapter", None)
    return Request(
        call=Call(task="t", sample=number, turn=0, round=0, agent="main"),
        messages=(Message(role="user", content=text),),
        sampling=Sampling(**{"max_new_tokens": 12, **more}),
        adapter=adapter,
        seed=number if seed is None else seed,
    )


def mixed_requests() -> list[Request]:
    """Prompts of different lengths with different settings."""
    return [
        request_of(
            n,
            text="word " * (n % 7 + 1),
            temperature=[0.0, 0.5, 1.0, 1.7][n % 4],
            max_new_tokens=4 + 5 * (n % 5),
        )
        for n in range(16)
    ]


def ask(engine: TransformersEngine, requests: list[Request], progress: Any = None) -> list[Action]:
    return asyncio.run(engine.generate(requests, progress))


def forced_logprobs(module: Any, action: Action, temperature: float) -> list[float]:
    """Compute an action's log-probs by one unpadded forward pass."""
    ids = torch.tensor([[*action.prompt_ids, *action.token_ids]])
    with torch.no_grad():
        logits = module(ids).logits[0, len(action.prompt_ids) - 1 : -1]
    logprobs = torch.log_softmax(logits / (temperature or 1.0), dim=-1)
    return logprobs.gather(1, torch.tensor(action.token_ids)[:, None])[:, 0].tolist()


def test_logprobs_match_a_teacher_forced_pass(tiny_engine: TransformersEngine) -> None:
    requests = mixed_requests()
    for request, action in zip(requests, ask(tiny_engine, requests), strict=True):
        forced = forced_logprobs(tiny_engine.module, action, request.sampling.temperature)
        assert list(action.logprobs) == pytest.approx(forced, abs=1e-4)


def test_the_same_seed_gives_the_same_tokens(tiny_engine: TransformersEngine) -> None:
    first, again = (ask(tiny_engine, mixed_requests()) for _ in range(2))
    assert [a.token_ids for a in first] == [a.token_ids for a in again]
    other = ask(tiny_engine, [request_of(seed=1), request_of(seed=2), request_of(seed=1)])
    assert other[0].token_ids == other[2].token_ids != other[1].token_ids


def test_row_is_independent_of_the_rest_of_its_batch(tiny_engine: TransformersEngine) -> None:
    requests = mixed_requests()
    together = ask(tiny_engine, requests)
    alone = [ask(tiny_engine, [request])[0] for request in requests]
    assert [a.token_ids for a in together] == [a.token_ids for a in alone]


def test_small_token_budget_does_not_change_the_answers(tiny: Path) -> None:
    requests = mixed_requests()
    answers = []
    for budget in (256, 32_768):
        engine = TransformersEngine(
            TransformersSpec(name=str(tiny), dtype="float32", batch_tokens=budget)
        )
        answers.append([a.token_ids for a in ask(engine, requests)])
        asyncio.run(engine.aclose())
    assert answers[0] == answers[1]


@pytest.mark.skipif(not can_pack(torch.float32, torch.device("cpu")), reason="nothing packs here")
def test_packed_weights_are_kept_on_request(tiny: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prepacked_weights, "MIN_PACKED_WEIGHTS", 1)
    answers, held = [], []
    for packs in (True, False):
        spec = TransformersSpec(name=str(tiny), dtype="float32", device="cpu", fast=packs)
        engine = TransformersEngine(spec)
        answers.append([a.token_ids for a in ask(engine, mixed_requests())])
        held.append(
            [
                group[0] in prepacked_weights._PACKED_GROUPS
                for group in fused_projections(engine.module)
            ]
        )
        asyncio.run(engine.aclose())
    assert answers[0] == answers[1]
    assert all(held[0])
    assert not any(held[1])


def test_each_row_keeps_its_own_length(tiny_engine: TransformersEngine) -> None:
    requests = [request_of(n, max_new_tokens=n + 1, temperature=1.0) for n in range(12)]
    for request, action in zip(requests, ask(tiny_engine, requests), strict=True):
        ended = action.token_ids[-1] == END
        assert ended or len(action.token_ids) == request.sampling.max_new_tokens
        assert action.finish_reason == ("stop" if ended else "length")
        assert len(action.logprobs) == len(action.token_ids) == action.usage.new_tokens
        assert action.usage.prompt_tokens == len(action.prompt_ids)


def test_end_of_turn_token_is_recorded_but_not_shown(tiny_engine: TransformersEngine) -> None:
    requests = [request_of(n, temperature=5.0, max_new_tokens=60) for n in range(40)]
    ended = [a for a in ask(tiny_engine, requests) if a.finish_reason == "stop"]
    assert ended
    for action in ended:
        assert action.token_ids.index(END) == len(action.token_ids) - 1
        assert "<|" not in action.text


def test_empty_response_is_valid(tiny_engine: TransformersEngine) -> None:
    requests = [request_of(n, temperature=5.0, max_new_tokens=1) for n in range(800)]
    empty = [a for a in ask(tiny_engine, requests) if a.token_ids == (END,)]
    assert empty
    assert all((a.text, a.finish_reason, a.failure) == ("", "stop", None) for a in empty)


def test_a_stop_string_ends_its_row_only(tiny_engine: TransformersEngine) -> None:
    [full] = ask(tiny_engine, [request_of(temperature=0.0, max_new_tokens=30)])
    stop = full.text[8:11]
    assert stop
    cut, free = ask(
        tiny_engine,
        [
            request_of(temperature=0.0, max_new_tokens=30, stop=("never!", stop)),
            request_of(temperature=0.0, max_new_tokens=30),
        ],
    )
    assert cut.text == full.text[: full.text.index(stop)]
    assert cut.finish_reason == "stop"
    assert cut.token_ids == full.token_ids[: len(cut.token_ids)]
    assert len(cut.token_ids) < len(free.token_ids)
    assert free.token_ids == full.token_ids


def test_prompt_token_ids_are_used_unchanged(tiny_engine: TransformersEngine) -> None:
    [action] = ask(tiny_engine, [request_of(temperature=0.0)])
    call = Call(task="t", sample=0, turn=0, round=0, agent="main")
    sampling = Sampling(temperature=0.0, max_new_tokens=12)
    [repeated] = ask(
        tiny_engine, [Request(call=call, prompt_ids=action.prompt_ids, sampling=sampling)]
    )
    assert repeated.token_ids == action.token_ids


def test_unanswerable_requests_fail_individually(tiny_engine: TransformersEngine) -> None:
    nothing = Request(call=Call(task="t", sample=0, turn=0, round=0, agent="main"))
    good, long, wide, empty = ask(
        tiny_engine,
        [request_of(), request_of(text="x" * 500), request_of(max_new_tokens=190), nothing],
    )
    assert good.failure is None
    for action, words in [(long, "503 tokens"), (wide, "set sampling.max_new_tokens to 186")]:
        assert action.failure is not None
        assert action.failure.type == "ContextOverflow"
        assert "192 tokens" in action.failure.message
        assert words in action.failure.message
    assert empty.failure is not None
    assert "neither messages nor prompt_ids" in empty.failure.message


def test_missing_chat_template_is_a_failure(tiny_engine: TransformersEngine) -> None:
    tiny_engine.tokenizer.chat_template = None
    [action] = ask(tiny_engine, [request_of()])
    assert action.failure is not None
    assert "no chat template" in action.failure.message


def test_progress_streams_the_whole_text_on_the_event_loop(tiny_engine: TransformersEngine) -> None:
    texts = {0: "", 1: ""}
    counts = {0: 0, 1: 0}

    def progress(request: Request, n_tokens: int, text: str) -> None:
        asyncio.get_running_loop()
        texts[request.call.sample] += text
        counts[request.call.sample] = n_tokens

    actions = ask(tiny_engine, [request_of(0), request_of(1, max_new_tokens=3)], progress)
    for number, action in enumerate(actions):
        assert counts[number] == len(action.token_ids)
        assert action.text == texts[number]


def test_answer_is_delivered_when_its_row_ends(tiny_engine: TransformersEngine) -> None:
    """Each answer arrives after its last progress report, while longer rows still run."""
    lengths = [24, 4, 12]
    requests = [request_of(n, max_new_tokens=length) for n, length in enumerate(lengths)]
    events: list[tuple[str, int]] = []

    async def main() -> dict[int, Action]:
        found: dict[int, Action] = {}

        def answered(index: int, action: Action) -> None:
            found[index] = action
            events.append(("answered", index))

        def progress(request: Request, tokens: int, text: str) -> None:
            events.append(("progress", request.call.sample))

        await tiny_engine.answer_each(requests, answered, progress)
        return found

    found = asyncio.run(main())
    ended = [n for kind, n in events if kind == "answered"]
    assert ended == sorted(range(3), key=lambda n: len(found[n].token_ids))
    for n in range(3):
        assert ("progress", n) not in events[events.index(("answered", n)) :]
    again = ask(tiny_engine, requests)
    assert [a.token_ids for a in again] == [found[n].token_ids for n in range(3)]


def test_calls_at_the_same_time_queue_up(tiny_engine: TransformersEngine) -> None:
    async def go() -> list[list[Action]]:
        return await asyncio.gather(*(tiny_engine.generate([request_of(n)]) for n in range(4)))

    answers = asyncio.run(go())
    together = [a.token_ids for [a] in answers]
    assert together == [ask(tiny_engine, [request_of(n)])[0].token_ids for n in range(4)]


def test_seconds_count_from_dispatch(tiny_engine: TransformersEngine) -> None:
    async def go() -> list[Action]:
        tiny_engine._thread.submit(time.sleep, 0.5)  # the call waits for half a second
        return await tiny_engine.generate([request_of()])

    [answer] = asyncio.run(go())
    assert answer.seconds >= 0.4


def test_model_state_is_restored_after_sampling(tiny_engine: TransformersEngine) -> None:
    module = tiny_engine.module
    module.train()
    ask(tiny_engine, [request_of()])
    assert module.training
    assert module.generation_config.repetition_penalty == 1.7
    assert not any(m._forward_pre_hooks for m in module.modules())


def test_loading_prints_nothing(tiny: Path, capfd: pytest.CaptureFixture[str]) -> None:
    engine = TransformersEngine(TransformersSpec(name=str(tiny)))
    ask(engine, [request_of(text="x" * 300)])
    asyncio.run(engine.aclose())
    assert capfd.readouterr() == ("", "")


def test_each_invalid_model_has_its_own_error(tiny: Path, tmp_path: Path) -> None:
    with pytest.raises(UnknownName, match="did you mean 'smollm2-135m'"):
        TransformersEngine(TransformersSpec(name="smollm-135m"))
    with pytest.raises(ModelUnavailable, match="unknown device 'tpu9'"):
        TransformersEngine(TransformersSpec(name=str(tiny), device="tpu9")).load()
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    with pytest.raises(ModelUnavailable, match="cannot be loaded"):
        TransformersEngine(TransformersSpec(name=str(tmp_path))).load()


def test_unavailable_device_is_refused(tiny: Path) -> None:
    spec = TransformersSpec(name=str(tiny), device=f"cuda:{torch.cuda.device_count()}")
    with pytest.raises(ModelUnavailable, match="torch sees"):
        TransformersEngine(spec).load()


def test_nan_logits_are_an_error(tiny_engine: TransformersEngine) -> None:
    with torch.no_grad():
        tiny_engine.module.lm_head.weight.fill_(float("nan"))
    with pytest.raises(ModelError, match=r"NaN or infinite.*in float32"):
        ask(tiny_engine, [request_of()])


class Scarce:
    """Simulates memory for `rows` rows that runs out after `after` tokens; records what ran."""

    def __init__(self, engine: TransformersEngine, rows: int, after: int = 0) -> None:
        self.ran: list[int] = []
        self.caches: list[int] = []
        self._rows, self._left = rows, after
        engine.module.lm_head.register_forward_pre_hook(self._read)

    def _read(self, _: Any, inputs: tuple[torch.Tensor]) -> None:
        self._left -= 1
        if len(inputs[0]) > self._rows and self._left < 0:
            self.caches.append(sum(isinstance(x, KVCache) for x in gc.get_objects()))
            raise torch.OutOfMemoryError("CUDA out of memory")
        self.ran.append(len(inputs[0]))


@pytest.mark.parametrize("after", one_in(2, [3, 0]))
def test_answers_are_unchanged_by_smaller_batches_after_out_of_memory(
    tiny_engine: TransformersEngine, after: int, caplog: pytest.LogCaptureFixture
) -> None:
    requests = [*mixed_requests(), *(request_of(n) for n in range(20, 24))]
    exact = ask(tiny_engine, requests)
    scarce = Scarce(tiny_engine, 3, after)
    shown: dict[int, str] = {}

    def progress(request: Request, _: int, text: str) -> None:
        shown[request.seed] = shown.get(request.seed, "") + text

    gc.disable()
    try:
        found = ask(tiny_engine, requests, progress)
    finally:
        gc.enable()
    assert set(scarce.caches) == {1}, "a batch is freed before the next one starts"
    assert [a.token_ids for a in found] == [a.token_ids for a in exact]
    assert [a.finish_reason for a in found] == [a.finish_reason for a in exact]
    assert [shown[request.seed] for request in requests] == [a.text for a in exact]
    for ours, theirs in zip(found, exact, strict=True):
        assert ours.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)
    assert max(scarce.ran[after:]) <= 3
    first, *_, last = caplog.messages
    assert "ran out of memory on cpu in a batch of 20 rows of up to" in first
    tokens = int(last.split("collab continues with model.batch_tokens=")[1])
    caplog.clear()
    assert [a.token_ids for a in ask(tiny_engine, requests)] == [a.token_ids for a in exact]
    assert not caplog.messages, f"the engine goes on with {tokens} tokens"


def test_response_that_exceeds_memory_alone_is_an_error(tiny_engine: TransformersEngine) -> None:
    def too_much(*_: Any) -> None:
        torch.empty(1 << 60, dtype=torch.uint8)

    tiny_engine.module.lm_head.register_forward_pre_hook(too_much)
    with pytest.raises(ModelError, match=r"in a batch of 1 row of up to \d+ tokens; lower samp"):
        ask(tiny_engine, [request_of(), request_of(1)])


@pytest.mark.parametrize(("named", "held"), [(None, "sdpa"), ("eager", "eager")])
def test_attention_implementation_follows_the_recipe(tiny: Path, named: Any, held: str) -> None:
    engine = TransformersEngine(TransformersSpec(name=str(tiny), attn_implementation=named))
    assert engine.module.config._attn_implementation == held
    asyncio.run(engine.aclose())


CALL = Call(task="t", sample=0, turn=0, round=0, agent="a")
REQUEST = Request(call=CALL, messages=(Message(role="user", content="abc"),))


@in_loop
async def test_waiting_requests_fail_when_the_engine_is_closed(tiny: Path) -> None:
    """The requests fail instead of being canceled, so callers continue."""
    engine = TransformersEngine(TransformersSpec(name=str(tiny)))
    requests = [asyncio.create_task(engine.generate([REQUEST])) for _ in range(3)]
    await asyncio.sleep(0)  # at most one is being answered; the others wait
    await engine.aclose()
    await asyncio.gather(*requests, return_exceptions=True)
    for work in (requests[2], asyncio.create_task(engine.generate([REQUEST]))):
        with pytest.raises(ModelUnavailable, match="is closed"):
            await work


@in_loop
async def test_canceling_a_queued_request_returns_at_once(
    tiny: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = TransformersEngine(TransformersSpec(name=str(tiny)))
    begun, go_on = Event(), Event()
    calls = []

    def slow(*_: object) -> None:
        calls.append(1)
        begun.set()
        go_on.wait(30)

    monkeypatch.setattr(engine, "_answer", slow)
    first, second = (
        asyncio.create_task(engine.answer_each([REQUEST], lambda *_: None)) for _ in range(2)
    )
    await asyncio.to_thread(begun.wait, 30)
    second.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(second, 10)
    assert not first.done()
    go_on.set()
    await first
    await engine.aclose()
    assert calls == [1], "a canceled request does not start later"
