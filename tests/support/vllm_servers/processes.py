"""Real vLLM servers on this machine."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

MODEL = "smollm2-135m"
CONTEXT = 256

FLAGS = (
    "--enforce-eager --enable-lora --max-loras 5 --max-lora-rank 16 --dtype float32"
    " --logprobs-mode processed_logprobs"
)
ENVIRONMENT = {
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "OMP_WAIT_POLICY": "PASSIVE",
}


class VLLMServerProcess:
    """A process of vLLM's API server with a model; killed at the end."""

    def __init__(self, model: Path, folder: Path, *, port: int = 0) -> None:
        self.port = port or free_port()
        self._command = [
            *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
            *("--model", str(model), "--served-model-name", "base"),
            *("--host", "127.0.0.1", "--port", str(self.port), "--max-model-len", str(CONTEXT)),
            *FLAGS.split(),
        ]
        self._log = folder / f"server-{self.port}.log"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start the server without waiting for it."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdout=log,
                stderr=log,
                env=os.environ | ENVIRONMENT,
                start_new_session=True,
            )

    def freeze(self) -> None:
        """Stop the server's process group; it can still be killed."""
        assert self._process is not None
        os.killpg(self._process.pid, signal.SIGSTOP)

    def kill(self) -> None:
        """Kill the server's process group."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
