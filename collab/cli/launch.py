"""The machines of a training: its GPUs, its processes, or a SLURM job that runs it."""

from __future__ import annotations

import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from collab.errors import RecipeError
from collab.runs.atomic import write_atomically, writing
from collab.wording import counted

if TYPE_CHECKING:
    from collab.recipe import Recipe
    from collab.trainers.training.plan.cards import Card


class Wanted(NamedTuple):
    """Ranks to start."""

    ranks: int
    on_gpus: bool

    def text(self, folder: Path) -> str:
        """The ranks, their logs, and how to stop them."""
        from collab.runs.layout import LOGS

        where = "each on its own GPU" if self.on_gpus else "on processors"
        fewer = "; --gpus 1 takes one" if self.on_gpus else ""
        logs = f"; logs of the other ranks are in {folder / LOGS}" if self.ranks > 1 else ""
        return f"learning in {counted(self.ranks, 'rank')}, {where}{logs}; Ctrl-C ends all{fewer}"


def ranks_wanted(
    recipe: Recipe, gpus: int | None, ranks: int | None, resume: Path | None
) -> Wanted | None:
    """The ranks to start; None for this process alone.

    Raises:
        RecipeError: more GPUs than there are, or ranks on processors where models take a GPU.
    """
    if ranks is not None and gpus is not None:
        raise RecipeError(
            "--gpus sets the number of GPUs, --ranks the number of processes"
            " without a GPU; give only one of them"
        )
    visible = _visible_gpus() if _takes_gpus(recipe) else 0
    if ranks is not None:
        if visible:
            raise RecipeError(
                f"--ranks {ranks} runs on processors, but the recipe's models use one of"
                f" {counted(visible, 'GPU')}; give --gpus, or set model.device=cpu"
            )
        return Wanted(ranks, on_gpus=False)
    if gpus is not None and gpus > visible:
        raise RecipeError(
            f"--gpus {gpus} is more than the {visible} that the recipe's models can use; lower it,"
            " check CUDA_VISIBLE_DEVICES and model.device, or give --ranks to train on processors"
        )
    if visible:
        wanted = gpus or visible
        return Wanted(wanted, on_gpus=True) if wanted > 1 else None
    before = _ranks_of(resume)
    return Wanted(before, on_gpus=False) if before else None


def _visible_gpus() -> int:
    from collab.trainers.training.plan.cards import may_have_gpus

    if not may_have_gpus():
        return 0
    import torch

    return torch.cuda.device_count()


def _takes_gpus(recipe: Recipe) -> bool:
    """True if every trained model may be on any GPU."""
    trained = [name for name, agent in recipe.team.agents.items() if agent.trainable]
    return all(device in ("auto", "cuda") for device in _devices(recipe, trained))


def _devices(recipe: Recipe, agents: Iterable[str]) -> list[str]:
    """The device of each agent's weights; "" if they are not here."""
    from collab.recipe.model import local_weights

    weights = [local_weights(recipe.model_of(name)) for name in agents]
    return [each.device if each else "" for each in weights]


def _ranks_of(run: Path | None) -> int | None:
    """The ranks of a run that is continued; it sums its gradients as before."""
    from collab.runs.about import read_about

    ranks = read_about(run).get("ranks") if run is not None else None
    return ranks if isinstance(ranks, int) else None


REMEDY = "name one to plan for, as in --dry-run --card h100 (its name, or its memory in GB)"


class MachineOptions(NamedTuple):
    """The options of `collab train` that choose machines."""

    card: str | None = None
    slurm: str | None = None
    gpus: int | None = None
    ranks: int | None = None
    resume: Path | None = None


def place_of(recipe: Recipe, machine: MachineOptions) -> tuple[Card | None, int]:
    """The card to plan for, and the number of ranks; no card for a run on processors.

    Without `--card`, the plan is for this machine, or for a card of 80 GB on SLURM.

    Raises:
        RecipeError: options that exclude each other, or GPUs that are not here without `--card`.
        UnknownName: no such card.
    """
    from collab.trainers.training.plan.cards import Card, card

    if machine.slurm is not None:
        ranks = parse_slurm(machine.slurm).ranks
        named = "80 GB (name another with --card)"
        return card(machine.card) if machine.card else Card(named, card("80").memory), ranks
    if machine.card is not None:
        return card(machine.card), machine.gpus or 1
    return _here(recipe, machine)


