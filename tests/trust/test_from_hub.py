"""A team from the hub is stored in a folder per commit, without compiled files."""

from pathlib import Path

import pytest
from support.hub_server import COMMIT, HubServer, read_datasets_from

from collab.errors import RecipeError
from collab.trust import from_hub


@pytest.mark.parametrize("commit", ["../../../evil", "/tmp/evil", "a" * 39, "A" * 40, "None"])
def test_invalid_hub_commit_is_refused(tmp_path: Path, commit: str) -> None:
    with pytest.raises(RecipeError, match="40 hex digits"):
        from_hub._download_commit("a/b", commit, tmp_path)


def test_newest_commit_must_be_a_valid_commit(tmp_path: Path) -> None:
    (tmp_path / "place").mkdir()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "recipe.yaml").write_text("")
    assert from_hub._newest_download(tmp_path / "place", "../other") is None


def test_older_download_is_used_only_if_the_hub_is_not_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "team").mkdir()
    (tmp_path / "team" / "recipe.yaml").write_text("")
    with HubServer("me/team", tmp_path / "team") as server:
        read_datasets_from(server.url, tmp_path / "cache", monkeypatch)
        assert from_hub.fetch_team("hub:me/team").name == COMMIT
        server.publish(tmp_path / "team", "b" * 40)

        def full(*_: object, **__: object) -> None:
            raise OSError("No space left on device")

        monkeypatch.setattr("huggingface_hub.snapshot_download", full)
        with pytest.raises(RecipeError, match="cannot be downloaded: No space left on device"):
            from_hub.fetch_team("hub:me/team")
    assert from_hub.fetch_team("hub:me/team").name == COMMIT


@pytest.mark.parametrize("name", ["a.pyc", "__pycache__/a.cpython-311.pyc", "a.abi3.so", "b.pyd"])
def test_no_compiled_file_is_fetched(name: str) -> None:
    from huggingface_hub.utils import filter_repo_objects  # type: ignore[attr-defined]

    names = [f"{part}/deep/{name}" for part in ("functions", "data", "models", "adapters")]
    wanted, unwanted = from_hub.DOWNLOAD_PATTERNS, from_hub.IGNORED_PATTERNS
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
