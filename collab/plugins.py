"""Functions named by a user: `module:function`, `file.py:function`, or an entry point."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any, get_type_hints

from pydantic import PydanticUserError, TypeAdapter, ValidationError

from collab.errors import (
    CollabError,
    RecipeError,
    UnknownName,
    Untrusted,
    convert_error,
    format_error,
)
from collab.passed_functions import (
    is_in_file,
    is_in_module,
    is_passed_in_python,
    passed_function,
    plain_name,
)
from collab.trust.blocking import approved_digest, check_allowed, function_key, is_unblocked
from collab.trust.modules import load_file, restrict_to_source
from collab.trust.sources import digest_of, loaded_sources, sources_of
from collab.wording import plain_reason

_LOAD_LOCK = threading.RLock()  # else a second thread would be given a file that is half read


def find_function(
    kind: str, name: str, built_in: Mapping[str, Callable[..., Any]]
) -> Callable[..., Any]:
    """Return the function called `name`: built in, registered under `collab.<kind>s`, or by
    reference.

    Raises:
        RecipeError: there is no such function. The message suggests the nearest known name.
    """
    if name in built_in:
        return built_in[name]
    if ":" in name:
        return load_function(kind, name)
    plural = f"{kind}es" if kind.endswith("s") else f"{kind}s"
    registered = {point.name: point for point in entry_points(group=f"collab.{plural}")}
    if name in registered:
        return _load_entry_point(kind, registered[name])
    raise UnknownName(kind, name, {*built_in, *registered})


def _load_entry_point(kind: str, point: EntryPoint) -> Callable[..., Any]:
    try:
        function: Callable[..., Any] = point.load()
    except Exception as error:
        package = point.dist.name if point.dist else point.value
        raise RecipeError(
            f"{kind} '{point.name}' ({point.value}) of the installed package {package} fails to"
            f" load: {format_error(error)}; install another version of {package}, or uninstall it"
        ) from error
    return function


def load_function(kind: str, reference: str) -> Callable[..., Any]:
    """Load the function at `module:function` or `file.py:function` (relative to the current
    folder).

    In the process that passed a function in Python, the result is that function itself.

    Raises:
        RecipeError: there is no such function, or it is Python's own: those may run text as code.
        Untrusted: the function comes from a third-party recipe and is not approved.
    """
    origin, _, name = reference.rpartition(":")
    check_may_load(kind, reference)
    if (function := passed_function(reference)) is not None:
        return function
    if origin.endswith(".py"):
        module = _load_file(kind, origin)
    else:
        module = _import_module(kind, origin, name)
    function = getattr(module, name, None)
    if not callable(function):
        functions = {name: value for name, value in vars(module).items() if callable(value)}
        known = [n for n, f in functions.items() if getattr(f, "__module__", "") == module.__name__]
        raise UnknownName(f"{kind} function in {origin}", name, known)
    if inspect.isroutine(function) or inspect.isclass(function):
        _refuse_standard_library(kind, reference, str(function.__module__))
    return function  # type: ignore[no-any-return]


def check_may_load(kind: str, reference: str) -> None:
    """Check that a recipe may load the function at `reference`.

    Raises:
        RecipeError: loading the function is not allowed.
        Untrusted: the function is third-party code and is not approved.
    """
    check_origin(kind, reference)
    check_allowed(function_key(reference), f"{kind} '{reference}' is third-party code")


def check_may_import(reference: str) -> None:
    """Check that a recipe named an environment's module, and let it be imported from source.

    Raises:
        RecipeError, Untrusted: importing the module is not allowed.
    """
    check_may_load("environment", reference)
    origin = reference.rpartition(":")[0]
    if not is_unblocked(function_key(reference)):  # named by a row, about which nobody was asked
        raise Untrusted(
            f"environment '{origin}' would be imported, and the recipe does not name it; if you"
            " trust it, name it as the task, verifiers/NAME"
        )
    restrict_to_source(origin)


def check_origin(kind: str, reference: str) -> None:
    """Check the origin of a function before its module is imported.

    Raises:
        RecipeError: the name has another form than those that collab asks about, or the function is
            Python's own, or neither a file nor this process has it.
    """
    if not (is_in_file(reference) or is_in_module(reference)):
        raise RecipeError(
            f"{kind} '{reference}' does not name a function; write file.py:NAME or module:NAME"
        )
    origin, _, name = reference.rpartition(":")
    if is_passed_in_python(reference) and passed_function(reference) is None:
        raise RecipeError(
            f"{kind} '{reference}': the function {name} was passed in Python, by a script or a"
            " notebook that has ended, so the record cannot run it; pass it again, with"
            f" rewards=[{name}] or algorithm={name}, or make the collab.Team that uses it first; or"
            f" name it FILE.py:{name}, in a file that the script imports, which a run keeps"
        )
    if not origin.endswith(".py"):
        _refuse_standard_library(kind, reference, origin)


def _refuse_standard_library(kind: str, reference: str, module: str) -> None:
    if module.partition(".")[0] in sys.stdlib_module_names:
        raise RecipeError(
            f"{kind} '{reference}' is a function of Python itself and no {kind}; write your own,"
            " file.py:function"
        )


def check_call(
    what: str, function: Callable[..., Any], parameters: Sequence[str], options: Iterable[str] = ()
) -> None:
    """Check that `function` takes these `parameters` in order, and the options by name.

    Raises:
        RecipeError: the call does not fit. The message gives the call and the signature.
    """
    signature = signature_of(what, function)
    try:
        signature.bind(*parameters, **dict.fromkeys(options))
    except TypeError as error:
        raise RecipeError(
            f"{what} is called with ({', '.join(parameters)}) but takes {signature}: {error};"
            f" define it with ({', '.join(parameters)}), and its options after that"
        ) from None


def bind_options(
    kind: str,
    name: str,
    options: Mapping[str, Any],
    built_in: Mapping[str, Callable[..., Any]],
    parameter: str,
    *,
    is_async: bool = False,
) -> Callable[..., Any]:
    """Return the function `name` with its options set. It then takes one argument, `parameter`.

    Raises:
        RecipeError: there is no such function, it does not take these options, or it must be async
            and is not.
    """
    function = find_function(kind, name, built_in)
    what = f"{kind} '{name}'"
    converted = check_options(what, function, options)
    check_call(what, function, (parameter,), converted)
    plain = inspect.unwrap(function)
    callables = (plain, type(plain).__call__)
    if is_async and not any(map(inspect.iscoroutinefunction, callables)):
        raise RecipeError(
            f"{kind} '{plain_name(function)}' must be `async def`, so that it can await"
        )
    return partial(function, **converted)


def check_not_async(what: str, function: Callable[..., Any]) -> None:
    """Raise RecipeError if `function` is async."""
    if inspect.iscoroutinefunction(function):
        raise RecipeError(f"{what} is an async function; use a plain function")


def call_function(
    what: str, boundary: type[CollabError], function: Callable[..., Any], *args: Any
) -> Any:
    """Call a user's `function` and return its result.

    Raises:
        CollabError: of the type `boundary`, if the function raised or exited; a CollabError that it
            raised itself is not changed.
    """
    try:
        return function(*args)
    except CollabError:
        raise
    except (Exception, SystemExit) as error:
        raise convert_error(error, boundary, what) from error


def signature_of(what: str, function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a function, or raise RecipeError if it has none. `what` describes
    the function in the error.
    """
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):
        raise RecipeError(f"{what} has no signature; give a Python function") from None


