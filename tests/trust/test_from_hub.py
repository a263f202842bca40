"""A team from the hub is stored in a folder per commit, without compiled files."""

from pathlib import Path

import pytest

from collab.errors import RecipeError
from collab.trust import from_hub


@pytest.mark.parametrize("commit", ["../../../evil", "/tmp/evil", "a" * 39, "A" * 40, "None"])
def test_invalid_hub_commit_is_refused(tmp_path: Path, commit: str) -> None:
    with pytest.raises(RecipeError, match="40 hex digits"):
        from_hub._fetched("a/b", commit, tmp_path)


def test_newest_commit_must_be_a_valid_commit(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "recipe.yaml").write_text("")
    assert from_hub._newest(tmp_path / "place", "../other") is None


@pytest.mark.parametrize("name", ["a.pyc", "__pycache__/a.cpython-311.pyc", "a.abi3.so", "b.pyd"])
def test_no_compiled_file_is_fetched(name: str) -> None:
    from huggingface_hub.utils import filter_repo_objects  # type: ignore[attr-defined]

    names = [f"{part}/deep/{name}" for part in ("functions", "data", "models", "adapters")]
    wanted, unwanted = from_hub.WANTED, from_hub.UNWANTED
    names_with_source = [*names, "functions/deep/a.py"]
    filtered = filter_repo_objects(
        names_with_source, allow_patterns=wanted, ignore_patterns=unwanted
    )
    assert [*filtered] == ["functions/deep/a.py"]


@pytest.mark.parametrize("sizes", [[1] * 1_001, [20_000_000_000, 1, None]])
def test_a_team_on_the_hub_has_limits(sizes: list[int | None]) -> None:
    from_hub.check_size("hub:a/b", sizes[:-2])
    with pytest.raises(RecipeError, match=r"at most 1,000 files and 20 GB"):
        from_hub.check_size("hub:a/b", sizes)
