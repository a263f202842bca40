"""Malicious problem files are refused quickly and without using much memory."""

import gzip
import tracemalloc
import zlib
from pathlib import Path

import pytest

from collab.errors import TaskError
from collab.tasks import origins
from collab.tasks.origins import read_file


def test_decompression_bomb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "bomb.jsonl.gz"
    path.write_bytes(300 * gzip.compress(b" " * 1_000_000 + b"\n"))
    assert path.stat().st_size < 1_000_000
    tracemalloc.start()
    with pytest.raises(TaskError, match=r"its 0\.3 MB unpack to more than 67 MB"):
        read_file(path)
    assert tracemalloc.get_traced_memory()[1] < 250_000_000
    tracemalloc.stop()


def test_file_of_too_many_problems_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(origins, "MAX_ROWS", 3)
    path = tmp_path / "many.jsonl"
    path.write_text("{}\n" * 3)
    assert len(read_file(path)) == 3
    path.write_text("{}\n" * 4)
    with pytest.raises(TaskError, match="more than 3 problems"):
        read_file(path)


@pytest.mark.parametrize("name", ["x.jsonl", "x.json", "x.jsonl.gz", "x.json.gz"])
@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a": ' * 100_000, "9" * 5000, '[{"prompt": "\\ud800"}]', "\x00"]
)
def test_invalid_json_is_refused(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(text.encode()) if name.endswith(".gz") else text.encode())
    with pytest.raises(TaskError, match="not JSON"):
        read_file(path)


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\x1f\x8b", b"no gzip"),
        *(gzip.compress(b"{}\n", mtime=0)[:-6], zlib.compress(b"{}")),
        b"\x1f\x8b\x08\x00" + b"\x00" * 6 + b"\xff" * 20,
    ],
)
def test_invalid_gzip_file_is_refused(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(data)
    if data:
        with pytest.raises(TaskError, match="cannot be read"):
            read_file(path)
    else:
        assert read_file(path) == []
