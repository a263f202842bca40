"""A GPU that torch cannot use is reported once, with a remedy."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from collab.cli.commands import doctor
from collab.errors import ModelUnavailable
from collab.models import weights

WHEEL = "install a build with CUDA"
DRIVER = "update the driver, which must support CUDA 13.0"


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A machine with a GPU device file and a CPU build of torch."""
    glob = Path.glob

    def files(self: Path, pattern: str, **options: Any) -> Iterator[Path]:
        shown = self == Path("/dev") and pattern == "nvidia[0-9]*"
        return iter([Path("/dev/nvidia0")]) if shown else glob(self, pattern, **options)

    monkeypatch.setattr(Path, "glob", files)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    weights._warn_of_unused_gpu.cache_clear()
    yield monkeypatch
    weights._warn_of_unused_gpu.cache_clear()


@pytest.mark.parametrize(("cuda", "remedy"), [(None, WHEEL), ("13.0", DRIVER)])
def test_unused_gpu_is_warned_about_once(
    machine: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, cuda: str | None, remedy: str
) -> None:
    machine.setattr(torch.version, "cuda", cuda)
    assert weights.pick_device("cpu").type == "cpu"
    assert not caplog.messages
    assert [weights.pick_device("auto").type for _ in range(2)] == ["cpu", "cpu"]
    [message] = caplog.messages
    assert message.startswith(f"collab uses the CPU: torch {torch.__version__} ")
    assert remedy in message
    assert "\n" not in message
    with pytest.raises(ModelUnavailable, match=f"torch sees 0 CUDA devices; .*{remedy}"):
        weights.pick_device("cuda")


def test_doctor_reports_an_unused_gpu(machine: pytest.MonkeyPatch) -> None:
    [found] = [finding for finding in doctor._check_devices() if finding.name == "cuda"]
    assert not found.fine
    assert found.detail.endswith("built without CUDA for this machine's NVIDIA GPU")
    assert found.remedy.startswith(WHEEL)


def test_unused_gpu_is_reported_only_if_usable(machine: pytest.MonkeyPatch) -> None:
    machine.setenv("CUDA_VISIBLE_DEVICES", "")
    assert weights.gpu_problem() == ""
    machine.delenv("CUDA_VISIBLE_DEVICES")
    machine.setattr(torch.cuda, "is_available", lambda: True)
    assert weights.gpu_problem() == ""
    machine.undo()
    machine.setattr("shutil.which", lambda _: "/usr/bin/nvidia-smi")
    machine.setattr(torch.cuda, "is_available", lambda: False)
    assert weights.gpu_problem() != ""
    machine.setattr("shutil.which", lambda _: None)
    machine.setattr(Path, "glob", lambda *_: iter(()))
    assert weights.gpu_problem() == ""
