"""vLLM in separate processes, compared with the trainer's weights."""

import asyncio
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from support.vllm_servers.questions import ask, request

from collab.errors import ModelUnavailable
from collab.models.conformance import conform
from collab.models.local.engine import TransformersEngine
from collab.models.vllm.engine import VLLMEngine
from collab.recipe import LoraSpec
from collab.records import Action
from collab.trainers.learner.lora import add_adapter, save_adapter

NOISE = 2e-3
"""Nats between two float32 implementations of one model."""

READ_AT_ONCE = 4096
"""Prompt tokens that vLLM processes per step on a CPU."""

CACHE_BLOCK = 128
"""Tokens per cache block of vLLM on a CPU."""


def logprobs_of(reference: TransformersEngine, action: Action, temperature: float) -> torch.Tensor:
    """The trainer's log-probs of the sampled tokens, [tokens]."""
    scaled = torch.log_softmax(logits_of(reference, action) / temperature, dim=-1)
    return scaled.gather(1, torch.tensor(action.token_ids)[:, None])[:, 0]


def logits_of(reference: TransformersEngine, action: Action) -> torch.Tensor:
    """The trainer's logits at every sampled token, [tokens, vocabulary]."""
    name = reference.load_adapter(action.adapter) if action.adapter else None
    ids = torch.tensor([[*action.prompt_ids, *action.token_ids]])
    module = reference.module
    if name:
        module.set_adapter(name)
    off = module.disable_adapter() if hasattr(module, "disable_adapter") else nullcontext()
    with torch.no_grad(), nullcontext() if name else off:
        logits: torch.Tensor = module(ids).logits[0, len(action.prompt_ids) - 1 : -1]
    return logits


def test_two_adapters_and_the_base_in_one_batch(
    engine: VLLMEngine, reference: TransformersEngine, adapters: dict[str, Path]
) -> None:
    kinds = [None, str(adapters["aux"]), str(adapters["main"])]
    requests = [
        request("Name a colour.", n, adapter=kind, temperature=temperature)
        for n, (kind, temperature) in enumerate((k, t) for k in kinds for t in (1.0, 0.7))
    ]
    for query, action in zip(requests, ask(engine, requests), strict=True):
        temperature = query.sampling.temperature
        found = torch.tensor(action.logprobs)
        expected = logprobs_of(reference, action, temperature)
        assert (found - expected).abs().max() < NOISE
        for other in set(kinds) - {query.adapter}:
            other_logprobs = logprobs_of(
                reference, action.model_copy(update={"adapter": other}), temperature
            )
            assert (found - other_logprobs).abs().max() > 10 * NOISE


def test_logprobs_match_the_truncated_distribution(
    engine: VLLMEngine, reference: TransformersEngine
) -> None:
    top_two = request("Name a colour.", temperature=0.7, top_k=2)
    sure = request("Name a colour.", top_p=0.001)
    pair, single = ask(engine, [top_two, sure])
    likeliest = (logits_of(reference, pair) / 0.7).topk(2)
    is_sampled = likeliest.indices == torch.tensor(pair.token_ids)[:, None]
    assert is_sampled.any(dim=-1).all()
    expected = likeliest.values.log_softmax(dim=-1)[is_sampled]
    assert (expected - torch.tensor(pair.logprobs)).abs().max() < NOISE
    assert single.logprobs == pytest.approx([0.0] * len(single.logprobs), abs=NOISE)


def test_prompts_beyond_one_prefill_batch_are_answered(engine: VLLMEngine) -> None:
    """Seeded requests with prompts too long for one prefill step."""
    texts = [f"{n} things: " + "name a colour, " * 30 for n in range(45)]
    actions = ask(engine, [request(text, n) for n, text in enumerate(texts)])
    assert all(action.failure is None for action in actions)
    assert sum(len(action.prompt_ids or ()) for action in actions) > READ_AT_ONCE


def test_greedy_answers_and_stop_strings_match_transformers(
    engine: VLLMEngine, reference: TransformersEngine, adapters: dict[str, Path]
) -> None:
    requests = [
        request(text, adapter=adapter, temperature=0.0, stop=stop)
        for text in ("Count to five.", "Write a Python function that adds two numbers.")
        for adapter in (None, str(adapters["aux"]))
        for stop in ((), ("e", "def"))
    ]
    for mine, theirs in zip(ask(engine, requests), ask(reference, requests), strict=True):
        assert mine.token_ids == theirs.token_ids
        assert (mine.text, mine.finish_reason) == (theirs.text, theirs.finish_reason)
        assert mine.prompt_ids == theirs.prompt_ids
        assert torch.tensor(mine.logprobs).sub(torch.tensor(theirs.logprobs)).abs().max() < NOISE


