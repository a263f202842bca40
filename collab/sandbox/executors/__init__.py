"""Executors of trials, on this machine or on the nodes of a cluster, with one interface."""

from __future__ import annotations

from collab.recipe.sandbox import SandboxSpec
from collab.sandbox.executors.base import Executor, Job, Result
from collab.sandbox.executors.local import LocalExecutor, processors
from collab.wording import counted

__all__ = ["Executor", "Job", "Result", "judging", "open_executor"]


def open_executor(spec: SandboxSpec) -> Executor:
    """Return the executor that `spec` names; no process starts before its first job.

    Raises SandboxUnavailable if a package that it needs is not installed.
    """
    if spec.executor == "ray":
        from collab.sandbox.executors.on_ray import RayExecutor

        return RayExecutor(spec.isolation, spec.workers, spec.address)
    return LocalExecutor(spec.isolation, spec.workers)


def judging(spec: SandboxSpec) -> str:
    """Describe how many programs are judged at the same time, and where."""
    if spec.executor == "ray":
        many = counted(spec.workers, "program") if spec.workers else "one program per processor"
        return f"{many} at a time, on the ray cluster {spec.address}"
    return f"{counted(spec.workers or processors(), 'program')} at a time, on this machine"
