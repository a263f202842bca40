"""The signals by which somebody ends a command."""

from __future__ import annotations

import signal


def ending_signals() -> tuple[signal.Signals, ...]:
    """Ctrl-C, SIGTERM and, where the terminal closes, SIGHUP; nohup has the latter ignored."""
    hung_up = () if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN else (signal.SIGHUP,)
    return signal.SIGINT, signal.SIGTERM, *hung_up
