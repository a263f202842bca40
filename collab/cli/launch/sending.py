"""`--slurm` of `collab train`: what a job is given, and sending it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from collab.cli.launch.slurm import parse_slurm, render, submit


@dataclass(frozen=True)
class Given:
    """What `collab train` was given, to be given once more by a job."""

    recipe: str | None
    settings: list[str]
    trust: bool
    task: str | None = None
    trainer: str | None = None
    model: str | None = None
    seed: int | None = None

    @property
    def begin(self) -> list[str]:
        """The arguments of a run that begins, but for its folder."""
        named = {
            "--task": self.task,
            "--trainer": self.trainer,
            "--model": self.model,
            "--seed": self.seed,
        }
        told = [str(x) for flag, v in named.items() if v is not None for x in (flag, v)]
        return [*([self.recipe] if self.recipe else []), *told, *self.changes]

    @property
    def changes(self) -> list[str]:
        """The arguments that a run may go on with, but for its folder."""
        told = [part for setting in self.settings for part in ("--set", setting)]
        return [*told, *(["--trust"] if self.trust else [])]


def sbatch_file(slurm: str, given: Given, folder: Path, *, resumed: bool) -> str:
    """The sbatch file of a run in `folder`; a job that is queued again changes nothing anew."""
    again = given.changes if resumed else ["--trust"] if given.trust else []
    return render(parse_slurm(slurm), folder, again if resumed else given.begin, again)


def send(text: str, folder: Path) -> None:
    """Submit the file, and say where the run will be."""
    print(submit(text, folder))
    print(f"run: {folder}; what its ranks say: {folder / 'logs'}")
