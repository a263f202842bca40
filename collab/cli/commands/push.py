"""`collab push`."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from collab.cli.options import argument, complete_runs, flag, option, print_remarks
from collab.errors import RecipeError


def command(
    run: Path = argument("RUN", "The folder of a run.", autocompletion=complete_runs),
    to: str = option("--to", "OWNER/NAME", "The repository on the hub.", default=...),
    *,
    license: str | None = option("--license", "NAME", "License of the team, e.g. apache-2.0."),
    public: bool = flag("--public", "Make a new repository public. Default: private."),
    dry_run: bool = flag("--dry-run", "Write the files to a local folder, without uploading them."),
    out: Path | None = option("--out", "DIR", "Folder for --dry-run. Default: push/OWNER-NAME."),
) -> None:
    """Upload a team to the Hugging Face hub, with a model card.

    Uploads the recipe, its functions and data, the adapters or models, and a
    README.md about the agents, base models, task, results and usage. Episodes
    are not uploaded. To log in, set HF_TOKEN or run hf auth login.

    Examples:
      collab push runs/first --to me/first --license apache-2.0 --dry-run
      collab push runs/first --to me/first --license apache-2.0
      collab run hub:me/first --task humaneval/140

    Exit status:
      0  success
      2  bad usage, or the hub refused the upload
    """
    from collab.sharing.push import check_repository_name, push, stage

    check_repository_name(to)
    if out is not None and not dry_run:
        raise RecipeError("--out needs --dry-run; add that, or leave out --out")
    if dry_run:
        folder = out or Path("push") / to.replace("/", "-")
        print_remarks(stage(run, folder, repository=to, license=license), "note")
        print(f"{folder}: these files would be uploaded to {to}")
        return
    with TemporaryDirectory() as place:
        print_remarks(stage(run, Path(place), repository=to, license=license), "note")
        name = push(Path(place), to, private=not public)
    print(f"uploaded; use it with: collab run {name}")
