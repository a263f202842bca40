"""Several LoRA adapters and the base model answer in one batch."""

import asyncio
import copy
import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from peft import LoraConfig, get_peft_model

from collab.errors import ModelError
from collab.models import Call, Request
from collab.models.local.adapters import check_harmless
from collab.models.local.engine import TransformersEngine
from collab.models.weights import quiet_transformers
from collab.records import Action, Message, Sampling


def request_of(number: int, adapter: str | Path | None, **sampling: Any) -> Request:
    return Request(
        call=Call(task="t", sample=number, turn=0, round=0, agent="main"),
        messages=(Message(role="user", content="word " * (number % 4 + 1)),),
        sampling=Sampling(max_new_tokens=10, **sampling),
        adapter=None if adapter is None else str(adapter),
        seed=number,
    )


def ask(engine: TransformersEngine, requests: list[Request]) -> list[Action]:
    return asyncio.run(engine.generate(requests))


def logprobs_under(engine: TransformersEngine, name: str | None, action: Action) -> list[float]:
    """Compute log-probs with one adapter, or with the base model."""
    module = engine.module
    ids = torch.tensor([[*action.prompt_ids, *action.token_ids]])
    module.eval()
    with torch.no_grad():
        if name is None:
            with module.disable_adapter():
                logits = module(ids).logits
        else:
            module.set_adapter(name)
            logits = module(ids).logits
    logprobs = torch.log_softmax(logits[0, len(action.prompt_ids) - 1 : -1], dim=-1)
    return logprobs.gather(1, torch.tensor(action.token_ids)[:, None])[:, 0].tolist()


def expect_from(engine: TransformersEngine, adapter: Path | None, action: Action) -> None:
    """Check that the action's log-probs match this adapter, or the base model."""
    name = None if adapter is None else engine.load_adapter(str(adapter))
    expected = logprobs_under(engine, name, action)
    assert list(action.logprobs) == pytest.approx(expected, abs=1e-4)


def test_runs_that_open_an_adapter_at_the_same_time_share_it(
    tiny_engine: TransformersEngine, adapters: dict[str, Path]
) -> None:
    async def go() -> None:
        await asyncio.gather(*(tiny_engine.open_early(str(adapters["aux"])) for _ in range(8)))

    asyncio.run(go())
    assert list(tiny_engine.module.peft_config) == ["adapter0"]


def test_mixed_batch_uses_the_adapter_of_each_row(
    tiny_engine: TransformersEngine, adapters: dict[str, Path]
) -> None:
    chosen = [None, adapters["aux"], adapters["main"]] * 3
    actions = ask(tiny_engine, [request_of(n, a) for n, a in enumerate(chosen)])
    for adapter, action in zip(chosen, actions, strict=True):
        assert action.adapter == (None if adapter is None else str(adapter))
        expect_from(tiny_engine, adapter, action)


def test_adapters_change_the_answer_and_are_loaded_once(
    tiny_engine: TransformersEngine, adapters: dict[str, Path]
) -> None:
    chosen = [None, adapters["aux"], adapters["main"], adapters["aux"]]
    base, aux, main, again = (
        a.token_ids
        for a in ask(tiny_engine, [request_of(0, adapter, temperature=0.0) for adapter in chosen])
    )
    assert len({base, aux, main}) == 3
    assert aux == again
    assert sorted(tiny_engine.module.peft_config) == ["adapter0", "adapter1"]


def test_adapters_that_do_not_fit_fail_alone(
    tiny_engine: TransformersEngine, adapters: dict[str, Path], tmp_path: Path
) -> None:
    good, wide, nothing, aux = ask(
        tiny_engine,
        [
            request_of(0, None),
            request_of(1, adapters["wide"]),
            request_of(2, tmp_path / "nothing"),
            request_of(3, adapters["aux"]),
        ],
    )
    assert good.failure is None
    assert aux.failure is None
    assert wide.failure is not None
    assert f"{adapters['wide']} does not fit" in wide.failure.message
    assert nothing.failure is not None
    assert "adapter_config.json" in nothing.failure.message
    with pytest.raises(ModelError, match="does not fit"):
        tiny_engine.load_adapter(str(adapters["wide"]))


