"""The signals that end a command."""

from __future__ import annotations

import signal

INTERRUPTED_STATUS = 130
"""Exit status of a command that a signal ended."""


def ending_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that end a command: SIGINT, SIGTERM and, unless nohup ignores it,
    SIGHUP.
    """
    hung_up = () if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else (signal.SIGHUP,)
    return signal.SIGINT, signal.SIGTERM, *hung_up
