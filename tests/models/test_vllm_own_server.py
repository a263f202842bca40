"""The end of a server that a training starts, with a stand-in for vLLM."""

from __future__ import annotations

import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from collab.models.vllm import guard, own_server
from collab.models.vllm.backend import Capacity
from collab.models.vllm.own_server import OwnServer
from collab.recipe.model import VLLMSpec

STUBBORN = """\
import signal
import subprocess
import sys
import time

signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
time.sleep(60)
"""


def test_stop_ends_every_process_even_if_the_guard_hangs(
    tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "GRACE_SECONDS", 0.2)
    monkeypatch.setattr(own_server, "GUARD_STOP_SECONDS", 0.2)
    script = tmp_path / "server.py"
    script.write_text(STUBBORN)
    monkeypatch.chdir(tmp_path)
    spec = VLLMSpec(name=str(tiny), server_command=(sys.executable, str(script)))
    server = OwnServer(spec, Capacity(), tmp_path / "log")
    root = psutil.Process(server._process.pid)
    until = time.monotonic() + 60
    while len(below := root.children(recursive=True)) < 2 and time.monotonic() < until:
        time.sleep(0.05)
    assert len(below) == 2, (tmp_path / "log").read_text()
    os.kill(root.pid, signal.SIGSTOP)
    server.stop()
    assert psutil.wait_procs(below, 10)[1] == []
    assert not root.is_running()
