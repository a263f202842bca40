"""Every command and example of the README runs."""

import json
import subprocess
from pathlib import Path

import pytest
from support.blocks import blocks, run_here

ROOT = Path(__file__).resolve().parents[2]
TEXT = (ROOT / "README.md").read_text()
FEWER = {
    "humaneval/12": "humaneval/12 --set team.sampling.max_new_tokens=16",
    "--split test --samples 8": "--split test --samples 1 --set sampling.max_new_tokens=8"
    """ --set 'task.splits.test="140"'""",
    "'Add two numbers.'": "'Add two numbers.' --set sampling.max_new_tokens=8",
    "steps=6": "steps=1 --set trainer.evaluation.samples=1 --set trainer.group_size=4",
}


def commands() -> list[str]:
    return [line for block in blocks("../README.md", "sh") for line in block.splitlines()]


def test_make_targets_of_the_readme_exist() -> None:
    make_lines = [line for line in commands() if line.startswith("make ")]
    assert make_lines == ["make run", "make test"]
    for line in make_lines:
        subprocess.run([*line.split(), "--dry-run"], cwd=ROOT, check=True, capture_output=True)


@pytest.mark.slow
def test_every_command_runs(tmp_path: Path) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    script = "\n".join(line for line in commands() if not line.startswith("make "))
    for words, fewer in FEWER.items():
        script = script.replace(words, fewer)
    run_here(script, tmp_path)
    runs = [*tmp_path.glob("runs/*/run.json")]
    assert len(runs) >= 3
    assert {json.loads(run.read_text())["status"] for run in runs} == {"done"}


def test_rows_and_a_function_train_a_team(
    here: Path, tiny_words: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [code] = blocks("../README.md", "python")
    small = f"model={{'name': {str(tiny_words)!r}, 'device': 'cpu'}}, max_new_tokens=2"
    exec(code.replace("max_new_tokens=8", small), {})
    assert capsys.readouterr().out.strip()


def test_readme_is_short() -> None:
    assert len(TEXT.splitlines()) <= 120