def check_options(
    what: str, function: Callable[..., Any], options: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the options, converted to the types that `function` takes after its first parameter.

    Raises:
        RecipeError: the function does not take an option (the message suggests the nearest name),
            an option has another type, or an option is missing.
    """
    signature = signature_of(what, function)
    parameters = list(signature.parameters.values())[1:]
    named = {p.name: p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        for name in options:
            if name not in named:
                raise UnknownName(f"option of {what}", name, named)
    for name, parameter in named.items():
        if parameter.default is parameter.empty and name not in options:
            raise RecipeError(
                f"{what} needs the option '{name}', because it takes"
                f" ({', '.join(signature.parameters)}); set the option, or remove the parameter"
            )
    hints = _type_hints(function)
    return {
        name: _convert_option(f"{what}: option '{name}'", hints[name], value)
        if name in hints
        else value
        for name, value in options.items()
    }


def _type_hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except (AttributeError, NameError, SyntaxError, TypeError):  # names for type checkers only
        return {}


def _convert_option(what: str, hint: Any, value: Any) -> Any:
    try:
        return TypeAdapter(hint).validate_python(value)
    except PydanticUserError:  # a class that pydantic does not know
        return value
    except ValidationError as error:
        reason = plain_reason(error.errors()[0]["msg"])
        raise RecipeError(f"{what}: {reason}, got {value!r:.80}") from None


def _import_module(kind: str, name: str, function: str) -> ModuleType:
    restrict_to_source(name)
    try:
        return importlib.import_module(name)
    except Exception as error:
        missing = isinstance(error, ModuleNotFoundError) and error.name == name
        hint = f"; for a file, write FILE.py:{function}" if missing else ""
        raise RecipeError(
            f"{kind} '{name}' cannot be imported: {format_error(error)}{hint}"
        ) from error


def _load_file(kind: str, name: str) -> ModuleType:
    path = Path(name).resolve()
    if not path.is_file():
        raise RecipeError(f"{kind} file '{name}' does not exist (looked for {path})")
    with _LOAD_LOCK:
        sources = sources_of(path)
        version = approved_digest(str(path)) or digest_of(sources)
        stem = re.sub(r"\W", "_", path.stem)
        module_name = f"collab_plugin_{stem}_{abs(hash((str(path), version)))}"
        if digest_of(sources) == version:
            loaded_sources[path] = sources
        if module_name in sys.modules:
            return sys.modules[module_name]
        try:
            return load_file(module_name, sources)
        except RecipeError:
            raise
        except Exception as error:
            raise RecipeError(
                f"{kind} file '{name}' fails to load: {format_error(error)}"
            ) from error
