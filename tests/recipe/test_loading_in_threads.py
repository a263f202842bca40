"""Loading files of functions while other threads import or load."""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

from collab.plugins import load_function

SLOW = """
import time
from beside import NUMBER
time.sleep(0.2)
def reward(answer):
    return NUMBER
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text("NUMBER = 7\n")
    (tmp_path / "parts.py").write_text(SLOW)
    return tmp_path / "parts.py"


@pytest.fixture
def importing() -> Iterator[None]:
    """A thread that adds and removes modules, like one that imports a library."""
    ended = threading.Event()

    def work() -> None:
        while not ended.is_set():
            for number in range(200):
                sys.modules[f"imported_meanwhile_{number}"] = ModuleType("meanwhile")
            for number in range(200):
                del sys.modules[f"imported_meanwhile_{number}"]

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=work)
    thread.start()
    yield
    ended.set()
    thread.join()
    sys.setswitchinterval(interval)


@pytest.mark.usefixtures("importing")
def test_a_file_is_loaded_while_another_thread_imports(file: Path) -> None:
    for number in range(20):
        other = file.with_name(f"parts_{number}.py")
        other.write_text("from beside import NUMBER\ndef reward(answer):\n    return NUMBER\n")
        assert load_function("reward", f"{other}:reward")("") == 7


def test_concurrent_threads_load_a_file_once(file: Path) -> None:
    with ThreadPoolExecutor(4) as pool:
        functions = list(pool.map(lambda _: load_function("reward", f"{file}:reward"), range(4)))
    assert [function("") for function in functions] == [7] * 4
    assert len({id(function) for function in functions}) == 1
