"""Each layer alone: its probes break through without it, and do not with it."""

from __future__ import annotations

import asyncio
import os
import platform

import pytest

from collab.sandbox.doctor import examine, probe
from collab.sandbox.jail.layers import LAYERS, seccomp, syscalls
from collab.sandbox.jail.probes import PROBES

NAMES = [layer.name for layer in LAYERS]


@pytest.mark.parametrize("layer", NAMES)
def test_the_layer_alone_holds(layer: str) -> None:
    expected = [p.name for p in PROBES if p.layer == layer]
    assert probe(layer, on=True) == {"broke": [], "held": expected}


@pytest.mark.parametrize("layer", NAMES)
def test_without_the_layer_every_probe_breaks_through(layer: str) -> None:
    if layer == "uid" and os.getuid() != 0:
        pytest.skip("an ordinary user has nothing to lose here")
    expected = [p.name for p in PROBES if p.layer == layer]
    assert probe(layer, on=False) == {"broke": expected, "held": []}


def test_the_doctor_reports_every_layer_and_the_whole() -> None:
    reports = asyncio.run(examine())
    assert [report.name for report in reports] == [*NAMES, "all together"]
    assert all(report.holds for report in reports), reports


@pytest.mark.parametrize("machine", syscalls.MACHINES)
def test_the_filter_fits_the_kernel_and_returns_on_every_path(machine: str) -> None:
    code = seccomp.program(1, machine)
    assert len(code) % 8 == 0
    assert len(code) // 8 <= 4096
    count = len(code) // 8
    for i in range(count):
        operation = int.from_bytes(code[8 * i : 8 * i + 2], "little")
        if operation in (seccomp._EQUAL, seccomp._AT_LEAST, seccomp._ANY_BIT):
            assert i + 1 + max(code[8 * i + 2], code[8 * i + 3]) < count
    assert int.from_bytes(code[-8:-6], "little") == seccomp._RETURN


@pytest.mark.parametrize("machine", syscalls.MACHINES)
def test_no_call_is_in_two_tables(machine: str) -> None:
    tables = (syscalls.ALLOWED, syscalls.CONDITIONAL, syscalls.HOSTILE)
    numbers = [n for table in tables for n in syscalls.numbers(table, machine).values()]
    assert len(numbers) == len(set(numbers))


def test_an_unknown_processor_is_refused() -> None:
    with pytest.raises(OSError, match="not supported"):
        seccomp.program(1, "vax")
    assert platform.machine() in syscalls.MACHINES
