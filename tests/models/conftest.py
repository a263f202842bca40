"""A tiny random Llama with a byte tokenizer, its adapters, and the real default model."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collab.models import store
from collab.models.local.engine import TransformersEngine
from collab.recipe.model import TransformersSpec

CHAT = (
    "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIAL = ["<|end|>", "<|pad|>", "<|system|>", "<|user|>", "<|assistant|>"]
CONTEXT = 192
END = 96


def _save_tokenizer(folder: Path) -> int:
    """Save a tokenizer with one token per ASCII character and special ones; return its size."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = [chr(code) for code in range(33, 127)] + ["Ġ", "Ċ"]
    vocabulary = {symbol: i for i, symbol in enumerate(alphabet)}
    core = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token="<|end|>",
        pad_token="<|pad|>",
        additional_special_tokens=SPECIAL[2:],
        chat_template=CHAT,
    )
    tokenizer.save_pretrained(folder)
    return len(tokenizer)


def _save_llama(folder: Path, *, hidden: int, seed: int) -> None:
    import torch
    from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM

    vocabulary = _save_tokenizer(folder)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        initializer_range=0.2,
        bos_token_id=None,
        eos_token_id=END,
        pad_token_id=END + 1,
    )
    torch.manual_seed(seed)
    model = LlamaForCausalLM(config)
    # Sampling defaults like those of hub models; they must not change log-probs.
    model.generation_config = GenerationConfig(
        eos_token_id=END,
        pad_token_id=END + 1,
        do_sample=True,
        temperature=0.3,
        repetition_penalty=1.7,
    )
    model.save_pretrained(folder)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama: hidden size 32, 2 layers, 101 tokens, context 192."""
    folder = tmp_path_factory.mktemp("tiny")
    _save_llama(folder, hidden=32, seed=0)
    return folder


@pytest.fixture(scope="session")
def adapters(tiny: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """LoRA adapters by name: `aux` and `main` fit the tiny model, `wide` fits another."""
    root = tmp_path_factory.mktemp("adapters")
    other = tmp_path_factory.mktemp("wide")
    _save_llama(other, hidden=64, seed=1)
    for name, base, seed in [("aux", tiny, 1), ("main", tiny, 2), ("wide", other, 3)]:
        _save_adapter(root / name, base, seed)
    return {path.name: path for path in root.iterdir()}


def _save_adapter(folder: Path, base: Path, seed: int, std: float = 0.3) -> None:
    import torch
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    from collab.models.weights import quiet_transformers

    config = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    with quiet_transformers():
        model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), config)
    torch.manual_seed(seed)
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(parameter, std=std)
    model.save_pretrained(folder)


@pytest.fixture
def tiny_engine(tiny: Path) -> Iterator[TransformersEngine]:
    """A new engine with the tiny model, in float32."""
    engine = TransformersEngine(TransformersSpec(name=str(tiny), dtype="float32", device="cpu"))
    yield engine
    asyncio.run(engine.aclose())


@pytest.fixture(scope="session")
def smollm2() -> Iterator[Any]:
    """The real default model from the user's cache; downloaded if missing."""
    store.resolve("smollm2-135m")
    engine = TransformersEngine(TransformersSpec(name="smollm2-135m", device="cpu"))
    yield engine
    asyncio.run(engine.aclose())


@pytest.fixture(scope="session")
def smollm2_adapters(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two LoRA adapters that change the answers of the default model."""
    base = store.resolve("smollm2-135m")
    folders = [tmp_path_factory.mktemp("smollm2") / name for name in ("aux", "main")]
    for seed, folder in enumerate(folders):
        _save_adapter(folder, base, seed, std=0.05)
    return folders
