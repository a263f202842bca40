"""A tiny random Llama whose every token is a word: small enough to train in a test."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

CHAT = "{% for m in messages %}{{ m.role }} {{ m.content }} end {% endfor %}assistant"


def save_tiny(
    folder: Path, words: Sequence[str], *, hidden: int = 32, spread: float = 0.2, seed: int = 0
) -> Path:
    """A Llama of two layers that knows `words`; its weights are drawn with deviation `spread`."""
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    vocabulary = [*words, "end", "unknown", "system", "user", "assistant"]
    ids = {word: n for n, word in enumerate(vocabulary)}
    core = Tokenizer(models.WordLevel(vocab=ids, unk_token="unknown"))
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        eos_token="end",
        pad_token="unknown",
        unk_token="unknown",
        chat_template=CHAT,
    )
    tokenizer.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=len(vocabulary),
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        initializer_range=spread,
        bos_token_id=None,
        eos_token_id=ids["end"],
        pad_token_id=ids["unknown"],
        tie_word_embeddings=False,
    )
    torch.manual_seed(seed)
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder
