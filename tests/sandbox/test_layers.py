"""Each layer by itself: its probes succeed without it and fail with it."""

import asyncio
import errno
import os
import platform
import struct

import pytest

from collab.errors import SandboxError
from collab.sandbox import doctor
from collab.sandbox.doctor import examine, probe
from collab.sandbox.jail.layers import seccomp, syscalls
from collab.sandbox.jail.layers.stack import LAYERS
from collab.sandbox.jail.probes import PROBES

NAMES = [layer.name for layer in LAYERS]


@pytest.mark.parametrize("layer", NAMES)
def test_each_layer_alone_blocks_its_probes(layer: str) -> None:
    expected = [p.name for p in PROBES if p.layer == layer]
    assert probe(layer, on=True) == {"broke": [], "held": expected}


@pytest.mark.parametrize("layer", NAMES)
def test_without_the_layer_every_probe_breaks_through(layer: str) -> None:
    if layer == "uid" and os.getuid() != 0:
        pytest.skip("needs root, because an ordinary user has no privileges to drop")
    expected = [p.name for p in PROBES if p.layer == layer]
    assert probe(layer, on=False) == {"broke": expected, "held": []}


def test_the_doctor_reports_every_layer_and_the_whole() -> None:
    reports = asyncio.run(examine())
    assert [report.name for report in reports] == [*NAMES, "all together"]
    assert all(report.holds for report in reports), reports


def test_probes_that_hang_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "PROBE_SECONDS", 0.001)
    with pytest.raises(SandboxError, match=r"probes of uid took more than 0\.001 s; try again"):
        probe("uid", on=True)


@pytest.mark.parametrize("machine", syscalls.MACHINES)
def test_the_filter_fits_the_kernel_and_returns_on_every_path(machine: str) -> None:
    code = seccomp.filter_program(1, machine)
    assert len(code) % 8 == 0
    assert len(code) // 8 <= 4096
    count = len(code) // 8
    for i in range(count):
        operation = int.from_bytes(code[8 * i : 8 * i + 2], "little")
        if operation in (seccomp._EQUAL, seccomp._AT_LEAST, seccomp._ANY_BIT):
            assert i + 1 + max(code[8 * i + 2], code[8 * i + 3]) < count
    assert int.from_bytes(code[-8:-6], "little") == seccomp._RETURN


def filtered(code: bytes, nr: int, arch: int) -> int:
    """Evaluate the filter for a call without arguments like the kernel does."""
    data = struct.pack("=IIQ6Q", nr, arch, 0, *[0] * 6)
    program = list(struct.iter_unpack("=HBBI", code))
    at = word = 0
    while True:
        operation, true, false, k = program[at]
        at += 1
        if operation == seccomp._RETURN:
            return int(k)
        if operation == seccomp._LOAD:
            (word,) = struct.unpack_from("=I", data, k)
        else:
            holds = {
                seccomp._EQUAL: word == k,
                seccomp._AT_LEAST: word >= k,
                seccomp._ANY_BIT: bool(word & k),
            }[operation]
            at += true if holds else false


@pytest.mark.parametrize("machine", syscalls.MACHINES)
def test_filter_treats_every_call_as_the_tables_state(machine: str) -> None:
    code, arch = seccomp.filter_program(1, machine), seccomp.AUDIT_ARCH[machine]
    conditional = set(syscalls.numbers(syscalls.CONDITIONAL, machine).values())
    allowed = set(syscalls.numbers(syscalls.ALLOWED, machine).values())
    hostile = set(syscalls.numbers(syscalls.HOSTILE, machine).values())
    refused = seccomp.ERRNO | errno.EPERM
    for nr in {*range(1000), (1 << 30) - 1} - conditional:
        expected = seccomp.ALLOW if nr in allowed else refused
        assert filtered(code, nr, arch) == (seccomp.KILL_PROCESS if nr in hostile else expected), nr
        assert filtered(code, nr, arch + 1) == seccomp.KILL_PROCESS
    for nr in (1 << 30, (1 << 30) + 1, (1 << 32) - 1):
        other_table = machine == "x86_64"
        assert filtered(code, nr, arch) == (seccomp.KILL_PROCESS if other_table else refused)
    calls = syscalls.numbers(syscalls.CONDITIONAL, machine)
    assert filtered(code, calls["clone"], arch) == seccomp.KILL_PROCESS
    assert filtered(code, calls["clone3"], arch) == seccomp.ERRNO | errno.ENOSYS
    assert filtered(code, calls["ioctl"], arch) == seccomp.ERRNO | errno.ENOTTY
    assert filtered(code, calls["kill"], arch) == seccomp.KILL_PROCESS
    assert filtered(code, calls["fcntl"], arch) == seccomp.ALLOW
    assert filtered(code, calls["mmap"], arch) == seccomp.ALLOW


@pytest.mark.parametrize("machine", syscalls.MACHINES)
def test_no_call_is_in_two_tables(machine: str) -> None:
    tables = (syscalls.ALLOWED, syscalls.CONDITIONAL, syscalls.HOSTILE)
    numbers = [n for table in tables for n in syscalls.numbers(table, machine).values()]
    assert len(numbers) == len(set(numbers))


def test_an_unknown_processor_is_refused() -> None:
    with pytest.raises(OSError, match="not supported"):
        seccomp.filter_program(1, "vax")
    assert platform.machine() in syscalls.MACHINES
