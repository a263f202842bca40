"""Attacks on single layers. Each succeeds without its layer, and must fail with it."""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .layers import linux
from .layers.stack import LAYERS_BY_NAME, MIB, LayerUnavailable
from .limits import Limits
from .processes import Jail

LIMITS = Limits(
    seconds=5, cpu_seconds=5, memory_mb=64, answer_bytes=1000, depth=4, threads=4, disk_mb=1
)
CANARY = "JUDGE_CANARY"
_HOST_FILE = "/etc/passwd"
_PTRACE_TRACEME = 0
_PRIVATE_HUGE_PAGES = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000
_MAP_FAILED = ctypes.c_void_p(-1).value
_SYSINFO_BUFFER_BYTES = 512
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)


@dataclass(frozen=True)
class ProbeTargets:
    """Targets outside the jail that probes try to reach."""

    pid: int
    port: int
    abstract: str


@dataclass(frozen=True)
class Probe:
    layer: str
    name: str
    attack: Callable[[ProbeTargets], object]
    """Attack that raises an exception, or is killed, if the layer holds."""


def _checked(result: int) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _read_secret(_: ProbeTargets) -> None:
    if CANARY not in os.environ:
        raise LookupError("no such secret")


def _connect_loopback(targets: ProbeTargets) -> None:
    socket.create_connection(("127.0.0.1", targets.port), timeout=1).close()


def _connect_abstract(targets: ProbeTargets) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(targets.abstract)


def _read_host_file(_: ProbeTargets) -> None:
    Path(_HOST_FILE).read_bytes()


def _write_file(_: ProbeTargets, size: int = 1) -> None:
    fd = os.open("/tmp", os.O_TMPFILE | os.O_RDWR, 0o600)
    while size > 0:
        size -= os.write(fd, bytes(min(size, MIB)))


def _allocate_memory(_: ProbeTargets) -> None:
    bytearray(4 * LIMITS.memory_mb * MIB)


def _open_descriptors(_: ProbeTargets) -> None:
    for _i in range(128):
        os.dup(0)


def _dump_core(_: ProbeTargets) -> None:
    if not linux.prctl(linux.PR_GET_DUMPABLE):
        raise PermissionError("no core dump of this process is made")


def _change_hostname(_: ProbeTargets) -> None:
    _checked(_libc.sethostname(b"probe", 5))


def _change_mount(_: ProbeTargets) -> None:
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)


def _fork(_: ProbeTargets) -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _map_huge_page(_: ProbeTargets) -> None:
    mapped = _libc.mmap(None, 2 * MIB, mmap.PROT_READ, _PRIVATE_HUGE_PAGES, -1, 0)
    # A lack of huge pages is not a refusal: by then, the mapping's file exists and has a number.
    if mapped == _MAP_FAILED and ctypes.get_errno() == errno.EPERM:
        raise PermissionError("no huge pages for this process")


def _read_sysinfo(_: ProbeTargets) -> None:
    _checked(_libc.sysinfo(ctypes.create_string_buffer(_SYSINFO_BUFFER_BYTES)))


PROBES = (
    Probe("environment", "read a secret in the environment", _read_secret),
    Probe("uid", "become another user", lambda _: os.setresuid(1, 1, 1)),
    Probe("namespaces", "signal a process outside", lambda targets: os.kill(targets.pid, 0)),
    Probe("namespaces", "connect to a server of this machine", _connect_loopback),
    Probe("namespaces", "connect to an abstract socket", _connect_abstract),
    Probe("root", "read a file of this machine", _read_host_file),
    Probe("root", "read /proc", lambda _: Path("/proc/self/status").read_bytes()),
    Probe("root", "fill the disk", lambda targets: _write_file(targets, 4 * LIMITS.disk_mb * MIB)),
    Probe("landlock", "read a file of this machine", _read_host_file),
    Probe("landlock", "write a file", _write_file),
    Probe("limits", "take more memory than the limit", _allocate_memory),
    Probe("limits", "open more files than the limit", _open_descriptors),
    Probe("limits", "leave a core dump", _dump_core),
    Probe("capabilities", "change the host's name", _change_hostname),
    Probe("capabilities", "change a mount", _change_mount),
    Probe("seccomp", "fork", _fork),
    Probe("seccomp", "open a socket", lambda _: socket.socket(socket.AF_UNIX).close()),
    Probe("seccomp", "make an anonymous file", lambda _: os.memfd_create("probe")),
    Probe("seccomp", "map huge pages", _map_huge_page),
    Probe("seccomp", "see how full the machine is", _read_sysinfo),
    Probe("seccomp", "trace", lambda _: _checked(_libc.ptrace(_PTRACE_TRACEME, 0, 0, 0))),
    Probe("seccomp", "make a namespace", lambda _: linux.unshare(linux.NEWUSER)),
)


def main(layer: str, on: bool) -> None:
    """Print, as JSON, the results of the probes of `layer` with the layer on, or off.

    `{"broke": [name, ...], "held": [name, ...]}`, or `{"refused": {...}}` of LayerUnavailable.
    """
    report_fd = os.dup(1)
    names = LAYERS_BY_NAME[layer].needs | ({layer} if on else frozenset[str]())
    jail = Jail(names)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as other:
        targets = ProbeTargets(os.getpid(), server.getsockname()[1], f"\0judge-probe-{os.getpid()}")
        other.bind(targets.abstract)
        other.listen()
        result: dict[str, Any] = {"broke": [], "held": []}
        try:
            jail.enter()
            for probe in PROBES:
                if probe.layer == layer:
                    result["broke" if _attack_succeeds(probe, jail, targets) else "held"].append(
                        probe.name
                    )
        except LayerUnavailable as error:
            result = {**error.frame()}
        os.write(report_fd, json.dumps(result).encode())


def _attack_succeeds(probe: Probe, jail: Jail, targets: ProbeTargets) -> bool:
    """Return True if the probe's attack succeeds from within its own jail."""
    read_end, write_end = os.pipe()

    def body(seal: Callable[[], None]) -> None:
        try:
            seal()
        except LayerUnavailable as error:
            os.write(write_end, json.dumps(error.frame()).encode())
            return
        os.write(write_end, b"s")
        probe.attack(targets)
        os.write(write_end, b"b")

    pid = jail.spawn(LIMITS, body)
    os.close(write_end)
    output = b""
    while part := os.read(read_end, 4096):
        output += part
    os.close(read_end)
    jail.end(pid)
    if output.startswith(b"{"):
        raise LayerUnavailable(**json.loads(output)["refused"])
    return output == b"sb"
