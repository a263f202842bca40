"""The layers around a worker, in the order in which they are applied.

Each is small, has a name, and can be applied alone: `probes` attacks them one by one.
Two layers are applied before a worker is forked: `environment`, by the process that starts the
interpreter, and `uid`, by the zygote, which needs its privileges only until then.
"""

from __future__ import annotations

import math
import os
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ..limits import Limits
from . import landlock, linux, seccomp

JAIL_UID = 65533
"""User id on the host under which workers run if the caller is root."""
INSIDE_UID = 1000
HOST_NAME = "jail"
INODES = 256
OPEN_FILES = 64
QUEUED_SIGNALS = 64
STACK_BYTES = 64 << 20
MIB = 1 << 20
_MOUNT_POINTS = tuple(map(Path, ("/tmp", "/var", "/usr")))
_FOLDERS = tuple(map(Path, ("/tmp", "/dev", "/dev/shm")))
"""Folders for writing, and for the C library's named semaphores."""
_USER_NAMESPACES = (
    "allow user namespaces: `sysctl kernel.unprivileged_userns_clone=1`, "
    "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`, `sysctl user.max_user_namespaces`; "
    "in a container: a seccomp profile that allows unshare (Docker: --security-opt "
    "seccomp=unconfined --security-opt apparmor=unconfined)"
)


class LayerUnavailable(Exception):
    """This system does not provide a layer."""

    def __init__(self, layer: str, reason: str, remedy: str) -> None:
        super().__init__(f"{layer}: {reason}")
        self.layer, self.reason, self.remedy = layer, reason, remedy

    def frame(self) -> dict[str, dict[str, str]]:
        """Return the error as a frame to send to the process that requested the layer."""
        return {"refused": {"layer": self.layer, "reason": self.reason, "remedy": self.remedy}}


@dataclass(frozen=True)
class Setting:
    """Values that a layer may need: the limits, the chosen layers, and the process's memory and
    files."""

    limits: Limits
    names: frozenset[str]
    mapped: int
    """Number of bytes of address space that the interpreter itself has mapped."""
    writable: bool = True
    """True if there is a private folder to write to. Otherwise, there is no file at all."""


@dataclass(frozen=True)
class Layer:
    name: str
    remedy: str
    apply: Callable[[Setting], None]
    needs: frozenset[str] = frozenset()
    """Layers that this one requires."""
    prepare: Callable[[], object] = lambda: None
    """Prepares the state that all processes share, and keeps it for later forks."""


def drop_uid() -> None:
    """If this process runs as root, become an unprivileged user permanently.

    An ordinary user is unprivileged already.
    """
    if os.getuid() != 0 or _is_mapped_root():
        return
    os.setgroups([])
    os.setresgid(JAIL_UID, JAIL_UID, JAIL_UID)
    os.setresuid(JAIL_UID, JAIL_UID, JAIL_UID)
    # After a change of user, /proc/self belongs to root. A user namespace's maps are written there.
    linux.prctl(linux.PR_SET_DUMPABLE, 1)


def _is_mapped_root() -> bool:
    """Return True if this root is an ordinary user renamed by `unshare --map-root-user`."""
    lines = Path("/proc/self/uid_map").read_bytes().splitlines()
    _inside, outside, count = map(int, lines[0].split())
    return len(lines) == 1 and outside != 0 and count == 1


def _enter_namespaces(_: Setting) -> None:
    flags = linux.NEWNS | linux.NEWIPC | linux.NEWUTS | linux.NEWCGROUP
    linux.enter_user_namespace(flags, INSIDE_UID)
    socket.sethostname(HOST_NAME)


@cache
def _mount_point() -> str:
    return str(next(p for p in _MOUNT_POINTS if p.is_dir()))


