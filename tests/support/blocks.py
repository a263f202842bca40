"""Code examples on a page of the documentation."""

import os
import re
import shlex
import subprocess
import sys
from contextlib import chdir
from pathlib import Path

from support.command_line import Result

DOCS = Path(__file__).resolve().parents[2] / "docs"
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
ENVIRONMENT = {**os.environ, "PATH": PATH}


def blocks(page: str, language: str) -> list[str]:
    """The fenced blocks of a language in `docs/PAGE`, in order."""
    text = (DOCS / page).read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def shell(script: str, folder: Path) -> str:
    """Run a script in a folder and return its output; it must succeed."""
    command = ["bash", "-euo", "pipefail", "-c", script]
    done = subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{script}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def run_here(script: str, folder: Path) -> str:
    """Like `shell`, but `collab` runs within this process, which has imported torch already."""
    output = []
    for line in script.splitlines():
        if line.startswith("collab "):
            with chdir(folder):
                done = Result(*shlex.split(line)[1:])
            assert done.status == 0, f"{line}\n{done.out}\n{done.err}"
            output.append(done.out)
        else:
            output.append(shell(line, folder))
    return "".join(output)
