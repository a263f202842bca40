"""A vLLM server that this process starts, reachable from this machine only."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from collab.distribution import install_command, python_command
from collab.errors import ModelTimeout, ModelUnavailable
from collab.models import store
from collab.models.vllm.backend import Capacity
from collab.models.vllm.calls import engine_options
from collab.models.vllm.guard import GRACE_SECONDS, end_tree
from collab.models.vllm.process import environment_of
from collab.recipe.model import VLLMSpec
from collab.trust.blocking import check_allowed
from collab.trust.commands import approved_command

HOST = "127.0.0.1"
SERVER_COMMAND = (sys.executable, "-P", "-m", "vllm.entrypoints.openai.api_server")
POLL_SECONDS = 0.3
GUARD_STOP_SECONDS = GRACE_SECONDS + 10.0
"""Seconds that the guard has to end the server's processes."""
PYTHON_OPTIONS = (
    "worker_extension_cls",
    "use_tqdm_on_load",
    "enable_sleep_mode",
    "disable_log_stats",
)
"""Options that apply to an engine in this process, but not to a server."""
TORCHRUN_PREFIXES = ("RANK", "LOCAL_", "GROUP_", "ROLE_", "WORLD_SIZE", "MASTER_", "TORCHELASTIC_")
"""Variables of torchrun, removed because vLLM would join this training."""


class OwnServer:
    """A server that the constructor starts. It ends with this process, or by `stop`."""

    def __init__(self, spec: VLLMSpec, capacity: Capacity, log: Path) -> None:
        """Start the server, with its output in `log`.

        Raises:
            ModelUnavailable: vLLM is not installed.
            Untrusted: the command comes from a third-party recipe and is not approved.
        """
        command_named = f"server_command {shlex.join(spec.server_command)} is named"
        check_allowed(spec.approval_key, f"{command_named} by a third-party recipe")
        if not spec.server_command and find_spec("vllm") is None:
            raise ModelUnavailable(
                f"model {spec.name!r} needs vLLM, which is not installed:"
                f" {install_command('vllm')}, set"
                " the model's server_command, or use `servers` that run it"
            )
        folder = store.resolve(spec.name, spec.revision)
        options = engine_options(spec, folder, capacity, sleep=False)
        self._seconds, self._log = spec.ready_seconds, log
        self.url = f"http://{HOST}:{_free_port()}"
        log.parent.mkdir(parents=True, exist_ok=True)
        guard = (*python_command(), "-m", "collab.models.vllm.guard", str(os.getpid()))
        address = ("--host", HOST, "--port", self.url.rpartition(":")[2])
        self._approval_stack = ExitStack()
        command, variables = self._approval_stack.enter_context(
            approved_command(spec.server_command or SERVER_COMMAND, {})
        )
        with log.open("ab") as stream:
            self._process = subprocess.Popen(
                [*guard, *command, *command_flags(options), *address],
                stdout=stream,
                stderr=stream,
                env=_environment(spec) | variables,
            )

    def wait(self) -> str:
        """Wait until the server answers, and return its address.

        Raises:
            ModelUnavailable: the server has ended.
            ModelTimeout: the server is not ready after `ready_seconds`.
        """
        import httpx

        until = time.monotonic() + self._seconds
        while time.monotonic() < until:
            if (status := self._process.poll()) is not None:
                raise ModelUnavailable(
                    f"vLLM's server exited with status {status} during startup; its log is"
                    f" {self._log}"
                )
            try:
                # A proxy from the environment cannot reach this machine's own address.
                if httpx.get(f"{self.url}/health", timeout=5.0, trust_env=False).is_success:
                    return self.url
            except httpx.HTTPError:
                pass  # not ready yet
            time.sleep(POLL_SECONDS)
        raise ModelTimeout(
            f"vLLM's server did not start within {self._seconds:g} s; its log is {self._log};"
            " raise the model's ready_seconds"
        )

    def stop(self) -> None:
        """End the server and every process that it has started.

        The guard ends them within `GRACE_SECONDS`. If it hangs, this process ends it with them.
        """
        self._process.terminate()
        try:
            self._process.wait(GUARD_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            end_tree(self._process.pid)
            self._process.wait()
        self._approval_stack.close()


def command_flags(options: Mapping[str, Any]) -> Iterator[str]:
    """Yield the options of an engine as flags of vLLM's command."""
    for name, value in options.items():
        flag = name.replace("_", "-")
        if value is None or name in PYTHON_OPTIONS:
            continue
        if isinstance(value, bool):
            yield f"--{flag}" if value else f"--no-{flag}"
        else:
            yield f"--{flag}"
            yield str(value).removeprefix("torch.")


def _environment(spec: VLLMSpec) -> dict[str, str]:
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(TORCHRUN_PREFIXES)
    }
    return {**environment_of(spec), **inherited, "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"}


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        return int(probe.getsockname()[1])