def _change_root(setting: Setting) -> None:
    point = _mount_point()
    linux.mount("none", "/", None, linux.MS_REC | linux.MS_PRIVATE)
    flags = linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC
    size = f"size={setting.limits.disk_mb}m,nr_inodes={INODES},mode=700"
    linux.mount("tmpfs", point, "tmpfs", flags, size)
    os.chdir(point)
    linux.pivot_to_working_directory()
    for folder in _FOLDERS:
        folder.mkdir(0o700)
    if not setting.writable:
        linux.mount("none", "/", None, flags | linux.MS_REMOUNT | linux.MS_RDONLY)
    os.chdir("/tmp")


def _apply_landlock(setting: Setting) -> None:
    landlock.restrict("/" if setting.writable and "root" in setting.names else None)


def _apply_limits(setting: Setting) -> None:
    limits = setting.limits
    cpu = math.ceil(limits.cpu_seconds)
    for kind, value in (
        (resource.RLIMIT_AS, setting.mapped + limits.memory_mb * MIB),
        (resource.RLIMIT_CPU, cpu),
        (resource.RLIMIT_FSIZE, limits.disk_mb * MIB),
        (resource.RLIMIT_NOFILE, OPEN_FILES),
        (resource.RLIMIT_NPROC, limits.threads),
        (resource.RLIMIT_STACK, STACK_BYTES),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_MEMLOCK, 0),
        (resource.RLIMIT_MSGQUEUE, 0),
        (resource.RLIMIT_SIGPENDING, QUEUED_SIGNALS),
    ):
        _, hard = resource.getrlimit(kind)
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (most, most))
    # RLIMIT_CORE has no effect if core dumps are piped to a program.
    linux.prctl(linux.PR_SET_DUMPABLE, 0)


LAYERS = (
    # The zygote or its parent has applied the first two.
    Layer("environment", "this layer needs nothing of the system", lambda _: None),
    Layer(
        "uid",
        "run as an ordinary user, or as root of a container whose user map holds "
        f"the id {JAIL_UID}",
        lambda _: None,
    ),
    Layer("namespaces", _USER_NAMESPACES, _enter_namespaces),
    Layer(
        "root",
        "allow mounting a tmpfs in a user namespace (in a container: as for namespaces)",
        _change_root,
        frozenset({"namespaces"}),
        _mount_point,
    ),
    Layer(
        "landlock",
        "use a kernel of 5.13 or later with `landlock` in its boot option lsm=",
        _apply_landlock,
        prepare=landlock.abi,
    ),
    Layer("limits", "raise the hard limits of the calling process (`ulimit -H -a`)", _apply_limits),
    Layer(
        "capabilities",
        "use a kernel of 4.3 or later",
        lambda _: linux.drop_capabilities(),
        frozenset({"namespaces"}),
        linux.capabilities,
    ),
    Layer(
        "seccomp",
        "use a kernel with CONFIG_SECCOMP_FILTER, on x86_64 or aarch64",
        lambda _: seccomp.install(),
        prepare=seccomp.prepare,
    ),
)
ALL_LAYERS = frozenset(layer.name for layer in LAYERS)
LAYERS_BY_NAME = {layer.name: layer for layer in LAYERS}


def prepare(names: frozenset[str]) -> None:
    """Prepare the layers of `names` for processes forked from this one.

    Raises:
        LayerUnavailable: the system refuses a layer.
    """
    for layer in LAYERS:
        if layer.name in names:
            with raise_if_refused(layer.name):
                layer.prepare()


def seal(setting: Setting) -> None:
    """Apply the chosen layers to this process.

    Raises:
        LayerUnavailable: the system refuses a layer.
    """
    for layer in LAYERS:
        if layer.name in setting.names:
            with raise_if_refused(layer.name):
                layer.apply(setting)


@contextmanager
def raise_if_refused(name: str) -> Iterator[None]:
    """Context manager that raises LayerUnavailable, with the layer's remedy, if the system refuses
    (OSError or ValueError)."""
    try:
        yield
    except (OSError, ValueError) as error:
        layer = LAYERS_BY_NAME[name]
        raise LayerUnavailable(name, str(error), layer.remedy) from error
