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
from .layers.stack import BY_NAME, MIB, LayerUnavailable
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
_MORE_THAN_SYSINFO = 512
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long)


@dataclass(frozen=True)
class Surroundings:
    """Targets outside the jail that probes try to reach."""

    pid: int
    port: int
    abstract: str


@dataclass(frozen=True)
class Probe:
    layer: str
    name: str
    attack: Callable[[Surroundings], object]
    """Attack that raises an exception, or is killed, if the layer holds."""


def _checked(result: int) -> None:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def _secret(_: Surroundings) -> None:
    if CANARY not in os.environ:
        raise LookupError("no such secret")


def _loopback(outside: Surroundings) -> None:
    socket.create_connection(("127.0.0.1", outside.port), timeout=1).close()


def _abstract(outside: Surroundings) -> None:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(outside.abstract)


def _read(_: Surroundings) -> None:
    Path(_HOST_FILE).read_bytes()


def _write(_: Surroundings, size: int = 1) -> None:
    fd = os.open("/tmp", os.O_TMPFILE | os.O_RDWR, 0o600)
    while size > 0:
        size -= os.write(fd, bytes(min(size, MIB)))


def _memory(_: Surroundings) -> None:
    bytearray(4 * LIMITS.memory_mb * MIB)


def _descriptors(_: Surroundings) -> None:
    for _i in range(128):
        os.dup(0)


def _dump_core(_: Surroundings) -> None:
    if not linux.prctl(linux.PR_GET_DUMPABLE):
        raise PermissionError("no core dump of this process is made")


def _hostname(_: Surroundings) -> None:
    _checked(_libc.sethostname(b"probe", 5))


def _mount(_: Surroundings) -> None:
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)


def _fork(_: Surroundings) -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def _socket(_: Surroundings) -> None:
    socket.socket(socket.AF_UNIX).close()


def _huge_page(_: Surroundings) -> None:
    mapped = _libc.mmap(None, 2 * MIB, mmap.PROT_READ, _PRIVATE_HUGE_PAGES, -1, 0)
    # A lack of huge pages is not a refusal: by then, the mapping's file exists and has a number.
    if mapped == _MAP_FAILED and ctypes.get_errno() == errno.EPERM:
        raise PermissionError("no huge pages for this process")


def _fullness(_: Surroundings) -> None:
    _checked(_libc.sysinfo(ctypes.create_string_buffer(_MORE_THAN_SYSINFO)))


PROBES = (
    Probe("environment", "read a secret in the environment", _secret),
    Probe("uid", "become another user", lambda _: os.setresuid(1, 1, 1)),
    Probe("namespaces", "signal a process outside", lambda outside: os.kill(outside.pid, 0)),
    Probe("namespaces", "connect to a server of this machine", _loopback),
    Probe("namespaces", "connect to an abstract socket", _abstract),
    Probe("root", "read a file of this machine", _read),
    Probe("root", "read /proc", lambda _: Path("/proc/self/status").read_bytes()),
    Probe("root", "fill the disk", lambda outside: _write(outside, 4 * LIMITS.disk_mb * MIB)),
    Probe("landlock", "read a file of this machine", _read),
    Probe("landlock", "write a file", _write),
    Probe("limits", "take more memory than the limit", _memory),
    Probe("limits", "open more files than the limit", _descriptors),
    Probe("limits", "leave a core dump", _dump_core),
    Probe("capabilities", "change the host's name", _hostname),
    Probe("capabilities", "change a mount", _mount),
    Probe("seccomp", "fork", _fork),
    Probe("seccomp", "open a socket", _socket),
    Probe("seccomp", "make an anonymous file", lambda _: os.memfd_create("probe")),
    Probe("seccomp", "map huge pages", _huge_page),
    Probe("seccomp", "see how full the machine is", _fullness),
    Probe("seccomp", "trace", lambda _: _checked(_libc.ptrace(_PTRACE_TRACEME, 0, 0, 0))),
    Probe("seccomp", "make a namespace", lambda _: linux.unshare(linux.NEWUSER)),
)


def main(layer: str, on: bool) -> None:
    """Print, as JSON, the results of the probes of `layer` with the layer on, or off.

    `{"broke": [name, ...], "held": [name, ...]}`, or `{"refused": {...}}` of LayerUnavailable.
    """
    report_fd = os.dup(1)
    names = BY_NAME[layer].needs | ({layer} if on else frozenset[str]())
    jail = Jail(names)
    with socket.create_server(("127.0.0.1", 0)) as server, socket.socket(socket.AF_UNIX) as other:
        outside = Surroundings(os.getpid(), server.getsockname()[1], f"\0judge-probe-{os.getpid()}")
        other.bind(outside.abstract)
        other.listen()
        result: dict[str, Any] = {"broke": [], "held": []}
        try:
            jail.enter()
            for probe in PROBES:
                if probe.layer == layer:
                    result["broke" if _breaks(probe, jail, outside) else "held"].append(probe.name)
        except LayerUnavailable as error:
            result = {**error.frame()}
        os.write(report_fd, json.dumps(result).encode())


def _breaks(probe: Probe, jail: Jail, outside: Surroundings) -> bool:
    """Return True if the probe's attack succeeds from within its own jail."""
    hear, say = os.pipe()

    def body(seal: Callable[[], None]) -> None:
        try:
            seal()
        except LayerUnavailable as error:
            os.write(say, json.dumps(error.frame()).encode())
            return
        os.write(say, b"s")
        probe.attack(outside)
        os.write(say, b"b")

    pid = jail.spawn(LIMITS, body)
    os.close(say)
    output = b""
    while part := os.read(hear, 4096):
        output += part
    os.close(hear)
    jail.end(pid)
    if output.startswith(b"{"):
        raise LayerUnavailable(**json.loads(output)["refused"])
    return output == b"sb"
