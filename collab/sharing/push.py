"""Uploads a staged team to the hub, or to a mirror named by HF_ENDPOINT."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from collab.errors import CollabError, RecipeError, RecordError
from collab.evaluation.diff import read_side
from collab.evaluation.intervals import BRACKETS_CAPTION
from collab.evaluation.results import estimate_cell, metric_title
from collab.models.store.models import public_name
from collab.recipe import Recipe, read_recipe
from collab.recipe.documents import read_mapping
from collab.recipe.model import local_weights
from collab.runs import metric_names as names
from collab.runs.about import check_has_ended, is_training
from collab.runs.atomic import creating_folder
from collab.runs.layout import (
    ADAPTER_CONFIG,
    ADAPTER_WEIGHTS,
    ADAPTERS,
    DATA,
    FUNCTIONS,
    MODELS,
    RECIPE,
    RECORD_FILES,
    TRAINING,
)
from collab.runs.reading import check_within, open_file
from collab.trust.from_hub import REPOSITORY_NAME
from collab.wording import counted, format_option


def model_card(run: Path, *, repository: str, license: str | None) -> str:
    """Return the text of README.md: the agents, the task, the results with intervals, and
    instructions for use.

    Raises:
        RecipeError: the recipe of the run cannot be read.
    """
    recipe = read_recipe(str(run))[0]
    address = f" --task {recipe.task.name}/0" if recipe.task else ""
    parts = [
        f"---\n{_front_matter(recipe, license)}---",
        f"# {repository.rpartition('/')[2]}",
        f"A team of {counted(len(recipe.team.agents), 'language model agent')} that work together"
        f" ({_function_name(recipe.team.protocol, run)}, {counted(recipe.team.turns, 'turn')}),"
        " made with collab.",
        recipe.team.description,
        _table(("agent", "model", "adapter", "role"), _agent_rows(recipe, run)),
        *_task(recipe, run),
        *_training(run),
        *_results(run),
        "## Use",
        "Install collab from a clone of its repository, then run:",
        f"```sh\ncollab run hub:{repository}{address}\n```",
        "The team's functions are code: collab lists what would run, and asks first.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _front_matter(recipe: Recipe, license: str | None) -> str:
    weights = filter(None, map(local_weights, map(recipe.model_of, recipe.team.agents)))
    bases = dict.fromkeys(public_name(model.name) for model in weights)
    hub = [base for base in bases if base and not base.startswith("/")]
    has_adapters = any(agent.adapter for agent in recipe.team.agents.values())
    about: dict[str, Any] = {"tags": ["collab", "multi-agent"], "pipeline_tag": "text-generation"}
    if license:
        about["license"] = license
    if hub:
        about["base_model"] = hub
        about["base_model_relation"] = "adapter" if has_adapters else "finetune"
    if has_adapters:
        about["library_name"] = "peft"
    return yaml.safe_dump(about, sort_keys=True)


def _agent_rows(recipe: Recipe, run: Path) -> Iterator[tuple[str, ...]]:
    for name, agent in recipe.team.agents.items():
        spec, used = local_weights(recipe.model_of(name)), recipe.model_of(name)
        model = public_name(spec.name) if spec else used.name or _function_name(used.engine, run)
        adapter = Path(agent.adapter) if agent.adapter else None
        place = f"{adapter.parent.name}/{adapter.name}" if adapter else "-"
        yield name, Path(model).name if model.startswith("/") else model, place, agent.role or "-"


def _function_name(function: object, run: Path) -> str:
    """Return a function's name; its file is named as in the folder for the hub."""
    name = str(function)
    path = Path(name).resolve()
    return str(path.relative_to(root)) if path.is_relative_to(root := run.resolve()) else name


def _task(recipe: Recipe, run: Path) -> Iterator[str]:
    if recipe.task is None:
        return
    yield f"## Task\n\n`{recipe.task.name}`: {recipe.task.description or 'a suite of its own'}"
    parts = recipe.task.reward.parts.items() if recipe.task.reward else ()
    rows = [
        (name, f"{part.weight:g}", f"`{_function_name(part.use, run)}`") for name, part in parts
    ]
    if rows:
        yield _table(("part of the reward", "weight", "by"), rows)


def _training(run: Path) -> Iterator[str]:
    if not is_training(run):
        return
    trainer = read_mapping(run / TRAINING).get("trainer")
    if isinstance(trainer, Mapping):
        keys = ("algorithm", "steps", "tokens", "group_size", "tasks_per_step", "learning_rate")
        rows = [(key, f"`{trainer[key]}`") for key in keys if trainer.get(key) is not None]
        yield f"## Training\n\nBy the trainer `{trainer.get('name', '-')}`."
        yield _table(("setting", "value"), rows)


