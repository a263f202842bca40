"""Where trials run: on this machine, or on the nodes of a cluster; one interface for both."""

from __future__ import annotations

from collab.recipe.sandbox import SandboxSpec
from collab.sandbox.executors.base import Executor, Job, Result
from collab.sandbox.executors.local import LocalExecutor, processors
from collab.wording import counted

__all__ = ["Executor", "Job", "Result", "judging", "open_executor"]


def open_executor(spec: SandboxSpec) -> Executor:
    """The executor that `spec` names; no process starts before its first job.

    Raises SandboxUnavailable where it takes a package that is not installed.
    """
    if spec.executor == "ray":
        from collab.sandbox.executors.on_ray import RayExecutor

        return RayExecutor(spec.isolation, spec.workers, spec.address)
    return LocalExecutor(spec.isolation, spec.workers)


def judging(spec: SandboxSpec) -> str:
    """How many programs are judged at the same time, and where."""
    if spec.executor == "ray":
        many = counted(spec.workers, "program") if spec.workers else "a program for each processor"
        return f"{many} at a time, on the ray cluster {spec.address}"
    return f"{counted(spec.workers or processors(), 'program')} at a time, on this machine"
