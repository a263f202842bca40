"""The extension of vLLM's workers, which runs in their processes."""

from __future__ import annotations

import os
import select
from threading import Thread


class Follower:
    """Mixin of a worker: it ends with the process it works for, even if that one is killed.

    Otherwise vLLM's engine would keep running and hold its memory. The engine ends when its workers
    end.
    """

    def follow(self, process: int) -> None:
        """End this worker when `process` ends."""
        handle = os.pidfd_open(process)
        Thread(target=_end_with, args=(handle,), daemon=True).start()


def _end_with(handle: int) -> None:
    select.select([handle], [], [])
    os._exit(1)
