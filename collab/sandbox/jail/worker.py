"""The untrusted side: a sealed process that loads one program and answers calls.

Nothing here is trusted once the program runs, since the program can change it all. Only the test
runner judges its output.
"""

from __future__ import annotations

import importlib
import sys
import traceback
import types
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from . import codec, wire
from .classes.objects import CLASS, Objects
from .files import File, entry_file, is_files, split_files
from .limits import Limits
from .modules import Modules
from .processes import FIRST_FD
from .treatment import ActiveTreatment, Undefined, compile_treated
from .whole_program import MAIN_ENTRY_POINT, as_function

IN_FD, OUT_FD = FIRST_FD, FIRST_FD + 1
PROGRAM_MODULE = "program"
PROGRAM_FILE = "program.py"
MESSAGE_CHARACTERS = 400


def run_worker(limits: Limits) -> None:
    """Load the program that arrives at IN_FD, and answer calls at OUT_FD until the end."""
    wire.send(OUT_FD, {"sealed": True})
    calls = wire.Reader(IN_FD, wire.TRIAL_BYTES)
    brief = calls.receive()
    try:
        function, treatment = _load(**brief)
    except BaseException as error:
        wire.send(OUT_FD, {"failed": _load_error(error), "memory": isinstance(error, MemoryError)})
        return
    wire.send(OUT_FD, {"loaded": True})
    while True:
        wire.send(OUT_FD, reply(function, calls.receive(), limits, treatment))


def _load(
    program: str, entry_point: str, treatment: dict[str, Any] | None
) -> tuple[Callable[..., Any], ActiveTreatment | None]:
    """Return the program's function, and the treatment in progress, if there is one."""
    sys.path[:] = []
    sys.argv[:] = [PROGRAM_FILE]
    if entry_point == MAIN_ENTRY_POINT and treatment is None:
        return _load_whole_program(program), None
    if is_files(program):
        module, active = _load_files(program, treatment)
    else:
        module, active = _load_one(program, treatment)
    del program, treatment
    if entry_point.startswith(CLASS):
        name = entry_point.removeprefix(CLASS)
        if not isinstance(kind := module.__dict__.get(name), type):
            raise Undefined(f"no class `{name}` is defined")
        return Objects(kind), active
    function = _find_function(module, entry_point)
    if not callable(function):
        raise Undefined(f"no function `{entry_point}` is defined")
    return function, active


def _load_whole_program(program: str) -> Callable[[str], str]:
    """Return a program that reads and prints, of one file or of several."""
    if not is_files(program):
        return as_function(compile(program, PROGRAM_FILE, "exec", dont_inherit=True))
    files = split_files(program)
    codes, _ = _compile_files(files, None)
    return as_function(codes[entry_file(files).module], Modules(codes).install)


def _find_function(module: types.ModuleType, name: str) -> object:
    """Return the function of a module. `Solution.area` is a method of a new object.

    If there is no such class, the function `area` is meant, as in published harnesses.
    """
    owner, _, method = name.rpartition(".")
    if owner not in module.__dict__:
        return module.__dict__.get(method)
    kind: Any = module.__dict__.get(owner)
    return getattr(kind(), method, None) if isinstance(kind, type) else None


def _load_one(
    program: str, treatment: dict[str, Any] | None
) -> tuple[types.ModuleType, ActiveTreatment | None]:
    module = types.ModuleType(PROGRAM_MODULE)
    module.__file__ = PROGRAM_FILE
    sys.modules[PROGRAM_MODULE] = module
    active: ActiveTreatment | None = None
    if treatment is None:
        code = compile(program, PROGRAM_FILE, "exec", dont_inherit=True)
    else:
        code, active = compile_treated(program, PROGRAM_FILE, **treatment)
    del program, treatment
    exec(code, module.__dict__)
    return module, active


