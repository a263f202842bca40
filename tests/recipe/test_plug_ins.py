"""Functions registered by an installed package."""

from pathlib import Path

import pytest

from collab import plugins
from collab.errors import RecipeError


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
