import json
import math
import os
from collections import Counter, OrderedDict, defaultdict, namedtuple
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collab.sandbox.jail import codec, wire
from collab.sandbox.jail.probes import LIMITS

DEPTH = 64
atoms = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(-(2**300), 2**300)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec=None))
    | st.binary()
    | st.complex_numbers(allow_nan=False)
)
keys = st.recursive(
    atoms, lambda inner: st.tuples(inner, inner) | st.frozensets(inner), max_leaves=6
)
values = st.recursive(
    atoms,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.sets(keys)
        | st.dictionaries(keys, inner)
        | st.builds(bytearray, st.binary())
    ),
    max_leaves=20,
)
trees = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.sampled_from([*codec._DECODERS, "other"]), inner, max_size=2)
    ),
    max_leaves=20,
)


def cross(value: object) -> Any:
    return codec.decode(json.loads(json.dumps(codec.encode(value, DEPTH))), DEPTH)


def same(a: Any, b: Any) -> bool:
    """Return whether two values are equal and have the same types at all levels."""
    if type(a) is not type(b):
        return False
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return same(list(a.items()), list(b.items()))
    if isinstance(a, (set, frozenset)):
        return sorted(map(repr, a)) == sorted(map(repr, b)) or a == b
    return bool(a == b)


@given(values)
def test_values_are_transferred_unchanged(value: object) -> None:
    assert same(cross(value), value)


@pytest.mark.parametrize("value", [math.inf, -math.inf, -0.0, range(3, 30, 4), 2**63, -(2**63) - 1])
def test_special_values_are_transferred(value: object) -> None:
    assert repr(cross(value)) == repr(value)


def test_nan_is_transferred() -> None:
    assert math.isnan(cross([math.nan])[0])


def test_library_dict_subclasses_are_transferred_as_dict() -> None:
    for value in (Counter("aab"), OrderedDict(b=1, a=2), defaultdict(int, {"x": 1})):
        assert type(cross(value)) is dict
        assert cross(value) == dict(value)


class Text(str):
    __slots__ = ()


class Number(int):
    __slots__ = ()


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "value", [Text("x"), Number(1), Point(1, 2), [Number(1)], {Text("k"): 1}, iter([]), Text, len]
)
def test_other_values_are_refused(value: object) -> None:
    with pytest.raises(codec.Foreign):
        codec.encode(value, DEPTH)


def test_depth_is_limited_both_ways() -> None:
    deep: list[Any] = []
    for _ in range(DEPTH):
        deep = [deep]
    with pytest.raises(codec.TooDeep):
        codec.encode(deep, DEPTH)
    with pytest.raises(codec.Undecodable):
        codec.decode(deep, DEPTH)


def test_a_cycle_is_too_deep() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(codec.TooDeep):
        codec.encode(value, DEPTH)


@given(trees)
def test_any_tree_is_decoded_or_refused(tree: Any) -> None:
    try:
        codec.encode(codec.decode(tree, DEPTH), DEPTH)
    except codec.Undecodable:
        return


@pytest.mark.parametrize(
    "tree",
    [
        {"set": [[1]]},
        {"dict": [[1]]},
        {"dict": 3},
        {"int": "zz"},
        {"int": None},
        {"bytes": "0"},
        {"complex": [1]},
        {"range": [0, 10**12, 1]},
        {"range": [0, 1, 0]},
        {"object": 1},
        {"int": "1", "bytes": ""},
        {},
    ],
)
def test_forged_trees_are_refused(tree: Any) -> None:
    with pytest.raises(codec.Undecodable):
        codec.decode(tree, DEPTH)


def framed(data: bytes, limit: int = 1000) -> Any:
    hear, say = os.pipe()
    try:
        os.write(say, data)
        os.close(say)
        return wire.Reader(hear, limit).receive()
    finally:
        os.close(hear)


def test_frames_round_trip() -> None:
    message = {"id": "1", "value": ["\ud800", None]}
    assert framed(wire.pack(message)) == message


@pytest.mark.parametrize("data", [b"", b"\0\0", b"\0\0\0\5ab"])
def test_truncated_frame_closes_the_connection(data: bytes) -> None:
    with pytest.raises(wire.Closed):
        framed(data)


@pytest.mark.parametrize("body", [b"x", b"[" * 900, b"\xff\xfe", b"[1,", b"{1:2}"])
def test_broken_frames_are_refused(body: bytes) -> None:
    with pytest.raises(wire.Malformed):
        framed(wire.HEADER.pack(len(body)) + body)


def test_frames_are_received_one_by_one_however_they_arrive() -> None:
    hear, say = os.pipe()
    reader = wire.Reader(hear, 1 << 20)
    messages = [{"id": number, "value": "x" * 5000 * number} for number in range(5)]
    stream = b"".join(map(wire.pack, messages))
    os.write(say, stream[:-20000])
    assert [reader.receive() for _ in messages[:-1]] == messages[:-1]
    reader.read()
    assert not reader.is_complete
    os.write(say, stream[-20000:])
    assert reader.receive() == messages[-1]
    assert reader.is_empty
    os.close(hear)
    os.close(say)


def test_premature_answer_is_detected_in_the_buffer() -> None:
    hear, say = os.pipe()
    line = wire.WorkerConnection(hear, say, LIMITS, lambda _: None)
    os.write(say, wire.pack({"id": 1}) + wire.pack({"id": 2}))
    assert line.receive() == {"id": 1}
    assert not line.is_quiet()
    os.close(hear)
    os.close(say)


def test_a_frame_over_the_limit_is_refused_unread() -> None:
    with pytest.raises(wire.TooLong, match="over the limit of 1000"):
        framed(b"\x7f\xff\xff\xff")
