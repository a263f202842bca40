"""The untrusted side of a class: its objects, and the operations on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

CLASS = "class "
"""Prefix of the entry point of a test about a class."""

RemoteOperation = Literal["create", "call", "get", "set", "given"]
References = Mapping[Any, int]
"""Numbers of objects passed as arguments, by position or keyword."""


class Objects:
    """Holds the objects that a test made of the program's class, and performs operations on them.

    The caller gives each object a number when it creates the object. The number None means the
    class itself.
    """

    def __init__(self, kind: Callable[..., object]) -> None:
        self._kept: dict[int | None, Any] = {None: kind}
        self._last_arguments: dict[Any, object] = {}

    def __call__(
        self,
        operation: RemoteOperation,
        number: int | None,
        name: Any,
        references: References,
        /,
        *arguments: object,
        **keywords: object,
    ) -> object:
        """Return the result of an operation, or raise the class's own exceptions.

        create  make a new object with the number
        call    return a method's value, and keep its changes to the arguments
        get     return a value by name
        set     set a value by name to the argument
        given   return the last call's argument at a position or keyword, as the call left it
        """
        if operation == "given":
            return self._last_arguments[name]
        if operation == "get":
            return getattr(self._kept[number], name)
        if operation == "set":
            setattr(self._kept[number], name, *arguments)
            return None
        self._last_arguments = {**dict(enumerate(arguments)), **keywords}
        self._last_arguments.update({key: self._kept[kept] for key, kept in references.items()})
        arguments = tuple(self._last_arguments[place] for place in range(len(arguments)))
        keywords = {key: self._last_arguments[key] for key in keywords}
        if operation == "create":
            self._kept[number] = self._kept[None](*arguments, **keywords)
            return None
        made = getattr(self._kept[number], name)(*arguments, **keywords)
        # The iterator itself cannot cross, but its items can.
        return list(made) if name == "__iter__" else made
