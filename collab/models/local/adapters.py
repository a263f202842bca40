"""LoRA adapters in one base model, by PEFT. A batch may use several of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collab.errors import ModelError
from collab.models.out_of_memory import is_out_of_memory
from collab.recipe.documents import parse_json
from collab.recipe.trainer import MAX_RANK
from collab.runs.layout import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from collab.runs.reading import open_file, read_bytes

if TYPE_CHECKING:
    from collab.models.weights import LoadedModel


_NAME = re.compile(r"[A-Za-z0-9_.-]{1,200}")
"""A module's name. PEFT matches many settings as regular expressions; plain names take no time."""
_NAME_SETTINGS = (
    "target_modules", "exclude_modules", "modules_to_save", "target_parameters", "layers_pattern",
    "rank_pattern", "alpha_pattern", "trainable_token_indices",
)  # fmt: skip
_INITIALIZATION = re.compile(r"(?!loftq)[a-z_]{1,40}|pissa_niter_[0-9]{1,2}")
"""Initializations of bounded cost. LoftQ computes as many rounds as the adapter says."""
ADAPTER_ERRORS = (AttributeError, LookupError, OSError, RuntimeError, TypeError, ValueError)
"""Errors of PEFT for an adapter that does not fit; safetensors has its own."""
MAX_CONFIG_BYTES, MAX_NAMES = 1_000_000, 1000
"""Limits on the size of an adapter's configuration, and on the names in one of its settings."""


def check_harmless(folder: Path) -> None:
    """Raise ValueError for an adapter that would run code, or never end, when it is loaded.

    PEFT unpickles weights that are not safetensors, imports the module in `megatron_core`, and
    matches names of modules as regular expressions.

    Raises:
        OSError: the adapter has no configuration.
    """
    if not (folder / ADAPTER_WEIGHTS).is_file():
        raise ValueError(f"it has no {ADAPTER_WEIGHTS}, and other formats are not read")
    with open_file(folder / ADAPTER_CONFIG) as file:
        text = file.read(MAX_CONFIG_BYTES + 1)
    if len(text) > MAX_CONFIG_BYTES:
        raise ValueError(f"its {ADAPTER_CONFIG} is larger than {MAX_CONFIG_BYTES:,} bytes")
    config = parse_json(text)
    if not isinstance(config, dict):
        raise ValueError(f"its {ADAPTER_CONFIG} is not a mapping")
    for reason in _find_harms(config):
        raise ValueError(reason)


def check_base(folder: Path, hidden_size: int) -> None:
    """Raise ValueError if an adapter was trained on a model with another hidden size.

    Raises:
        OSError, SafetensorError: the weights of the adapter cannot be read.
    """
    from safetensors import safe_open

    with safe_open(folder / ADAPTER_WEIGHTS, framework="np") as file:
        names = [name for name in file.keys() if name.endswith("q_proj.lora_A.weight")]  # noqa: SIM118
        sizes = {file.get_slice(name).get_shape()[1] for name in names}
    if sizes - {hidden_size}:
        base = parse_json(read_bytes(folder / ADAPTER_CONFIG)).get("base_model_name_or_path")
        raise ValueError(
            f"its base is {base or 'another model'!r:.200}, with hidden size {max(sizes)}, not"
            f" {hidden_size}; use that model, or remove the adapter"
        )


def _find_harms(config: Mapping[str, Any]) -> Iterator[str]:
    if (kind := config.get("peft_type")) != "LORA":
        yield f"its type is {kind!r:.80}, but only LORA is supported"
    if config.get("megatron_config"):
        yield "its megatron_config specifies a module to import, which collab does not allow"
    if config.get("layer_replication"):
        yield "its layer_replication repeats layers of the base model, which other agents use too"
    start = config.get("init_lora_weights")
    if isinstance(start, str) and not _INITIALIZATION.fullmatch(start):
        yield f"its init_lora_weights is {start!r:.80}, which collab does not allow"
    ranks = config.get("rank_pattern")
    for rank in (config.get("r", 1), *(ranks.values() if isinstance(ranks, dict) else ())):
        if not isinstance(rank, int) or not 1 <= rank <= MAX_RANK:
            yield f"its rank is {rank!r:.80}, but only 1 to {MAX_RANK} are supported"
    yield from _find_invalid_names(config)


