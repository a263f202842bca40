"""A tiny random Llama whose tokens are words, small enough to train in a test."""

from collections.abc import Sequence
from pathlib import Path

CHAT = "{% for m in messages %}{{ m.role }} {{ m.content }} end {% endfor %}assistant"
TOOL_CHAT = """\
{%- if tools %}system {% for t in tools %}{{ t.function.name }} {% endfor %}end {% endif %}
{%- for m in messages %}{{ m.role + ' ' + m.content + ' ' }}
{%- for call in m.tool_calls or [] %}{{ '<tool_call>{"name":"' + call.function.name + '"' }}
{%- if call.function.arguments %}{{ ',"arguments":' }}{{ call.function.arguments | tojson }}
{%- endif %}{{ '}</tool_call> ' }}{% endfor %}
{{- 'end ' }}{% endfor %}{% if add_generation_prompt %}assistant{% endif %}"""
"""A template with tools; a call without arguments is one word."""


def save_tiny(
    folder: Path,
    words: Sequence[str],
    *,
    hidden: int = 32,
    spread: float = 0.2,
    seed: int = 0,
    chat: str = CHAT,
) -> Path:
    """Save a Llama of two layers that knows `words`; weights have the deviation `spread`."""
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
        chat_template=chat,
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