def _load_files(
    program: str, treatment: dict[str, Any] | None
) -> tuple[types.ModuleType, ActiveTreatment | None]:
    """Return the module of the tested function, for a program of files that import each other."""
    files = split_files(program)
    entry, (codes, active) = entry_file(files).module, _compile_files(files, treatment)
    del program, treatment, files
    Modules(codes).install()
    return importlib.import_module(entry), active


def _compile_files(
    files: tuple[File, ...], treatment: dict[str, Any] | None
) -> tuple[dict[str, types.CodeType], ActiveTreatment | None]:
    """Return the code of each file by its module. The first module with the helper is treated."""
    codes = {f.module: compile(f.source, f.name, "exec", dont_inherit=True) for f in files}
    if treatment is None:
        return codes, None
    for file in files:
        lines = treatment["lines"] and [line - file.line + 1 for line in treatment["lines"]]
        here = {**treatment, "lines": lines}  # of the file, not of the whole text
        with suppress(Undefined):
            codes[file.module], active = compile_treated(file.source, file.name, **here)
            return codes, active
    raise Undefined(f"no function `{treatment['function']}` is defined")


def _load_error(error: BaseException) -> str:
    if isinstance(error, Undefined):
        return str(error)
    if isinstance(error, SyntaxError):
        where = _format_place(error.lineno, error.offset, error.filename or PROGRAM_FILE)
        return f"{type(error).__name__}: {error.msg}{where}"
    places = [
        (line, frame.f_code.co_filename)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if _is_program_file(frame.f_code.co_filename)
    ]
    line, file = places[-1] if places else (None, PROGRAM_FILE)
    message = str(error)[:MESSAGE_CHARACTERS]
    return f"{type(error).__name__}: {message}{_format_place(line, None, file)}"


def _is_program_file(file: str) -> bool:
    """Return True if code is the program's own. Code on this machine has an absolute path."""
    return file.endswith(".py") and "<" not in file and not file.startswith("/")


def _format_place(line: int | None, column: int | None, file: str) -> str:
    if line is None:
        return ""
    named = "" if file == PROGRAM_FILE else f"{file}, "
    return f" ({named}line {line}, column {column})" if column else f" ({named}line {line})"


def reply(
    function: Callable[..., Any], call: Any, limits: Limits, treatment: ActiveTreatment | None
) -> dict[str, Any]:
    """Call the function as the frame `call` says, and return the frame with its value or
    exception.
    """
    if treatment is not None:
        treatment.begin()
    answer = _call_function(function, call, limits)
    if treatment is not None and treatment.is_spoilt:
        answer = {"raised": "SpoiltTreatment"}
    return {"id": call["id"], **answer}


def _call_function(function: Callable[..., Any], call: Any, limits: Limits) -> dict[str, Any]:
    """Return the result of the function, as the fields of a frame."""
    try:
        arguments = codec.decode(call["arguments"], limits.argument_depth, bounded=False)
        keywords = codec.decode(call["keywords"], limits.argument_depth, bounded=False)
        return _value_fields(function(*arguments, **keywords), limits)
    except BaseException as error:
        return _error_fields(error)


def _value_fields(value: object, limits: Limits) -> dict[str, Any]:
    if type(value) in (str, bytes, bytearray, list) and len(value) > limits.answer_bytes:  # type: ignore[arg-type]
        return {"over": f"a value of more than {limits.answer_bytes} bytes"}
    try:
        return {"value": codec.encode(value, limits.depth)}
    except codec.Foreign as error:
        return {"foreign": str(error)[:MESSAGE_CHARACTERS]}
    except (codec.TooDeep, RecursionError):
        return {"over": f"a value nested deeper than {limits.depth}"}


def _error_fields(error: BaseException) -> dict[str, Any]:
    kind = type(error)
    try:
        message = str(error)[:MESSAGE_CHARACTERS]
    except BaseException:
        message = ""
    return {
        "raised": kind.__name__,
        "message": message,
        "base": next(filter(codec.is_transferable, kind.__mro__), Exception).__name__,
        "memory": isinstance(error, MemoryError),
    }
