"""Small tokenizers of several kinds, and chat templates of several families."""

from typing import Any

CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEMPLATES = {
    "chatml": CHATML,
    "llama": (
        "<s>{% for m in messages %}{% if m.role == 'assistant' %}{{ m.content | trim }}</s>"
        "{% else %}[INST] {{ m.content.strip() }} [/INST]{% endif %}{% endfor %}"
    ),
    "roles": (  # builds the names of control tokens
        "{% for m in messages %}{{ '<|' + m.role + '|>' + m.content }}<|end|>{% endfor %}"
        "{% if add_generation_prompt %}<|assistant|>{% endif %}"
    ),
    "thinking": (
        "{% for m in messages %}{% set text = m.content %}"
        "{% if m.role == 'assistant' and '</think>' in text %}"
        "{% set text = text.split('</think>')[-1].lstrip('\n') %}{% endif %}"
        "{{ '<|im_start|>' + m.role + '\n' + text + '<|im_end|>\n' }}{% endfor %}"
        "<|im_start|>assistant\n<think>\n"
    ),
}
SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "[INST]", "[/INST]", "<|end|>", "[PAD]"]
ROLES = ["<|system|>", "<|user|>", "<|assistant|>"]
ADDED = ["<think>", "</think>", "<tool_call>", "  ", "\n\n"]
"""Added tokens that are not special; the last two are white space."""
KINDS = ("bytes", "pieces", "words")


def tokenizer_of(kind: str, family: str, *, template: str = "") -> Any:
    """A tokenizer of one of `KINDS` with one of `TEMPLATES` or another `template`."""
    from tokenizers import AddedToken
    from transformers import PreTrainedTokenizerFast

    core, unknown = {"bytes": _bytes, "pieces": _pieces, "words": _words}[kind]()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=core,
        unk_token=unknown,
        eos_token="</s>",
        additional_special_tokens=[*SPECIAL, *ROLES],
        chat_template=template or TEMPLATES[family],
    )
    tokenizer.add_tokens([AddedToken(text, special=False) for text in ADDED])
    return tokenizer


def _bytes() -> tuple[Any, None]:
    """Bytes with some merges, like Qwen and Llama 3."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("<", "|"), ("|", ">"), ("i", "m"), ("e", "n"), ("en", "d"), ("Ġ", "x")]
    entries = [*alphabet, *map("".join, merges)]
    model = models.BPE(vocab={entry: n for n, entry in enumerate(entries)}, merges=merges)
    core = Tokenizer(model)
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    return core, None


def _pieces() -> tuple[Any, str]:
    """Pieces with likelihoods, including control tokens, like T5."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    letters = [chr(code) for code in range(33, 127)] + ["▁", "\n"]
    pieces = [("<unk>", 0.0), ("<s>", 0.0), ("</s>", 0.0), ("end", -1.0), ("▁x", -1.0)]
    core = Tokenizer(models.Unigram([*pieces, *[(letter, -3.0) for letter in letters]], unk_id=0))
    core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    core.decoder = decoders.Metaspace(prepend_scheme="first")
    return core, "<unk>"


def _words() -> tuple[Any, str]:
    """Known words; all others are unknown."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["<unk>", "</s>", "x", "user", "assistant", "system", "bold", "<", ">", "|"]
    core = Tokenizer(
        models.WordLevel(vocab={word: n for n, word in enumerate(words)}, unk_token="<unk>")
    )
    core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return core, "<unk>"
