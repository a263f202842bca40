"""The untrusted end: a sealed process that loads one program and answers calls.

Nothing here is trusted once the program runs, since the program can change it all; what it sends
is judged by the referee alone.
"""

from __future__ import annotations

import fcntl
import os
import sys
import traceback
import types
from collections.abc import Callable
from typing import Any

from . import codec, wire
from .layers import LayerUnavailable
from .limits import Limits

IN, OUT = 3, 4
MODULE = "program"
FILE = "program.py"
MESSAGE_CHARACTERS = 400
TRIAL_BYTES = 1 << 30


def work(incoming: int, outgoing: int, limits: Limits, seal: Callable[[], None]) -> None:
    """Seal this process, load the program that comes in, and answer calls until the end."""
    _keep_only(incoming, outgoing)
    try:
        seal()
    except LayerUnavailable as error:
        wire.send(OUT, refusal(error))
        return
    wire.send(OUT, {"sealed": True})
    brief = wire.receive(IN, TRIAL_BYTES)
    try:
        function = _load(brief["program"], brief["entry_point"])
    except BaseException as error:
        wire.send(OUT, {"failed": _load_error(error), "memory": isinstance(error, MemoryError)})
        return
    wire.send(OUT, {"loaded": True})
    while True:
        call = wire.receive(IN, TRIAL_BYTES)
        wire.send(OUT, {"id": call["id"], **_answer(function, call, limits)})


def refusal(error: LayerUnavailable) -> dict[str, Any]:
    """The frame that says which layer could not be put on."""
    return {"refused": {"layer": error.layer, "reason": error.reason, "remedy": error.remedy}}


class _NoFunction(Exception):
    pass


def _keep_only(incoming: int, outgoing: int) -> None:
    """Keep two descriptors, as IN and OUT; the standard three lead nowhere."""
    above = 64
    kept = [fcntl.fcntl(fd, fcntl.F_DUPFD, above) for fd in (incoming, outgoing)]
    nowhere = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1, 2):
        os.dup2(nowhere, fd)
    os.dup2(kept[0], IN)
    os.dup2(kept[1], OUT)
    os.closerange(OUT + 1, os.sysconf("SC_OPEN_MAX"))


def _load(program: str, entry_point: str) -> Callable[..., Any]:
    sys.path[:] = []
    sys.argv[:] = [FILE]
    module = types.ModuleType(MODULE)
    module.__file__ = FILE
    sys.modules[MODULE] = module
    exec(compile(program, FILE, "exec", dont_inherit=True), module.__dict__)
    function: object = module.__dict__.get(entry_point)
    if not callable(function):
        raise _NoFunction(f"no function `{entry_point}` is defined")
    return function


def _load_error(error: BaseException) -> str:
    if isinstance(error, _NoFunction):
        return str(error)
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {error.msg}{_place(error.lineno, error.offset)}"
    lines = [
        line
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename == FILE
    ]
    return f"{type(error).__name__}: {_message(error)}{_place(lines[-1] if lines else None)}"


def _place(line: int | None, column: int | None = None) -> str:
    if line is None:
        return ""
    return f" (line {line}, column {column})" if column is not None else f" (line {line})"


def _message(error: BaseException) -> str:
    return str(error)[:MESSAGE_CHARACTERS]


def _answer(function: Callable[..., Any], call: Any, limits: Limits) -> dict[str, Any]:
    try:
        arguments = codec.decode(call["arguments"], limits.argument_depth)
        keywords = codec.decode(call["keywords"], limits.argument_depth)
        return _value(function(*arguments, **keywords), limits)
    except BaseException as error:
        return _raised(error)


def _value(value: object, limits: Limits) -> dict[str, Any]:
    try:
        return {"value": codec.encode(value, limits.depth)}
    except codec.Foreign as error:
        return {"foreign": str(error)[:MESSAGE_CHARACTERS]}
    except (codec.TooDeep, RecursionError):
        return {"over": f"a value nested deeper than {limits.depth}"}


def _raised(error: BaseException) -> dict[str, Any]:
    kind = type(error)
    try:
        message = _message(error)
    except BaseException:
        message = ""
    return {
        "raised": kind.__name__,
        "message": message,
        "builtin": codec.CROSSING.get(kind.__name__) is kind,
        "memory": isinstance(error, MemoryError),
    }
