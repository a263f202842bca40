"""Functions of installed packages and of files, loaded while other threads import or load."""

import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType

import pytest

from collab import plugins
from collab.errors import RecipeError
from collab.plugins import load_function


class Unknown:
    """A class that pydantic cannot check."""


@pytest.mark.parametrize("hint", [Unknown, "pytest.Missing", "not a hint"])
def test_an_option_of_an_unknown_type_is_passed_on(hint: object) -> None:
    def part(context: object, limit: object = None) -> object:
        return context, limit

    part.__annotations__["limit"] = hint
    assert plugins.check_options("a part", part, {"limit": 3}) == {"limit": 3}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("plug_in_of_a_test:missing", "has no attribute 'missing'"),
        ("plug_in_that_is_missing:f", "No module named 'plug_in_that_is_missing'"),
        ("plug_in_of_a_test_broken:f", "ZeroDivisionError"),
        ("not a reference", "not a reference"),
    ],
)
def test_a_broken_plug_in_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, value: str, reason: str
) -> None:
    (tmp_path / "plug_in_of_a_test.py").write_text("")
    (tmp_path / "plug_in_of_a_test_broken.py").write_text("1 / 0\n")
    about = tmp_path / "collab_extra-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: collab-extra\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[collab.parsers]\nextra = {value}\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(RecipeError) as raised:
        plugins.find_function("parser", "extra", {})
    message = str(raised.value)
    assert reason in message
    assert message.endswith("install another version of collab-extra, or uninstall it")


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
