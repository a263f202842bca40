"""The card of a shared team, made from its record."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from collab.errors import CollabError
from collab.evaluation.diff import Side, read_played, side_of
from collab.evaluation.intervals import METHOD
from collab.evaluation.results import Estimate, change_cell, estimate_text, title_of
from collab.models.store.models import public_name
from collab.recipe import Recipe, read_recipe
from collab.recipe.documents import read_mapping
from collab.recipe.model import local_weights
from collab.runs import metric_names as names
from collab.runs.layout import TRAINING
from collab.wording import counted


def model_card(run: Path, *, repository: str, licence: str | None) -> str:
    """The text of README.md: who takes part, the task, the results with intervals, how to use it.

    Raises:
        RecipeError: the recipe of the run cannot be read.
    """
    recipe = read_recipe(str(run))[0]
    parts = [
        f"---\n{_header(recipe, licence)}---",
        f"# {repository.rpartition('/')[2]}",
        f"A team of {counted(len(recipe.team.agents), 'language model agent')} that work together"
        f" ({recipe.team.protocol}, {counted(recipe.team.turns, 'turn')}), made with"
        " [collab](https://pypi.org/project/collab-agents/).",
        recipe.team.description,
        _table(("agent", "model", "adapter", "role"), _agents(recipe)),
        *_task(recipe),
        *_training(run),
        *_results(run),
        "## Use",
        f"```sh\npip install collab-agents\ncollab run hub:{repository}{_address(recipe)}\n```",
        "The team's functions are code: collab lists what would run, and asks first.",
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _header(recipe: Recipe, licence: str | None) -> str:
    bases = dict.fromkeys(public_name(w.name) for w in _weights(recipe) if "/" in w.name or w.name)
    hub = [base for base in bases if not base.startswith("/")]
    has_adapters = any(agent.adapter for agent in recipe.team.agents.values())
    about: dict[str, Any] = {"tags": ["collab", "multi-agent"], "pipeline_tag": "text-generation"}
    if licence:
        about["license"] = licence
    if hub:
        about["base_model"] = hub
        about["base_model_relation"] = "adapter" if has_adapters else "finetune"
    if has_adapters:
        about["library_name"] = "peft"
    return yaml.safe_dump(about, sort_keys=True)


def _weights(recipe: Recipe) -> Iterator[Any]:
    for name in recipe.team.agents:
        if spec := local_weights(recipe.model_of(name)):
            yield spec


def _agents(recipe: Recipe) -> Iterator[tuple[str, ...]]:
    for name, agent in recipe.team.agents.items():
        spec = local_weights(recipe.model_of(name))
        model = public_name(spec.name) if spec else str(recipe.model_of(name).name)
        adapter = Path(agent.adapter) if agent.adapter else None
        place = f"{adapter.parent.name}/{adapter.name}" if adapter else "-"
        yield name, Path(model).name if model.startswith("/") else model, place, agent.role or "-"


def _task(recipe: Recipe) -> Iterator[str]:
    if recipe.task is None:
        return
    yield f"## Task\n\n`{recipe.task.name}`: {recipe.task.description or 'a suite of its own'}"
    parts = recipe.task.reward.parts.items() if recipe.task.reward else ()
    rows = [(name, f"{part.weight:g}", f"`{part.use}`") for name, part in parts]
    if rows:
        yield _table(("part of the reward", "weight", "by"), rows)


def _address(recipe: Recipe) -> str:
    return f" --task {recipe.task.name}/0" if recipe.task else ""


def _training(run: Path) -> Iterator[str]:
    if not (run / TRAINING).is_file():
        return
    trainer = read_mapping(run / TRAINING).get("trainer")
    if isinstance(trainer, Mapping):
        keys = ("algorithm", "steps", "tokens", "group_size", "tasks_per_step", "learning_rate")
        rows = [(key, f"`{trainer[key]}`") for key in keys if trainer.get(key) is not None]
        yield f"## Training\n\nBy the trainer `{trainer.get('name', '-')}`."
        yield _table(("setting", "value"), rows)


def _results(run: Path) -> Iterator[str]:
    try:
        side = side_of(read_played(run))
    except CollabError:
        return
    shown = {name: e for name, e in side.metrics.items() if _is_told(name)}
    if not shown:
        return
    where = "held-out problems" if side.gain else "problems"
    yield f"## Results\n\nOn {side.problems} {where}; at most {_most(side)} points of return."
    if side.gain:
        rows = [
            (title_of(n), _text(n, side.before), _text(n, shown), _gain(n, side)) for n in shown
        ]
        yield _table(("", "before", "after", "gain"), rows)
    else:
        yield _table(("", "mean"), [(title_of(n), _text(n, shown)) for n in shown])
    yield f"In brackets 95 % intervals ({METHOD})."


def _is_told(name: str) -> bool:
    return any(names.matched(p, name) is not None for p in (names.JOINT_RETURN, names.SOLVED))


def _most(side: Side) -> str:
    return "-" if side.largest_return is None else f"{side.largest_return:.2f}"


def _text(name: str, found: Mapping[str, Estimate]) -> str:
    return estimate_text(name, found.get(name))


def _gain(name: str, side: Side) -> str:
    return change_cell(name, side.gain.get(name)).text


def _table(heads: tuple[str, ...], rows: Any) -> str:
    lines = [heads, tuple("---" for _ in heads), *rows]
    return "\n".join(f"| {' | '.join(_cell(cell) for cell in row)} |" for row in lines)


def _cell(text: str) -> str:
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")