def test_adapter_that_runs_out_of_memory_is_unloaded(
    tiny_engine: TransformersEngine, adapters: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_engine.load_adapter(str(adapters["main"]))
    held = set(tiny_engine.module.peft_config)

    def no_memory(*_: object, **__: object) -> None:
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 9 bytes")

    with monkeypatch.context() as patched:
        patched.setattr(type(tiny_engine.module), "load_adapter", no_memory)
        with pytest.raises(ModelError, match="no memory is left"):
            tiny_engine.load_adapter(str(adapters["aux"]))
    assert set(tiny_engine.module.peft_config) == held
    tiny_engine.load_adapter(str(adapters["aux"]))


def test_trainer_adapters_are_used_by_name_and_keep_their_gradients(
    tiny_engine: TransformersEngine, adapters: dict[str, Path]
) -> None:
    config = LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM")
    with quiet_transformers():
        module = get_peft_model(tiny_engine.module, config, adapter_name="trained")
    tiny_engine.module = module
    trainable = [p for p in module.parameters() if p.requires_grad]
    requests = [
        request_of(0, "trained", temperature=0.0),
        request_of(0, None, temperature=0.0),
        request_of(0, adapters["aux"]),
    ]
    untouched, base, _ = ask(tiny_engine, requests)
    assert untouched.token_ids == base.token_ids
    with torch.no_grad():
        for parameter in trainable:
            parameter.normal_(std=0.5)
    assert ask(tiny_engine, requests)[0].token_ids != base.token_ids
    assert [p for p in module.parameters() if p.requires_grad] == trainable
    assert module.active_adapters == ["trained"]


def test_adapter_with_its_own_layer_affects_only_its_rows(
    tiny_engine: TransformersEngine, tmp_path: Path
) -> None:
    config = LoraConfig(r=2, target_modules=["q_proj"], modules_to_save=["lm_head"])
    base = copy.deepcopy(tiny_engine.module)
    with quiet_transformers():
        module = get_peft_model(base, config)
        torch.nn.init.normal_(module.lm_head.modules_to_save["default"].weight)
        module.save_pretrained(tmp_path)
    chosen = [None, tmp_path]
    actions = ask(tiny_engine, [request_of(n, a) for n, a in enumerate(chosen)])
    for adapter, action in zip(chosen, actions, strict=True):
        expect_from(tiny_engine, adapter, action)


def test_loaded_adapter_gets_an_unused_name(
    tiny_engine: TransformersEngine, adapters: dict[str, Path]
) -> None:
    config = LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM")
    with quiet_transformers():
        tiny_engine.module = get_peft_model(tiny_engine.module, config, adapter_name="adapter0")
    assert tiny_engine.load_adapter(str(adapters["aux"])) == "adapter1"
    assert set(tiny_engine.module.peft_config) == {"adapter0", "adapter1"}


def configured(adapter: Path, copy: Path, setting: dict[str, Any]) -> Path:
    """A copy of the adapter with `setting` in its configuration."""
    path = shutil.copytree(adapter, copy) / "adapter_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **setting}))
    return copy


def test_an_adapter_in_another_format_is_refused(tmp_path: Path, adapters: dict[str, Path]) -> None:
    folder = shutil.copytree(adapters["aux"], tmp_path / "adapter")
    (folder / "adapter_model.safetensors").rename(folder / "adapter_model.bin")
    with pytest.raises(ValueError, match=r"no adapter_model\.safetensors"):
        check_harmless(folder)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"megatron_config": {"x": 1}, "megatron_core": "antigravity"}, "a module to import"),
        ({"peft_type": "XLORA"}, "its type is 'XLORA', but only LORA is supported"),
        ({"r": 10**9}, "its rank is 1000000000, but only 1 to 1024 are supported"),
        ({"rank_pattern": {"q_proj": 10**9}}, "its rank is 1000000000"),
        ({"rank_pattern": {"(.*)*x": 2}}, r"its rank_pattern contains '(.*)*x', but only plain"),
        ({"alpha_pattern": {"(.*)*x": 2}}, "its alpha_pattern contains"),
        ({"target_modules": "(a|a|aa)+$b"}, "its target_modules contains '(a|a|aa)+$b'"),
        ({"target_modules": [""]}, "its target_modules contains ''"),
        ({"target_modules": ["q_proj"] * 1001}, "contains 1,001 names, limit 1,000"),
        ({"exclude_modules": "(a+)+$"}, "its exclude_modules contains"),
        ({"modules_to_save": ["(a+)+$"]}, "its modules_to_save contains"),
        ({"layers_pattern": ["(a+)+$"]}, "its layers_pattern contains"),
        ({"layer_replication": [[0, 2]] * 99}, "its layer_replication repeats layers"),
        ({"init_lora_weights": "pissa_niter_999999999"}, "its init_lora_weights is"),
        ({"init_lora_weights": "loftq"}, "its init_lora_weights is"),
        ({"auto_mapping": "x" * 10**6}, "is larger than 1,000,000 bytes"),
    ],
)
def test_harmful_adapter_config_is_refused(
    tmp_path: Path, adapters: dict[str, Path], setting: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        check_harmless(configured(adapters["aux"], tmp_path / "adapter", setting))


@pytest.mark.parametrize(
    "setting", [{"trainable_token_indices": [10**12]}, {"arrow_config": {"top_k": 1}}]
)
def test_adapter_config_that_peft_cannot_use_is_refused(
    tiny_engine: TransformersEngine,
    tmp_path: Path,
    adapters: dict[str, Path],
    setting: dict[str, Any],
) -> None:
    folder = configured(adapters["aux"], tmp_path / "adapter", setting)
    with pytest.raises(ModelError, match="does not fit model"):
        tiny_engine.load_adapter(str(folder))


@pytest.mark.parametrize(
    "setting",
    [
        {"target_modules": "all-linear"},
        {"target_modules": ["q_proj", "model.layers.0.self_attn.v_proj"]},
        {"rank_pattern": {"model.layers.0.q_proj": 4}, "alpha_pattern": {"q_proj": 1.5}},
        {"modules_to_save": ["lm_head"], "exclude_modules": ["k_proj"]},
        {"trainable_token_indices": [0, 3], "init_lora_weights": "pissa_niter_16"},
    ],
)
def test_ordinary_adapter_config_is_accepted(
    tmp_path: Path, adapters: dict[str, Path], setting: dict[str, Any]
) -> None:
    check_harmless(configured(adapters["aux"], tmp_path / "adapter", setting))
