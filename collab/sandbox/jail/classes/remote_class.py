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
from .objects import RemoteOperation

_NAMES = "new init getattribute getattr setattr delattr del init_subclass class_getitem"
_OWN_METHODS = frozenset(f"__{name}__" for name in _NAMES.split())
"""Special names that a program's class may have. The stand-in defines them itself."""
_OBJECTS_ATTRIBUTE, _NUMBER_ATTRIBUTE = "__ask__", "__number__"
_MAX_DEPTH = 100


class Unanswered(BaseException):
    """The program returned no value. A test that catches any exception does not catch this one."""


def remote_class(name: str, test_class: type, remote: RemoteFunction) -> type:
    """Return a class `name` with the methods of `test_class`. Each call runs in the worker."""
    methods = {method: _Method(method) for method in _method_names(test_class)}
    hashing: dict[str, Any] = {"__hash__": None} if test_class.__hash__ is None else {}
    return _Remote(
        name, (_Object,), {**hashing, **methods, _OBJECTS_ATTRIBUTE: _RemoteObjects(remote)}
    )


def _method_names(test_class: type) -> Iterator[str]:
    for kind in test_class.__mro__[:-1]:
        for name, member in vars(kind).items():
            if (
                isinstance(member, FunctionType | staticmethod | classmethod)
                and name not in _OWN_METHODS
            ):
                yield name


class _RemoteObjects:
    """Operations on objects in the worker, one after the other."""

    def __init__(self, remote: RemoteFunction) -> None:
        self._remote = remote
        self._numbers = count()
        self._last_read: tuple[int | None, str, Any, Any] | None = None

    def create(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> int:
        """Make an object and return its number."""
        number = next(self._numbers)
        self.perform("create", number, "", arguments, keywords)
        return number

    def get(self, number: int | None, name: str) -> Any:
        """Get a value by name.

        If the test changes the value, the change is sent to the worker before the next operation.
        """
        value = self.ask("get", number, name, {})
        if isinstance(value, list | dict | set):
            self._last_read = (number, name, value, _encode_tree(value))
        return value

    def perform(
        self,
        operation: RemoteOperation,
        number: int | None,
        name: str,
        positional: tuple[Any, ...],
        named_arguments: dict[str, Any],
    ) -> Any:
        """Perform an operation with arguments, and apply its changes to them."""
        every: dict[Any, Any] = {**dict(enumerate(positional)), **named_arguments}
        references = {
            place: vars(value)[_NUMBER_ATTRIBUTE]
            for place, value in every.items()
            if isinstance(value, _Object)
        }
        plain = {place: None if place in references else every[place] for place in every}
        arguments = [plain[place] for place in range(len(positional))]
        keywords = {key: plain[key] for key in named_arguments}
        value = self.ask(operation, number, name, references, *arguments, **keywords)
        for place, argument in every.items():
            if type(argument) in (list, dict, set):
                _update_in_place(argument, self.ask("given", None, place, {}))
        return value

    def ask(self, *arguments: Any, **keywords: Any) -> Any:
        last_read, self._last_read = self._last_read, None
        if last_read is not None:
            number, name, value, before = last_read
            if _encode_tree(value) != before:
                self.ask("set", number, name, {}, value)
        try:
            return self._remote.ask(arguments, keywords)
        except NoAnswer as error:
            raise Unanswered(str(error)) from None


def _encode_tree(value: object) -> Any:
    """Return a tree that shows whether a value was changed, or None if it can no longer be
    transferred."""
    try:
        return codec.encode(value, _MAX_DEPTH)
    except (codec.Foreign, codec.TooDeep):
        return None


def _update_in_place(value: Any, now: Any) -> None:
    """Change a list, set or dictionary to the state of the program's copy."""
    if type(now) is type(value) and now != value:
        value.clear()
        (value.extend if isinstance(value, list) else value.update)(now)


class _Method:
    """A method, of an object or of the class."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, made: object, kind: type) -> Callable[..., Any]:
        number = None if made is None else vars(made)[_NUMBER_ATTRIBUTE]

        def method(*arguments: object, **named: object) -> Any:
            answer = _remote_objects(kind).perform("call", number, self._name, arguments, named)
            return iter(answer) if self._name == "__iter__" else answer

        return method


class _Remote(type):
    """A class whose objects and own values are fetched from the worker."""

    def __call__(cls, *arguments: Any, **named: Any) -> Any:
        made: Any = object.__new__(cls)  # type: ignore[arg-type]
        vars(made)[_NUMBER_ATTRIBUTE] = _remote_objects(cls).create(arguments, named)
        return made

    def __getattr__(cls, name: str) -> Any:
        _refuse_special(name)
        return _remote_objects(cls).get(None, name)

    def __setattr__(cls, name: str, value: object) -> None:
        _remote_objects(cls).ask("set", None, name, {}, value)


class _Object:
    """An object in the worker, by its number."""

    def __getattr__(self, name: str) -> Any:
        _refuse_special(name)
        return _remote_objects(type(self)).get(vars(self)[_NUMBER_ATTRIBUTE], name)

    def __setattr__(self, name: str, value: object) -> None:
        _remote_objects(type(self)).ask("set", vars(self)[_NUMBER_ATTRIBUTE], name, {}, value)


def _remote_objects(kind: type) -> _RemoteObjects:
    objects: _RemoteObjects = vars(kind)[_OBJECTS_ATTRIBUTE]
    return objects


def _refuse_special(name: str) -> None:
    """Refuse special names that Python looks up and that a class may lack."""
    if name.startswith("__") and name.endswith("__"):
        raise AttributeError(name)