def _results(run: Path) -> Iterator[str]:
    try:
        side = read_side(run)
    except CollabError:
        return
    main = (names.RETURN, names.SOLVED)
    shown = {name: estimate for name, estimate in side.metrics.items() if name in main}
    if not shown or (is_training(run) and not side.step):
        return  # episodes of training say little about the trained team
    where = counted(side.problems, "held-out problem" if side.gain else "problem")
    most = "-" if side.largest_return is None else f"{side.largest_return:.2f}"
    yield f"## Results\n\nOn {where}; at most {most} points of return."
    if side.gain:
        rows = [
            (
                metric_title(n),
                estimate_cell(n, side.before.get(n)).text,
                estimate_cell(n, shown[n]).text,
                estimate_cell(n, side.gain.get(n), change=True).text,
            )
            for n in shown
        ]
        yield _table(("", "before", "after", "gain"), rows)
    else:
        yield _table(
            ("", "mean"), [(metric_title(n), estimate_cell(n, shown[n]).text) for n in shown]
        )
    yield f"In the table, {BRACKETS_CAPTION}."


def _table(heads: tuple[str, ...], rows: Any) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in lines)


def _cell(text: str) -> str:
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")


UPLOADED_FOLDERS = (FUNCTIONS, DATA, ADAPTERS, MODELS)


def stage(run: Path, out: Path, *, repository: str, license: str | None) -> list[str]:
    """Write the folder for the hub to `out`, and return notes on possible problems.

    The record itself stays local: neither episodes nor the command line are included.

    Raises:
        RecordError: the folder contains no team, is still being written, or has a link to a place
            outside it or a file of holes, or `out` is not empty or cannot be written.
    """
    if not (run / RECIPE).is_file():
        raise RecordError(f"{run} contains no {RECIPE}; specify the folder of a run")
    check_has_ended(run)
    parts = [path for part in UPLOADED_FOLDERS for path in (run / part, *(run / part).rglob("*"))]
    check_within(run, (*(run / name for name in RECORD_FILES), *parts))  # else a link is uploaded
    for path in filter(Path.is_file, parts):
        try:
            open_file(path).close()  # a file of holes would fill the disk
        except OSError as error:
            raise RecordError(f"{path} cannot be read: {error.strerror}") from error
    card = model_card(run, repository=repository, license=license)
    with creating_folder(out, format_option("out")):
        shutil.copyfile(run / RECIPE, out / RECIPE)
        for part in UPLOADED_FOLDERS:
            if (run / part).is_dir():
                shutil.copytree(
                    run / part,
                    out / part,
                    ignore=_ignore_unneeded if part == ADAPTERS else _ignore_hidden,
                )
        (out / "README.md").write_text(card, encoding="utf-8")
    notes = [
        f"{key} names {value}, which is only on this machine"
        for key, value in places_outside(read_mapping(run / RECIPE), run)
    ]
    if license is None:
        notes.append("the card has no license; add --license, e.g. apache-2.0")
    return notes


_ignore_hidden = shutil.ignore_patterns(".*", "__py*")


def _ignore_unneeded(folder: str, names: list[str]) -> set[str]:
    """Return the names below `adapters/` to leave out, e.g. of pickled weights."""
    files = {name for name in names if (Path(folder) / name).is_file()}
    return _ignore_hidden(folder, names) | files - {ADAPTER_CONFIG, ADAPTER_WEIGHTS, "README.md"}


def places_outside(data: Any, run: Path, above: str = "") -> list[tuple[str, str]]:
    """Return the keys of the recipe whose value is the path of a file or folder outside `run`."""
    if isinstance(data, dict):
        items = [(f"{above}.{k}" if above else str(k), v) for k, v in data.items()]
    elif isinstance(data, list):
        items = [(f"{above}[{n}]", v) for n, v in enumerate(data)]
    else:
        return [(above, data)] if isinstance(data, str) and _is_outside(data, run) else []
    return [place for key, value in items for place in places_outside(value, run, key)]


def _is_outside(text: str, run: Path) -> bool:
    if "/" not in text:
        return False
    try:
        path = (run / text).resolve()
        return path.exists() and not path.is_relative_to(run.resolve())
    except (OSError, ValueError, RuntimeError):  # too long, with a NUL, or a circle of links
        return False


def check_repository_name(name: str) -> None:
    """Raise RecipeError for an invalid repository name."""
    if not REPOSITORY_NAME.fullmatch(name):
        raise RecipeError(
            f"--to '{name}' is not a repository name; write OWNER/NAME, e.g. me/coding"
        )


def push(folder: Path, repository: str, *, private: bool) -> str:
    """Create the repository if needed, upload the folder, and return its name for `run`.

    Raises:
        RecordError: the hub refuses the upload. The message says why.
    """
    from huggingface_hub import HfApi

    hub = HfApi()
    try:
        hub.create_repo(repository, private=private, exist_ok=True)
        hub.upload_folder(
            repo_id=repository, folder_path=folder, commit_message="A team, by collab push"
        )
    except Exception as error:  # the hub's client raises many kinds of errors
        raise RecordError(
            f"{repository} cannot be written: {error}; log in with hf auth login or"
            " HF_TOKEN, or check the network"
        ) from error
    return f"hub:{repository}"