def _find_invalid_names(config: Mapping[str, Any]) -> Iterator[str]:
    for key in _NAME_SETTINGS:
        names = [*_texts(config.get(key))]
        if len(names) > MAX_NAMES:
            yield f"its {key} contains {len(names):,} names, limit {MAX_NAMES:,}"
        for name in names:
            if not _NAME.fullmatch(name):
                yield (
                    f"its {key} contains {name!r:.80}, but only plain names of modules are allowed;"
                    " list the names"
                )


def _texts(value: Any) -> Iterator[str]:
    """Yield a string, or the strings in a list or in a mapping's keys."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        yield from (text for text in value if isinstance(text, str))


class Adapters:
    """The adapters of one base model, by name and by folder.

    A folder is read once. To use changed weights, pass a new path, so it stays clear which version
    gave an answer.
    """

    def __init__(self, loaded: LoadedModel, model: str) -> None:
        self._loaded = loaded
        self._model = model
        self._by_folder: dict[Path, str] = {}

    @property
    def names(self) -> set[str]:
        """Names of the loaded adapters."""
        return set(getattr(self._loaded.module, "peft_config", {}))

    def name_of(self, adapter: str) -> str:
        """Return the name of a loaded adapter, or of a folder, which is loaded on first use.

        Raises:
            ModelError: `adapter` is neither a name nor a folder, or does not fit the model.
        """
        if adapter in self.names:
            return adapter
        folder = Path(adapter).expanduser().resolve()
        name = self._by_folder.get(folder)
        if name is None or name not in self.names:
            name = next(
                free
                for n in count()
                if (free := f"adapter{n}") not in self.names.union(self._by_folder.values())
            )
            self._load(name, folder)
            self._by_folder[folder] = name
        return name

    def _load(self, name: str, folder: Path) -> None:
        if not (folder / ADAPTER_CONFIG).is_file():
            loaded = ", ".join(sorted(self.names)) or "none"
            raise ModelError(
                f"adapter {folder} is not a folder with an {ADAPTER_CONFIG}, and not an adapter"
                f" that model {self._model!r} holds ({loaded})"
            )
        from safetensors import SafetensorError

        try:
            check_harmless(folder)
            check_base(folder, self._loaded.module.config.get_text_config().hidden_size)
            self._insert(name, folder)
        except (*ADAPTER_ERRORS, SafetensorError) as error:
            self._discard(name)
            if is_out_of_memory(error):
                raise ModelError(
                    f"no memory is left for adapter {folder}; use a smaller rank, or fewer adapters"
                ) from error
            raise ModelError(
                f"adapter {folder} does not fit model {self._model!r}: {error}"
            ) from error

    def _insert(self, name: str, folder: Path) -> None:
        """Load `folder` in addition to the other adapters. Every tensor must find its target."""
        from peft import PeftConfig, get_peft_model

        from collab.models.weights import quiet_transformers

        with quiet_transformers():
            config = PeftConfig.from_pretrained(str(folder))
            config.inference_mode = True
            module: Any = self._loaded.module
            if hasattr(module, "peft_config"):
                module.add_adapter(name, config)
            else:
                module = self._loaded.module = get_peft_model(module, config, adapter_name=name)
            result = module.load_adapter(str(folder), name, torch_device=str(self._loaded.device))
        unmatched = [*result.unexpected_keys, *(k for k in result.missing_keys if f".{name}." in k)]
        if unmatched:
            raise ValueError(
                f"{len(unmatched)} tensors match nothing in the model, e.g. {unmatched[0]}"
            )
        module.eval()

    def _discard(self, name: str) -> None:
        """Remove the remains of a failed load."""
        module = self._loaded.module
        if name not in self.names:
            return
        if len(self.names) == 1:
            self._loaded.module = module.unload()
        else:
            module.delete_adapter(name)
