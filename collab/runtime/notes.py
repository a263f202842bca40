"""Notes on a run: its start, unused settings, and the form of its tool calls."""

from __future__ import annotations

import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from collab import distribution
from collab.models.lengths import knows_tools
from collab.recipe import Recipe
from collab.recipe.hosted import HostedSpec
from collab.recipe.model import local_weights
from collab.recipe.names import functions_passed_in_python
from collab.records import Problem
from collab.runs.about import command_line, new_run_id, now
from collab.runtime.events import RunStarted


def warn_unused_settings(recipe: Recipe, model: str | None, settings: Sequence[str]) -> list[str]:
    """Return a sentence for each setting without effect on some agents. `model` and `settings`
    are those of the call or command, not of the recipe.
    """
    notes = []
    agents = recipe.team.agents
    bare = [n for n, a in agents.items() if a.adapter and local_weights(recipe.model_of(n)) is None]
    if bare:
        engines = ", ".join(dict.fromkeys(recipe.model_of(name).engine for name in bare))
        notes.append(
            f"the trained adapters of {', '.join(bare)} are not used: {engines} answers without"
            " weights"
        )
    idle = recipe.task.source.unused_keys if recipe.task else {}
    notes += [
        f"task.source.{key} is not used, as it works with '{of}' only" for key, of in idle.items()
    ]
    models = [] if model is None else [f"the model {model}"]
    for setting in settings:
        section, _, key = setting.partition("=")[0].strip().rpartition(".")
        models += [f"the setting {setting}"] * ((section or key) == "model")
        with_key = [n for n, a in agents.items() if getattr(a.sampling, key, None) is not None]
        if section == "team.sampling" and getattr(recipe.sampling, key, None) is not None:
            notes.append(
                f"the setting {setting} is not used, because the recipe's sampling has its own"
                f" {key}; set sampling.{key}"
            )
        elif section in ("sampling", "team.sampling") and with_key:
            notes.append(
                f"the setting {setting} is not used for {', '.join(with_key)}, because"
                f" agents.NAME.sampling has its own {key}; set it there"
            )
    with_model = [name for name, agent in agents.items() if agent.model is not None]
    for choice in models if with_model else ():
        notes.append(
            f"{choice} is not used for {', '.join(with_model)}: each has its own model; set"
            " agents.NAME.model to change it"
        )
    return notes


def make_run_started(
    recipe: Recipe,
    models: Mapping[str, str],
    problems: Sequence[Problem],
    samples: int,
    out: Path | None,
) -> RunStarted:
    """Return the first event of a run on `problems`, which is recorded in the folder `out`.

    `models` are the models' names, by agent.
    """
    return RunStarted(
        run=out.name if out else new_run_id(recipe.team.name),
        folder=str(out) if out else None,
        team=recipe.team.name,
        agents=tuple(recipe.team.agents),
        models=dict(models),
        tasks=tuple(problem.address for problem in problems),
        samples=samples,
        turns=recipe.team.turns,
        seed=recipe.seed,
        isolation=recipe.sandbox.isolation if recipe.task else None,
        versions=versions(recipe),
    )


def versions(recipe: Recipe | None = None) -> dict[str, str]:
    """Return what can affect a run's numbers: versions of packages, and a hub dataset's commit."""
    packages = {"python": platform.python_version(), "collab": distribution.version()}
    source = recipe.task.source if recipe and recipe.task else None
    for package in ("torch", "transformers", "peft", *distribution.VLLM_PACKAGES):
        if installed := distribution.version_of(package):
            packages[package] = installed
    if source and source.hub and source.revision:
        packages[source.hub] = source.revision
    return packages


def start_entries(recipe: Recipe) -> dict[str, Any]:
    """Return the start's entries of `run.json`: time, command, functions passed from Python."""
    functions = functions_passed_in_python(recipe)
    entry = {"given_in_python": [*functions]} if functions else {}
    return {"started": now(), "command": command_line(), **entry}


def tool_forms(recipe: Recipe) -> dict[str, str]:
    """Return the form in which each agent sees and calls its tools.

    `template`: by its model's chat template, which supports tools. `text`: in its messages.
    `service`: by the service's own interface. Agents without a locally available model are omitted.
    """
    forms = {}
    for name, agent in recipe.team.agents.items():
        if not agent.tools:
            continue
        spec = recipe.model_of(name)
        knows = knows_tools(spec)  # reads a tokenizer, which takes seconds
        if knows is None and local_weights(spec):
            continue
        forms[name] = "template" if knows else "text"
        if isinstance(spec, HostedSpec):
            forms[name] = "service"
    return forms
