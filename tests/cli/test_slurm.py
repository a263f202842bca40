"""`collab train --slurm`: the file that is rendered, shown and submitted."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.tiny_words import save_tiny
from support.trainer_recipes import WORDS, make_game
from typer.testing import CliRunner

from collab.cli.app import app
from collab.cli.launch import Given, Slurm, parse_slurm, sbatch_file
from collab.errors import RecipeError
from collab.recipe.schema import dump_recipe

GOLDEN = Path(__file__).parents[1] / "recorded" / "slurm.sbatch"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    recipe = make_game(save_tiny(tmp_path / "tiny", WORDS), tmp_path, steps=2)
    (tmp_path / "r.yaml").write_text(dump_recipe(recipe))
    return tmp_path


def train(folder: Path, *arguments: str) -> Any:
    with contextlib.chdir(folder):
        return CliRunner().invoke(app, ["train", "r.yaml", *arguments])


def rendered(folder: Path, asked: str, **given: Any) -> str:
    told = {"recipe": "my recipe.yaml", "settings": ["trainer.steps=3"], "trust": False, **given}
    with contextlib.chdir(folder):
        return sbatch_file(asked, Given(**told), Path("runs/first"), resumed=False)


def check(text: str) -> None:
    """Raise for what bash cannot read."""
    subprocess.run(["/bin/bash", "-n"], input=text, text=True, check=True, capture_output=True)


def test_the_file_is_as_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/opt/collab/bin/python")
    text = rendered(tmp_path, "nodes=2,gpus=8,partition=large,time=12:00:00", seed=3)
    assert text.replace(str(tmp_path), "/work") == GOLDEN.read_text()
    check(text)


def run_script(folder: Path, text: str) -> list[list[str]]:
    """Run a job's file with commands that only tell what they were given."""
    tools = folder / "tools"
    tools.mkdir(exist_ok=True)
    told = 'printf "%s\\0" "$@" > "$TOLD"\n'
    for name, body in {"srun": told, "scontrol": "printf 'node-a\\nnode-b\\n'\n"}.items():
        (tools / name).write_text(f"#!/bin/bash\n{body}")
        (tools / name).chmod(0o755)
    environment = {
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "TOLD": str(folder / "told"),
        "SLURM_JOB_ID": "7",
        "SLURM_JOB_NODELIST": "node-[a-b]",
    }
    subprocess.run(["bash"], input=text, text=True, check=True, env=environment)
    words = (folder / "told").read_text().split("\0")[:-1]
    return [words[: words.index("collab")], words[words.index("collab") + 1 :]]


def test_a_job_begins_and_goes_on_when_it_is_queued_again(tmp_path: Path) -> None:
    text = rendered(tmp_path, "nodes=2,gpus=8")
    launch, first = run_script(tmp_path, text)
    assert {"--nnodes=2", "--nproc-per-node=8", "--rdzv-endpoint=node-a:20007"} <= set(launch)
    assert first == [
        *("train", "my recipe.yaml", "--set", "trainer.steps=3", "--out", "runs/first"),
    ]
    (tmp_path / "runs" / "first" / "training.yaml").touch()
    assert run_script(tmp_path, text)[1] == ["train", "--resume", "runs/first"]
    assert (tmp_path / "runs" / "first" / "logs" / "job-7-attempt-0").is_dir()


def test_a_job_that_goes_on_may_be_changed(tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        given = Given(None, ["trainer.steps=9"], trust=False)
        text = sbatch_file("gpus=4", given, Path("runs/first"), resumed=True)
    (tmp_path / "runs" / "first").mkdir(parents=True)
    (tmp_path / "runs" / "first" / "training.yaml").touch()
    again = run_script(tmp_path, text)[1]
    assert again == ["train", "--set", "trainer.steps=9", "--resume", "runs/first"]


def test_a_template_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "own.j2").write_text("#!/bin/bash\n{{ nodes }} {{ gpus }} {{ run | quoted }}\n")
    found = rendered(tmp_path, f"nodes=3,gpus=2,template={tmp_path / 'own.j2'}")
    assert found == "#!/bin/bash\n3 2 runs/first\n"
    (tmp_path / "own.j2").write_text("{{ node }}")
    with pytest.raises(RecipeError, match="'node' is undefined"):
        rendered(tmp_path, f"template={tmp_path / 'own.j2'}")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("nodes=2;gpus=8", "nodes is '2;gpus=8'; give a whole number"),
        ("nodes=0", "nodes is '0'; give a whole number of 1 or more"),
        ("hosts=2", "'hosts=2' is not a setting; write nodes=2,gpus=8"),
        ("nodes=2,", "'' is not a setting"),
        ("account=a b", "account contains white space"),
        ("template=/nowhere.j2", "template /nowhere.j2 cannot be read"),
    ],
)
def test_what_cannot_be_asked(tmp_path: Path, asked: str, told: str) -> None:
    with pytest.raises(RecipeError, match=told):
        rendered(tmp_path, asked)


def test_what_is_asked() -> None:
    assert parse_slurm("nodes=2,gpus=8").ranks == 16
    assert parse_slurm("gpus=4,account=me") == Slurm(1, 4, account="me")


def test_a_dry_run_shows_ranks_memory_and_the_file(folder: Path) -> None:
    found = train(
        folder, "--slurm", "nodes=2,gpus=8", "--card", "h100", "--workers", "5", "--dry-run"
    )
    assert found.exit_code == 0, found.stderr
    assert "--set sandbox.workers=5" in found.stdout
    assert "on 16 x h100: fits" in found.stdout
    assert "16 ranks; micro-batches per step: about" in found.stdout
    assert "ranks would have nothing to learn from" in found.stdout
    check(found.stdout[found.stdout.index("#!/bin/bash") :])
    told = json.loads(train(folder, "--slurm", "gpus=2", "--dry-run", "--json").stdout)
    assert told["on_card"]["ranks"] == 2
    assert told["sbatch"].startswith("#!/bin/bash")
    assert not (folder / "runs").exists()


def test_a_job_is_submitted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(folder / "tools"))
    found = train(folder, "--slurm", "nodes=2,gpus=8", "--out", "run")
    assert found.exit_code == 2
    assert "sbatch is not installed here" in found.stderr
    assert not (folder / "run").exists()
    (folder / "tools").mkdir()
    sbatch = folder / "tools" / "sbatch"
    sbatch.write_text("#!/bin/sh\necho Submitted batch job 12\n")
    sbatch.chmod(0o755)
    found = train(folder, "--slurm", "nodes=2,gpus=8", "--out", "run")
    assert found.exit_code == 0, found.stderr
    assert "Submitted batch job 12\nrun: run; " in found.stdout
    check((folder / "run" / "logs" / "job.sbatch").read_text())
    sbatch.write_text("#!/bin/sh\necho no such partition >&2\nexit 1\n")
    found = train(folder, "--slurm", "nodes=2,gpus=8", "--out", "run")
    assert (found.exit_code, "no such partition" in found.stderr) == (2, True)