def check_options(machine: MachineOptions) -> None:
    """Raise RecipeError for options that contradict each other."""
    given = {"--gpus": machine.gpus, "--ranks": machine.ranks}
    for name in (name for name, value in given.items() if value is not None):
        if machine.slurm is not None:
            raise RecipeError(
                f"--slurm sets the nodes and GPUs of a job, {name} those of this machine; leave"
                f" out {name}, and write --slurm nodes=N,gpus=N"
            )
        if machine.card is not None and name == "--ranks":
            raise RecipeError(
                f"--ranks {machine.ranks} runs on processors, but --card {machine.card} plans for"
                " GPUs; give --gpus, or leave out --card"
            )


def _here(recipe: Recipe, machine: MachineOptions) -> tuple[Card | None, int]:
    """The card and the number of ranks that the run would use on this machine."""
    from collab.trainers.training.plan.cards import card_of_here

    gpus = [card_of_here(n) for n in range(_visible_gpus())] if _takes_gpus(recipe) else []
    if machine.gpus is not None and machine.gpus > len(gpus):
        raise RecipeError(
            f"--gpus {machine.gpus} is more than the {len(gpus)} of this machine that the recipe's"
            f" models can use; {REMEDY}, or lower it"
        )
    devices = _devices(recipe, recipe.team.agents)
    named = next((device for device in devices if device.startswith("cuda")), None)
    if not gpus and named:
        import torch

        if not torch.cuda.is_available():
            raise RecipeError(f"model.device is {named!r}, but this machine has no GPU; {REMEDY}")
    wanted = ranks_wanted(recipe, machine.gpus, machine.ranks, machine.resume)
    taken = wanted.ranks if wanted else 1
    # Each rank has to fit, so plan for the card with the least memory.
    return min(gpus[:taken], key=lambda gpu: gpu.memory, default=None), taken


TEMPLATE = Path(__file__).with_name("slurm.sbatch.j2")
"""The shipped file of a job."""


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


def sbatch_file(slurm: str, given: Given, run: Path, *, resumed: bool) -> str:
    """The sbatch file of a run in the folder `run`; a requeued job changes no setting twice.

    Raises:
        RecipeError: the template cannot be read, or uses an unknown name.
    """
    from jinja2 import Environment, StrictUndefined, TemplateError

    job = parse_slurm(slurm)
    again = given.changes if resumed else ["--trust"] if given.trust else []
    path = Path(job.template).expanduser() if job.template else TEMPLATE
    environment = Environment(undefined=StrictUndefined, keep_trailing_newline=True)
    environment.filters["quoted"] = lambda value: shlex.quote(str(value))
    try:
        return environment.from_string(path.read_text(encoding="utf-8")).render(
            name=run.name,
            nodes=job.nodes,
            gpus=job.gpus,
            given={"partition": job.partition, "account": job.account, "time": job.time},
            folder=Path.cwd(),
            run=run,
            logs=run / "logs",
            python=sys.executable,
            begin=shlex.join(again if resumed else given.begin),
            go_on="".join(f"{shlex.quote(part)} " for part in again),
        )
    except OSError as error:
        raise RecipeError(f"--slurm: template {path} cannot be read: {error.strerror}") from error
    except (TemplateError, UnicodeDecodeError) as error:
        raise RecipeError(f"--slurm: template {path}: {error}") from error


def send(text: str, run: Path) -> None:
    """Write the file next to the run's logs, submit it, and print sbatch's answer.

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
    path = logs / "job.sbatch"
    with writing(path):
        logs.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text)
    done = subprocess.run([sbatch, str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RecipeError(f"sbatch refuses {path}: {done.stderr.strip() or done.stdout.strip()}")
    print(f"{done.stdout.strip()}\nrun: {run}; logs of its ranks: {logs}")
