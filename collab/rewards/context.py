"""What a reward part sees: the problem, the artefacts, and the verdict on the joint program."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from collab.agents.joins import Joint, preamble
from collab.errors import RewardError
from collab.recipe.roles import Roles, roles_of
from collab.records import Problem

if TYPE_CHECKING:
    from collab.sandbox import Sandbox, Treatment, Verdict

T = TypeVar("T")


@dataclass(frozen=True)
class Part:
    """What a part's function found."""

    value: float
    """From 0 to 1."""
    reason: str = ""
    applies: bool = True
    """False where the part has no meaning here; it then leaves the maximum too."""
    passes: bool | None = None
    """Whether a gate here lets scoring go on; None: when the value is above 0."""
    solved: bool | None = None
    """Whether the task is solved; None: a part marked `solves` says so by a value of 1."""


class RewardContext:
    """One joint action under a problem's hidden eyes."""

    def __init__(
        self,
        problem: Problem,
        joint: Joint,
        artefacts: Mapping[str, str],
        sandbox: Sandbox | None,
        roles: Roles | None = None,
    ) -> None:
        """`roles`: by default every agent contributes, and `main` or the last one has the entry."""
        self.problem = problem
        self.roles = roles or roles_of(tuple(artefacts))
        self.artefacts = dict(artefacts)
        """By agent, in the team's order; also of those that do not write the answer."""
        self.joint = joint
        self._sandbox = sandbox
        self._loop = asyncio.get_running_loop()
        self._verdicts: dict[Hashable, asyncio.Task[Verdict]] = {}
        self._known: dict[Hashable, object] = {}
        self._judging = _Stopwatch()

    @property
    def agents(self) -> tuple[str, ...]:
        """Those that write the answer, in the team's order."""
        return self.roles.contributors

    @property
    def contributions(self) -> dict[str, str]:
        """The artefacts that the join was handed, by agent."""
        return {agent: self.artefacts[agent] for agent in self.agents}

    def field(self, name: str) -> str:
        """A field of the problem, public or hidden, as text.

        Raises:
            RewardError: the problem has no such field.
        """
        fields = {**self.problem.public, **self.problem.hidden}
        if name not in fields:
            raise RewardError(
                f"{self.problem.address} has no field '{name}', which the reward needs"
                f" (fields: {', '.join(fields)})"
            )
        return str(fields[name])

    def once(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value that `make` gave for `key`; parts of one reward share what they work out."""
        if key not in self._known:
            self._known[key] = make()
        return self._known[key]  # type: ignore[return-value]

    async def verdict(
        self,
        program: str | None = None,
        *,
        treatment: Treatment | None = None,
        run: int = 0,
    ) -> Verdict:
        """The sandbox's verdict on the joint program, run at most once.

        With `program` the verdict is on that one instead. With a `treatment` one function of it
        gives other values. Another `run` is a run of its own.

        Raises:
            RewardError: there is no sandbox, or the problem has no tests.
            SandboxError: the sandbox itself failed.
        """
        work = self._judged(self.joint.text if program is None else program, treatment, run)
        if asyncio.get_running_loop() is self._loop:
            return await work
        elsewhere = asyncio.run_coroutine_threadsafe(work, self._loop)
        return await asyncio.wrap_future(elsewhere)

    @property
    def known_verdict(self) -> Verdict | None:
        """The verdict on the joint program, where a part has asked for it."""
        task = self._verdicts.get((self.joint.text, None, 0))
        return task.result() if task is not None and task.done() else None

    @property
    def sandbox_seconds(self) -> float:
        """Wall time spent waiting for the sandbox, which keeps limits of its own."""
        return self._judging.seconds

    def close(self) -> None:
        """Stop the runs that nobody waits for any more."""
        for task in self._verdicts.values():
            task.cancel()

    async def _judged(self, program: str, treatment: Treatment | None, run: int) -> Verdict:
        key = (program, treatment, run)
        if key not in self._verdicts:
            self._verdicts[key] = asyncio.create_task(self._check(program, treatment))
        return await self._verdicts[key]

    async def _check(self, program: str, treatment: Treatment | None) -> Verdict:
        from collab.sandbox import Trial

        if self._sandbox is None:
            raise RewardError("the reward runs tests, and no sandbox is open to run them")
        entry_point = self.field("entry_point")
        trial = Trial(
            program=program,
            entry_point=entry_point,
            test=self.field("test"),
            prelude=preamble(str(self.problem.public.get("prompt", "")), entry_point),
            treatment=treatment,
        )
        with self._judging:
            return await self._sandbox.check(trial)


class _Stopwatch:
    """Wall time during which at least one of several things was under way."""

    def __init__(self) -> None:
        self._active, self._since, self._total = 0, 0.0, 0.0

    def __enter__(self) -> None:
        if not self._active:
            self._since = time.perf_counter()
        self._active += 1

    def __exit__(self, *_: object) -> None:
        self._active -= 1
        if not self._active:
            self._total += time.perf_counter() - self._since

    @property
    def seconds(self) -> float:
        running = time.perf_counter() - self._since if self._active else 0.0
        return self._total + running
