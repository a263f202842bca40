"""The candidate as a test of a class sees it: a class whose objects live in the worker.

Its methods are those of a class that the test defines, so the program cannot choose what is a
method and what is a value. None of the program's objects ever exists here. Values are copies. If a
call changes its arguments, or the test changes a value that it got, the change is applied on both
sides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from types import FunctionType
from typing import Any

from .. import codec
from ..remote_function import NoAnswer, RemoteFunction
from .objects import Operation

_NAMES = "new init getattribute getattr setattr delattr del init_subclass class_getitem"
_OURS = frozenset(f"__{name}__" for name in _NAMES.split())
"""Special names that a program's class may have. The stand-in defines them itself."""
_ASK, _NUMBER = "__ask__", "__number__"
_DEEPEST = 100


class Unanswered(BaseException):
    """The program returned no value. A test that catches any exception does not catch this one."""


def remote_class(name: str, like: type, remote: RemoteFunction) -> type:
    """Return a class `name` with the methods of the class `like`. Each call runs in the worker."""
    methods = {method: _Method(method) for method in _methods(like)}
    hashing: dict[str, Any] = {"__hash__": None} if like.__hash__ is None else {}
    return _Remote(name, (_Object,), {**hashing, **methods, _ASK: _Asking(remote)})


def _methods(like: type) -> Iterator[str]:
    for kind in like.__mro__[:-1]:
        for name, member in vars(kind).items():
            if isinstance(member, FunctionType | staticmethod | classmethod) and name not in _OURS:
                yield name


class _Asking:
    """Operations on objects in the worker, one after the other."""

    def __init__(self, remote: RemoteFunction) -> None:
        self._remote = remote
        self._numbers = count()
        self._got: tuple[int | None, str, Any, Any] | None = None

    def create(self, given: tuple[Any, ...], named: dict[str, Any]) -> int:
        """Make an object and return its number."""
        number = next(self._numbers)
        self.perform("create", number, "", given, named)
        return number

    def get(self, number: int | None, name: str) -> Any:
        """Get a value by name.

        If the test changes the value, the change is sent to the worker before the next operation.
        """
        value = self.ask("get", number, name, {})
        if isinstance(value, list | dict | set):
            self._got = (number, name, value, _tree(value))
        return value

    def perform(
        self,
        operation: Operation,
        number: int | None,
        name: str,
        given: tuple[Any, ...],
        named: dict[str, Any],
    ) -> Any:
        """Perform an operation with arguments, and apply its changes to them."""
        every: dict[Any, Any] = {**dict(enumerate(given)), **named}
        references = {
            place: vars(value)[_NUMBER]
            for place, value in every.items()
            if isinstance(value, _Object)
        }
        plain = {place: None if place in references else every[place] for place in every}
        arguments = [plain[place] for place in range(len(given))]
        keywords = {key: plain[key] for key in named}
        value = self.ask(operation, number, name, references, *arguments, **keywords)
        for place, argument in every.items():
            if type(argument) in (list, dict, set):
                _become(argument, self.ask("given", None, place, {}))
        return value

    def ask(self, *given: Any, **named: Any) -> Any:
        got, self._got = self._got, None
        if got is not None:
            number, name, value, before = got
            if _tree(value) != before:
                self.ask("set", number, name, {}, value)
        try:
            return self._remote.ask(given, named)
        except NoAnswer as error:
            raise Unanswered(str(error)) from None


def _tree(value: object) -> Any:
    """Return a tree that shows whether a value was changed, or None if it can no longer be
    transferred."""
    try:
        return codec.encode(value, _DEEPEST)
    except (codec.Foreign, codec.TooDeep):
        return None


def _become(value: Any, now: Any) -> None:
    """Change a list, set or dictionary to the state of the program's copy."""
    if type(now) is type(value) and now != value:
        value.clear()
        (value.extend if isinstance(value, list) else value.update)(now)


class _Method:
    """A method, of an object or of the class."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, made: object, kind: type) -> Callable[..., Any]:
        number = None if made is None else vars(made)[_NUMBER]

        def method(*given: object, **named: object) -> Any:
            answer = _asking(kind).perform("call", number, self._name, given, named)
            return iter(answer) if self._name == "__iter__" else answer

        return method


class _Remote(type):
    """A class whose objects and own values are fetched from the worker."""

    def __call__(cls, *given: Any, **named: Any) -> Any:
        made: Any = object.__new__(cls)  # type: ignore[arg-type]
        vars(made)[_NUMBER] = _asking(cls).create(given, named)
        return made

    def __getattr__(cls, name: str) -> Any:
        _refuse_special(name)
        return _asking(cls).get(None, name)

    def __setattr__(cls, name: str, value: object) -> None:
        _asking(cls).ask("set", None, name, {}, value)


class _Object:
    """An object in the worker, by its number."""

    def __getattr__(self, name: str) -> Any:
        _refuse_special(name)
        return _asking(type(self)).get(vars(self)[_NUMBER], name)

    def __setattr__(self, name: str, value: object) -> None:
        _asking(type(self)).ask("set", vars(self)[_NUMBER], name, {}, value)


def _asking(kind: type) -> _Asking:
    asking: _Asking = vars(kind)[_ASK]
    return asking


def _refuse_special(name: str) -> None:
    """Refuse special names that Python looks up and that a class may lack."""
    if name.startswith("__") and name.endswith("__"):
        raise AttributeError(name)
