"""The files of `examples/launch/` are valid, checked without their tools."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
LAUNCH = ROOT / "examples" / "launch"


def documents(name: str) -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((LAUNCH / name).read_text()))


def kubernetes() -> str:
    container = documents("kubernetes.yaml")[1]["spec"]["template"]["spec"]["containers"][0]
    assert container["command"] == ["bash", "-c"]
    return str(container["args"][0])


SCRIPTS = {
    "kubernetes": kubernetes(),
    "skypilot": str(documents("skypilot.yaml")[0]["run"]),
    "dstack": "\n".join(documents("dstack.yaml")[0]["commands"]),
    "slurm": (LAUNCH / "slurm.sbatch").read_text(),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_launch_scripts_are_valid_bash(name: str) -> None:
    subprocess.run(["bash", "-n"], input=SCRIPTS[name], text=True, check=True)


@pytest.mark.parametrize("name", SCRIPTS)
@pytest.mark.parametrize("again", [False, True])
def test_launch_scripts_start_and_resume_a_run(name: str, again: bool, tmp_path: Path) -> None:
    """Runs the scripts with fake tools that print their arguments."""
    runs = tmp_path / "runs"
    script = SCRIPTS[name].replace("/runs", str(runs))
    first = runs / "first" if str(runs) in script else tmp_path / "first"
    first.mkdir(parents=True)
    if again:
        (first / "training.yaml").touch()
    tools = tmp_path / "tools"
    tools.mkdir()
    tell = 'printf "%s\\n" "$@"'
    hosts = "printf '10.0.0.1\\n10.0.0.2\\n'"
    for tool, body in {"python": tell, "srun": tell, "scontrol": hosts, "pip": "true"}.items():
        (tools / tool).write_text(f"#!/bin/bash\n{body}\n")
        (tools / tool).chmod(0o755)
    environment = {
        "PATH": f"{tools}:/usr/bin:/bin",
        **{"JOB_COMPLETION_INDEX": "1", "SKYPILOT_NUM_NODES": "2", "SKYPILOT_NODE_RANK": "1"},
        **{"SKYPILOT_NUM_GPUS_PER_NODE": "8", "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2"},
        **{"DSTACK_NODES_NUM": "2", "DSTACK_NODE_RANK": "1", "DSTACK_GPUS_PER_NODE": "8"},
        "DSTACK_MASTER_NODE_IP": "10.0.0.1",
        **{"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "node-[a-b]"},
        **{"SLURM_JOB_NUM_NODES": "2", "SLURM_GPUS_ON_NODE": "8"},
    }
    done = subprocess.run(
        ["bash"], input=script, text=True, check=True, capture_output=True, env=environment,
        cwd=tmp_path,
    )  # fmt: skip
    message = done.stdout.split()
    host = "collab-train-0.collab-train" if name == "kubernetes" else "10.0.0.1"
    meet = {f"--master-addr={host}", "--node-rank=1", "--master-port=29500"}
    meet = {f"--rdzv-endpoint={host}:20007"} if name == "slurm" else meet
    assert {"--nnodes=2", "--nproc-per-node=8", *meet} <= set(message)
    arguments = message[message.index("train") + 1 :]
    where = "first" if first.parent == tmp_path else str(first)
    assert arguments == (["--resume", where] if again else ["recipe.yaml", "--out", where])


def test_the_pods_find_each_other() -> None:
    service, job = documents("kubernetes.yaml")
    assert job["spec"]["template"]["spec"]["subdomain"] == service["metadata"]["name"]
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == 2
    assert job["spec"]["completionMode"] == "Indexed"


def test_dockerfile_copies_existing_files() -> None:
    """Every line is an instruction and copied files exist; the image is not built."""
    text = (LAUNCH / "Dockerfile").read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    known = {"FROM", "RUN", "WORKDIR", "COPY", "ENTRYPOINT", "CMD"}
    assert {line.split()[0] for line in lines} <= known
    for line in lines:
        if line.startswith("COPY"):
            for source in line.split()[1:-1]:
                assert (ROOT / source).exists(), source
    copied = " ".join(lines)
    wheel = (ROOT / "pyproject.toml").read_text().partition("force-include]")[2]
    for folder in re.findall(r'^"(\w+)" = ', wheel, re.MULTILINE):
        assert f"COPY {folder} ./{folder}" in copied
