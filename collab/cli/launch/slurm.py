"""Submits `collab train` to SLURM: an sbatch file, rendered from a template."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from collab.errors import RecipeError
from collab.runs.atomic import write_atomically

TEMPLATE = Path(__file__).with_name("slurm.sbatch.j2")


@dataclass(frozen=True)
class Slurm:
    """Resources of a SLURM job."""

    nodes: int = 1
    gpus: int = 1
    """Number of GPUs per node."""
    template: str = ""
    """A Jinja file in place of the shipped template."""
    partition: str = ""
    account: str = ""
    time: str = ""
    """Time limit for sbatch, e.g. 12:00:00."""

    @property
    def ranks(self) -> int:
        """Processes that learn together, one per GPU."""
        return self.nodes * self.gpus


def parse_slurm(text: str) -> Slurm:
    """Read `nodes=2,gpus=8[,partition=...]`; raises RecipeError for other settings."""
    known = {field.name for field in fields(Slurm)}
    given: dict[str, str] = {}
    for part in text.split(","):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not value or key not in known:
            raise RecipeError(
                f"--slurm: {part!r} is not a setting; write nodes=2,gpus=8, and any of"
                f" {', '.join(sorted(known - {'nodes', 'gpus'}))}"
            )
        if any(character.isspace() for character in value):
            raise RecipeError(f"--slurm: {key} contains white space: {value!r}")
        given[key] = value
    nodes, gpus = (_count(key, given.pop(key, "1")) for key in ("nodes", "gpus"))
    return Slurm(nodes, gpus, **given)


def _count(key: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text) > 0):
        raise RecipeError(f"--slurm: {key} is {text!r}; give a whole number of 1 or more")
    return int(text)


def render(slurm: Slurm, run: Path, begin: Sequence[str], go_on: Sequence[str]) -> str:
    """The sbatch file of a run in the folder `run`, relative to the current folder.

    `begin` and `go_on` are the arguments of `collab train`, without its folder, for a new run
    and for one that continues.

    Raises:
        RecipeError: the template cannot be read, or uses an unknown name.
    """
    from jinja2 import Environment, StrictUndefined, TemplateError

    path = Path(slurm.template).expanduser() if slurm.template else TEMPLATE
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    environment.filters["quoted"] = lambda value: shlex.quote(str(value))
    folder = Path.cwd()
    try:
        return environment.from_string(path.read_text(encoding="utf-8")).render(
            name=run.name,
            nodes=slurm.nodes,
            gpus=slurm.gpus,
            given={"partition": slurm.partition, "account": slurm.account, "time": slurm.time},
            folder=folder,
            run=run,
            logs=run / "logs",
            python=sys.executable,
            begin=shlex.join(begin),
            go_on="".join(f"{shlex.quote(part)} " for part in go_on),
        )
    except OSError as error:
        raise RecipeError(f"--slurm: template {path} cannot be read: {error.strerror}") from error
    except (TemplateError, UnicodeDecodeError) as error:
        raise RecipeError(f"--slurm: template {path}: {error}") from error


def submit(text: str, run: Path) -> str:
    """Write the file next to the run's logs and submit it; returns sbatch's answer.

    Raises:
        RecipeError: sbatch is not here, or refuses.
    """
    sbatch = shutil.which("sbatch")
    if sbatch is None:
        raise RecipeError(
            "sbatch is not installed here; run this on a login node of the cluster, or print the"
            " job file with --dry-run"
        )
    logs = run / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    path = logs / "job.sbatch"
    write_atomically(path, text)
    done = subprocess.run([sbatch, str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RecipeError(f"sbatch refuses {path}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.strip()


@dataclass(frozen=True)
class Given:
    """The arguments of `collab train`, for the job to repeat."""

    recipe: str | None
    settings: list[str]
    trust: bool
    task: str | None = None
    trainer: str | None = None
    model: str | None = None
    seed: int | None = None

    @property
    def begin(self) -> list[str]:
        """The arguments of a new run, without its folder."""
        named = {
            "--task": self.task,
            "--trainer": self.trainer,
            "--model": self.model,
            "--seed": self.seed,
        }
        options = [str(x) for flag, v in named.items() if v is not None for x in (flag, v)]
        return [*([self.recipe] if self.recipe else []), *options, *self.changes]

    @property
    def changes(self) -> list[str]:
        """The arguments of a run that continues, without its folder."""
        settings = [part for setting in self.settings for part in ("--set", setting)]
        return [*settings, *(["--trust"] if self.trust else [])]


def sbatch_file(slurm: str, given: Given, folder: Path, *, resumed: bool) -> str:
    """The sbatch file of a run in `folder`; a requeued job changes no setting twice."""
    again = given.changes if resumed else ["--trust"] if given.trust else []
    return render(parse_slurm(slurm), folder, again if resumed else given.begin, again)


def send(text: str, folder: Path) -> None:
    """Submit the file and print the folder of the run."""
    print(submit(text, folder))
    print(f"run: {folder}; logs of its ranks: {folder / 'logs'}")
