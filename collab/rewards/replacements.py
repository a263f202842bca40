"""What stands in for a helper when its contribution is measured.

A stub is visibly broken: a caller that has another way to its answer loses no test by it. A changed
helper gives values of its own types: a caller that only asks whether there is a value
(`if aux(x) is None: return None`) loses no test by that. A helper contributes when its caller
loses tests either way.
"""

from __future__ import annotations

_STUBS = ("None", "object()")
"""A value that means nothing, and one that no operation knows; a fallback may swallow either."""
_FIRST_VALUE = '''
def _collab_change(value, _first=[]):
    """The value of the first call, for ever."""
    _first.append(value)
    return _first[0]
'''
_OTHER_VALUE = '''
def _collab_change(value):
    """Another value of the same type, but no other answer to yes or no."""
    return value if value is None or isinstance(value, bool) else _collab_other(value)


def _collab_other(value):
    if isinstance(value, bool):
        return not value
    if isinstance(value, (int, float, complex)):
        return -1 - value
    if isinstance(value, (str, bytes)):
        return value[::-1] + (b"~" if isinstance(value, bytes) else "~")
    if isinstance(value, tuple):
        return tuple(map(_collab_other, value))
    if isinstance(value, (list, set, frozenset)):
        others = [_collab_other(item) for item in value]
        kind = next(k for k in (list, set, frozenset) if isinstance(value, k))
        return kind(others + (others[-1:] or [0]))
    if isinstance(value, dict):
        return {_collab_other(key): _collab_other(item) for key, item in value.items()}
    if hasattr(value, "__iter__"):
        return (_collab_other(item) for item in value)
    if callable(value):
        return lambda *args, **kwargs: _collab_other(value(*args, **kwargs))
    return object()
'''
_REPLACE = '''
def _collab_replaced(helper):
    """`helper` with every value changed, but for those of calls that it makes itself."""
    active = []

    def replacement(*args, **kwargs):
        if active:
            return helper(*args, **kwargs)
        active.append(True)
        try:
            value = helper(*args, **kwargs)
        finally:
            active.clear()
        return _collab_change(value)

    return replacement
'''


def stubs(source: str, helper: str) -> tuple[str, ...]:
    """`source` with its function `helper` replaced by one that does nothing, in each way."""
    return tuple(
        f"{source}\n\n\ndef {helper}(*args, **kwargs):\n    return {value}\n" for value in _STUBS
    )


def changed(source: str, helper: str) -> tuple[str, ...]:
    """`source` with other values of its function `helper`, in each way."""
    replace = f"if '{helper}' in globals():\n    {helper} = _collab_replaced({helper})\n"
    return tuple(
        "\n\n".join((source, change, _REPLACE, replace)) for change in (_OTHER_VALUE, _FIRST_VALUE)
    )
