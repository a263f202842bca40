"""Models of Qwen2.5's published shapes, with random weights that are made on the device."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 2,
        "vocab_size": 512,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "tie_word_embeddings": True,
    },
    "0.5B": {
        "hidden_size": 896,
        "intermediate_size": 4864,
        "num_hidden_layers": 24,
        "vocab_size": 151_936,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "tie_word_embeddings": True,
    },
    "1.5B": {
        "hidden_size": 1536,
        "intermediate_size": 8960,
        "num_hidden_layers": 28,
        "vocab_size": 151_936,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "tie_word_embeddings": True,
    },
    "3B": {
        "hidden_size": 2048,
        "intermediate_size": 11_008,
        "num_hidden_layers": 36,
        "vocab_size": 151_936,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "tie_word_embeddings": True,
    },
    "7B": {
        "hidden_size": 3584,
        "intermediate_size": 18_944,
        "num_hidden_layers": 28,
        "vocab_size": 152_064,
        "num_attention_heads": 28,
        "num_key_value_heads": 4,
        "tie_word_embeddings": False,
    },
}

CONTEXT = 4096


def config_of(shape: str) -> Any:
    from transformers import Qwen2Config

    named = {"bos_token_id": None, "eos_token_id": 1, "pad_token_id": 2}
    return Qwen2Config(**SHAPES[shape], **named, max_position_embeddings=CONTEXT)


def save_description(shape: str, folder: Path) -> None:
    """The configuration, and a tokenizer of bytes and numbered words; no weights."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    config = config_of(shape)
    config.architectures = ["Qwen2ForCausalLM"]
    config.save_pretrained(folder)
    letters = dict(enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()), start=3))
    words = {letters.get(n, f"w{n}"): n for n in range(config.vocab_size)}
    core = Tokenizer(models.BPE(vocab=words, merges=[]))
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="w1", pad_token="w2")
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }} {% endfor %}"
    tokenizer.save_pretrained(folder)


def random_model(shape: str, device: torch.device, dtype: torch.dtype = torch.bfloat16) -> Any:
    from transformers import AutoModelForCausalLM

    torch.manual_seed(0)
    with torch.device(device):
        return AutoModelForCausalLM.from_config(config_of(shape), dtype=dtype).eval()


@contextmanager
def opened(shape: str, device: torch.device) -> Iterator[Any]:
    """A `TransformersEngine` that holds the model; its memory is given back at the end."""
    import asyncio

    from transformers import AutoTokenizer

    from collab.models.local.engine import TransformersEngine
    from collab.models.local.generation import Generation
    from collab.models.weights import LoadedModel, pick_dtype, quiet_transformers
    from collab.recipe.model import TransformersSpec

    with tempfile.TemporaryDirectory() as name, quiet_transformers():
        save_description(shape, Path(name))
        spec = TransformersSpec(name=name, device=str(device))
        engine = TransformersEngine(spec)
        module = random_model(shape, device, pick_dtype("auto", device))
        tokenizer = AutoTokenizer.from_pretrained(name)
        loaded = LoadedModel(module, tokenizer, device, CONTEXT, frozenset(), 2)
        engine._generation = Generation(loaded, spec)
        del module, loaded
        yield engine
        asyncio.run(engine.aclose())
