"""Counts the memory of tensors, like a GPU's allocator."""

import weakref
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Held(TorchDispatchMode):
    """Bytes of the tensors created within it, now and at most."""

    def __init__(self, before: Iterable[Tensor] = ()) -> None:
        """Ignore the tensors in `before` and views of them."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.now = self.most = 0
        self._seen = {tensor.untyped_storage()._cdata for tensor in before}

    def __torch_dispatch__(self, op: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        found = op(*args, **(kwargs or {}))
        for tensor in tree_leaves(found):
            if isinstance(tensor, Tensor):
                self._hold(tensor.untyped_storage())
        return found

    def _hold(self, storage: torch.UntypedStorage) -> None:
        if storage._cdata not in self._seen:
            self._seen.add(storage._cdata)
            self.now += storage.nbytes()
            self.most = max(self.most, self.now)
            weakref.finalize(storage, self._let_go, storage._cdata, storage.nbytes())

    def _let_go(self, place: int, size: int) -> None:
        self._seen.discard(place)
        self.now -= size