def test_adapter_published_ten_times_is_never_stale(
    engine: VLLMEngine, reference: TransformersEngine
) -> None:
    """The prompt and the adapter's name stay the same, so a stale cache would be noticed."""
    parameters = add_adapter(reference, "moving", LoraSpec(rank=4), seed=0, start=None)
    query = request("What of the sea? " * 25, adapter="moving", temperature=0.0, max_new_tokens=4)

    def write(folder: Path) -> None:
        save_adapter(reference, "moving", folder)

    logprobs_seen: set[tuple[float, ...]] = set()
    for version in range(10):
        torch.manual_seed(version)
        with torch.no_grad():
            for parameter in parameters.values():
                parameter.normal_(std=0.03)
        asyncio.run(engine.publish({"moving": write}, 0))
        [mine], [theirs] = ask(engine, [query]), ask(reference, [query])
        assert mine.token_ids == theirs.token_ids
        assert torch.tensor(mine.logprobs).sub(torch.tensor(theirs.logprobs)).abs().max() < NOISE
        assert mine.usage.cached_tokens == 0
        logprobs_seen.add(tuple(round(p, 3) for p in mine.logprobs))
    assert len(logprobs_seen) == 10
    [again] = ask(engine, [query])
    assert again.usage.cached_tokens >= CACHE_BLOCK, "the prompt is long enough to be cached"


def test_base_is_unaffected_by_changing_adapters(
    engine: VLLMEngine, reference: TransformersEngine, adapters: dict[str, Path]
) -> None:
    query = request("Name a colour.", temperature=0.0)
    [expected] = ask(reference, [query])
    with_adapters = [query.model_copy(update={"adapter": str(path)}) for path in adapters.values()]
    for _ in range(4):
        [base, *_] = ask(engine, [query, *with_adapters])
        assert base.token_ids == expected.token_ids
        gaps = torch.tensor(base.logprobs).sub(torch.tensor(expected.logprobs)).abs()
        assert gaps.max() < NOISE


def test_a_missing_adapter_is_not_answered_by_the_base(engine: VLLMEngine) -> None:
    [base, missing] = asyncio.run(
        engine.generate([request("Hello"), request("Hello", adapter="nowhere")])
    )
    assert base.failure is None
    assert missing.failure is not None
    assert "not an adapter that was given to the engine" in missing.failure.message


def test_sleep_is_refused_without_a_gpu(engine: VLLMEngine) -> None:
    spec = engine.spec.model_copy(update={"sleep": True})

    async def start() -> None:
        sleeper = VLLMEngine(spec)
        try:
            await sleeper.generate([request("Hello")])
        finally:
            await sleeper.aclose()

    if torch.cuda.is_available():
        pytest.skip("there is a GPU, which can sleep")
    with pytest.raises(ModelUnavailable, match="CUDA devices only"):
        asyncio.run(start())
    asyncio.run(engine.sleep())
    assert ask(engine, [request("Hello")]), "by default, sleep does nothing"


def test_killed_engine_is_restarted(engine: VLLMEngine, adapters: dict[str, Path]) -> None:
    query = request("Name a colour.", adapter=str(adapters["aux"]), max_new_tokens=64)
    [before] = ask(engine, [query])

    async def kill_under_way() -> Action:
        begun = asyncio.Event()
        call = asyncio.create_task(engine.generate([query], lambda *_: begun.set()))
        await begun.wait()
        for child in psutil.Process().children(recursive=True):
            if "VLLM" in child.name():
                child.kill()
        [action] = await call
        return action

    after = asyncio.run(kill_under_way())
    assert after.failure is None
    assert after.token_ids == before.token_ids


def test_killed_process_leaves_no_vllm_process(words: Path) -> None:
    code = (
        "import asyncio, sys, time\n"
        "from collab.models.vllm.engine import VLLMEngine\n"
        "from collab.recipe.model import VLLMSpec\n"
        "engine = VLLMEngine(VLLMSpec(name=sys.argv[1], kv_cache_gb=0.1))\n"
        "asyncio.run(engine.publish({}, 0))\n"
        "print('ready', flush=True)\n"
        "time.sleep(600)\n"
    )
    command = [sys.executable, "-c", code, str(words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        children = psutil.Process(process.pid).children(recursive=True)
        names = [child.name() for child in children]
        process.kill()
    assert [name for name in names if "VLLM" in name]
    _, alive = psutil.wait_procs(children, timeout=30)
    assert alive == []


def test_engine_conforms(engine: VLLMEngine, adapters: dict[str, Path]) -> None:
    """Must be the last test, because it closes the engine."""
    verdicts = asyncio.run(_sandbox(engine, adapters))
    assert {v.check: v.why for v in verdicts if v.outcome != "ok"} == {}


async def _sandbox(engine: VLLMEngine, adapters: dict[str, Path]) -> list[Any]:
    return [verdict async for verdict in conform(engine, [str(p) for p in adapters.values()])]
