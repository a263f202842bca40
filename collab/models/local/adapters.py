"""LoRA adapters in one base model, by PEFT. A batch may use several of them."""

from __future__ import annotations

import json
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from collab.errors import ModelError
from collab.models.out_of_memory import is_out_of_memory
from collab.runs.layout import ADAPTER_CONFIG, ADAPTER_WEIGHTS

if TYPE_CHECKING:
    from collab.models.weights import LoadedModel


def check_harmless(folder: Path) -> None:
    """Raise ValueError for an adapter that would run code when it is loaded.

    PEFT unpickles weights that are not safetensors, and imports the module that `megatron_core`
    names.
    """
    if not (folder / ADAPTER_WEIGHTS).is_file():
        raise ValueError(f"it has no {ADAPTER_WEIGHTS}, and other formats are not read")
    config = json.loads((folder / ADAPTER_CONFIG).read_text(encoding="utf-8"))
    if config.get("megatron_config"):
        raise ValueError(
            "its megatron_config names a module to import, which collab does not allow"
        )


class Adapters:
    """The adapters of one base model, by name and by folder.

    A folder is read once. If its content changes, pass it under a new path: reading a path again
    would make it unclear which version answered.
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
            ModelError: it is neither a name nor a folder, or does not fit the model.
        """
        if adapter in self.names:
            return adapter
        folder = Path(adapter).expanduser().resolve()
        name = self._by_folder.get(folder)
        if name is None or name not in self.names:
            name = self._free_name()
            self._load(name, folder)
            self._by_folder[folder] = name
        return name

    def _free_name(self) -> str:
        taken = self.names.union(self._by_folder.values())
        return next(name for n in count() if (name := f"adapter{n}") not in taken)

    def _load(self, name: str, folder: Path) -> None:
        if not (folder / ADAPTER_CONFIG).is_file():
            held = ", ".join(sorted(self.names)) or "none"
            raise ModelError(
                f"adapter {folder} is not a folder with an {ADAPTER_CONFIG}, and not an adapter"
                f" that model {self._model!r} holds ({held})"
            )
        try:
            check_harmless(folder)
            self._insert(name, folder)
        except (ValueError, KeyError, RuntimeError, OSError, TypeError) as error:
            self._discard(name)
            if isinstance(error, RuntimeError) and is_out_of_memory(error):
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
            if config.peft_type != "LORA":
                raise ValueError(f"its type is {config.peft_type}, but only LORA is supported")
            config.inference_mode = True
            module: Any = self._loaded.module
            if hasattr(module, "peft_config"):
                module.add_adapter(name, config)
            else:
                module = self._loaded.module = get_peft_model(module, config, adapter_name=name)
            result = module.load_adapter(str(folder), name, torch_device=str(self._loaded.device))
        astray = [*result.unexpected_keys, *(k for k in result.missing_keys if f".{name}." in k)]
        if astray:
            raise ValueError(f"{len(astray)} tensors match nothing in the model, e.g. {astray[0]}")
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
