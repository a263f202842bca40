"""Follows a run to its end. Ctrl-C ends it within two seconds, and a study within seven."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from types import FrameType
from typing import Any

from collab.cli import options
from collab.cli.live.view import JsonView, TextView, View
from collab.cli.screen.page import TerminalPage, open_page
from collab.errors import CollabError, error_class
from collab.recipe import Recipe
from collab.records import Problem
from collab.runs.about import mark_interrupted
from collab.runtime.events import RunFinished, RunStatus
from collab.runtime.summary import RunProgress
from collab.runtime.team import stream_run
from collab.signals import INTERRUPTED_STATUS, ending_signals
from collab.wording import counted, drop_python_remedies

GRACE_SECONDS = 1.0
"""An interrupted run waits this long for work that does not stop."""


def open_view(*, json: bool) -> View:
    """Return a view for stdout: JSON lines, a live report on a terminal, or a plain report."""
    if json:
        return JsonView()
    page = open_page()
    if not isinstance(page, TerminalPage):
        return TextView(page)
    from collab.cli.live.progress import LiveView  # imports rich

    return LiveView(page)


def run_with_view(
    recipe: Recipe, problems: Sequence[Problem], *, out: Path | None, view: View
) -> RunProgress:
    """Run the team on the problems, show the progress in `view`, and return the episodes.

    An interruption is not an error: the result has the finished episodes and the status.

    Raises:
        RecipeError, ModelUnavailable, FeedbackUnavailable, ToolUnavailable, SandboxUnavailable:
            nothing has run.
        RecordError: the record cannot be written.
    """
    so_far = RunProgress()

    async def follow() -> None:
        run = stream_run(
            recipe,
            problems,
            out=out,
            progress=view.progress,
            loading=view.show_loading,
            so_far=so_far,
        )
        async with aclosing(run) as events:
            async for event in events:
                if not isinstance(event, RunFinished):  # shown once everything is closed
                    view.show(event)

    def finish(status: RunStatus) -> str:
        so_far.status = status
        if so_far.run:
            view.show(so_far.finished())
        if status == "interrupted" and out is not None:
            mark_interrupted(out)
        place = f" in {out}" if out else ""
        return f": {counted(len(so_far.episodes), 'finished episode')}{place}"

    run_to_end(follow(), view, finish)
    return so_far


def run_to_end(
    work: Coroutine[Any, Any, object],
    view: View,
    finish: Callable[[RunStatus], str],
    grace_seconds: float = GRACE_SECONDS,
) -> bool:
    """Run the work, and return False if SIGINT, SIGTERM or SIGHUP ended it. See `interruptible`.

    However the work ends, `finish` is called once, and then the view closes. The text that
    `finish` returns is printed after the word "interrupted" if the work was interrupted.
    """
    end_lock = threading.Lock()

    def end(status: RunStatus) -> None:
        if not end_lock.acquire(blocking=False):
            return
        try:
            remark = finish(status)
        finally:
            view.close()
        if status == "interrupted":
            print(f"interrupted{remark}", file=sys.stderr)

    async def main() -> bool:
        with interruptible(lambda: end("interrupted"), grace_seconds) as was_interrupted:
            try:
                await work
            except asyncio.CancelledError:
                if not was_interrupted():
                    raise
                return False
        return True

    try:
        is_done = asyncio.run(main())
    except BaseException:
        end("failed")
        raise
    end("done" if is_done else "interrupted")
    return is_done


@contextmanager
def interruptible(
    give_up: Callable[[], None], grace_seconds: float
) -> Iterator[Callable[[], bool]]:
    """Context manager in which SIGINT, SIGTERM and SIGHUP cancel the task that entered it. Its
    value tells whether one of them came.

    If the process still runs after `grace_seconds`, e.g. because a thread does not end, it calls
    `give_up`, kills its children and exits.
    """
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    is_interrupted = False

    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        nonlocal is_interrupted
        if not is_interrupted:
            is_interrupted = True
            deadline = threading.Timer(grace_seconds, exit_now)
            deadline.daemon = True
            deadline.start()
            loop.call_soon_threadsafe(task.cancel)

    def exit_now() -> None:
        try:
            give_up()
        finally:
            _kill_children()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(INTERRUPTED_STATUS)

    handlers = {number: signal.signal(number, interrupt) for number in ending_signals()}
    try:
        yield lambda: is_interrupted
    finally:
        if not is_interrupted:
            for number, handler in handlers.items():
                signal.signal(number, handler)


def _kill_children() -> None:
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(OSError):
            for child in path.read_text().split():
                os.kill(int(child), signal.SIGKILL)


def exit_status(run: RunProgress, *, require_solved: bool) -> int:
    """Return the exit status of a run. If every episode failed, print why.

    It is 2 if each failed for a missing part, and otherwise 1. With `require_solved`, it is also 1
    if an episode is not solved.
    """
    if run.status == "interrupted":
        return INTERRUPTED_STATUS
    failures = [episode.failure for episode in run.episodes if episode.failure]
    if failures and len(failures) == len(run.episodes):
        first = failures[0]
        if options.debugging and first.traceback:
            print(first.traceback, file=sys.stderr)
        reason = drop_python_remedies(f"{first.type}: {first.message}")
        print(f"error: every episode failed: {reason}", file=sys.stderr)
        return status_of_failures([failure.type for failure in failures])
    if require_solved and not all(episode.solved for episode in run.episodes):
        return 1
    return 0


def status_of_failures(types: Iterable[str]) -> int:
    """Return the exit status for these error types: 2 if each means a missing part, otherwise 1."""
    kinds = [error_class(name) or CollabError for name in types]
    return 2 if all(kind.exit_status == 2 for kind in kinds) else 1
