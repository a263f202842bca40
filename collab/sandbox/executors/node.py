"""A trial on a node of a cluster; it runs in the node's own Python, with the node's own jails."""

from __future__ import annotations

import socket
import sys
from functools import cache
from hashlib import blake2b
from pathlib import Path

from collab.errors import SandboxError
from collab.sandbox import jail
from collab.sandbox.client import JailClient
from collab.sandbox.executors.base import Job, Result

_clients: dict[str, JailClient] = {}
"""The supervisor of this process, by isolation; it ends with the process."""


def judge(job: Job, isolation: str, code: str) -> Result:
    """Return the result of one job, with the node's name, if this node's sandbox is the one of
    `code`.

    `lost` is returned if the supervisor was lost; the job must be repeated elsewhere.
    """
    node = socket.gethostname()
    if code != sandbox_code():
        reason = "has another version of collab or Python; install the same on every node"
        return {"unavailable": f"the node {node} {reason}", "node": node}
    client = _clients.pop(isolation, None)
    try:
        if client is None or not client.alive:
            client = JailClient(isolation)
        result = client.ask(job)
    except SandboxError as error:
        return {"lost": str(error), "node": node}
    except BaseException:
        if client is not None:
            client.end()
        raise
    if client.alive:
        _clients[isolation] = client
    return {**result, "node": node}


@cache
def sandbox_code() -> str:
    """Return a digest of all that a verdict depends on: the jail's code, and Python's version."""
    digest = blake2b(f"{sys.version_info[:2]}".encode(), digest_size=16)
    room = Path(jail.__file__).parent
    for file in sorted(room.rglob("*.py")):
        digest.update(f"{file.relative_to(room)}\0".encode() + file.read_bytes())
    return digest.hexdigest()
