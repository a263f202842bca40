"""The settings of a report's runs: team, task, trainer, agents, status."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from collab.report.runs import Run, value_at
from collab.runs.about import RUNNING, status_of
from collab.runtime.summary import by_agent
from collab.wording import counted

TRAINER_FACTS = {
    "algorithm": "algorithm",
    "group size": "group_size",
    "groups per step": "tasks_per_step",
    "turn structure": "turn_structure",
    "discount": "discount",
    "normalise": "normalise",
    "objective": "objective",
    "token weighting": "token_weighting",
    "policies": "policies",
    "rank": "lora.rank",
    "learning rate": "learning_rate",
    "KL weight": "kl_coef",
    "clip ratio": "clip_ratio",
    "held out": "evaluation.tasks",
}


@dataclass(frozen=True)
class RunFacts:
    """The known facts of a run."""

    name: str
    status: str
    facts: dict[str, str]
    trainer: dict[str, str]
    """The settings of its training; empty for a run without."""
    agents: list[dict[str, Any]]
    recipe: str
    command: str

    @property
    def summary(self) -> str:
        """The settings in a line, where they are folded."""
        parts = [self.facts.get(label, "") for label in ("team", "task")]
        parts.append(self.trainer.get("algorithm", ""))
        return " · ".join(text for text in parts if text)

    @property
    def priced(self) -> bool:
        return any(agent["cost"] is not None for agent in self.agents)


def facts_of(run: Run) -> RunFacts:
    command = run.about.get("command")
    words = [str(word) for word in command] if isinstance(command, list) else []
    return RunFacts(
        name=run.name,
        status=_status(run),
        facts=dict(_facts(run)),
        trainer=dict(_trainer(run)),
        agents=_agents(run),
        recipe=run.recipe_text,
        command=shlex.join(["collab", *words[1:]]) if words else "",
    )


def _status(run: Run) -> str:
    """The status; older records of a running run do not say if it was killed."""
    if run.status == RUNNING and "process" not in run.about:
        return "running or killed"
    return status_of(run.about) if run.about else run.status


def shared_facts(runs: Sequence[RunFacts]) -> dict[str, str]:
    """Facts that all of several runs share."""
    if len(runs) < 2:
        return {}
    first = {**runs[0].facts, **runs[0].trainer}
    return {
        label: value
        for label, value in first.items()
        if all({**run.facts, **run.trainer}.get(label) == value for run in runs)
    }


def _facts(run: Run) -> Iterator[tuple[str, str]]:
    about, recipe = run.about, run.recipe
    teams = sorted({episode.team for episode in run.episodes})
    yield from _known("team", about.get("team") or ", ".join(teams))
    yield from _known("protocol", value_at(recipe, "team.protocol"))
    yield from _known("task", _task(run))
    yield from _known("episodes", _episodes(run))
    yield from _known("steps", _steps(run))
    yield from _known("turns", about.get("turns"))
    yield from _known("feedback", _feedback(value_at(recipe, "team.feedback")))
    yield from _known("seed", about.get("seed"))
    yield from _known("isolation", about.get("isolation"))
    yield from _known("began", _began(run))
    yield from _known("took", _took(run))
    versions = about.get("versions")
    if isinstance(versions, dict):
        yield "versions", ", ".join(f"{name} {number}" for name, number in versions.items())


def _trainer(run: Run) -> Iterator[tuple[str, str]]:
    if run.is_training:
        for label, path in TRAINER_FACTS.items():
            yield from _known(label, value_at(run.recipe, f"trainer.{path}"))


def _known(label: str, value: object) -> Iterator[tuple[str, str]]:
    if value not in (None, "", [], ()):
        yield label, f"{value:g}" if isinstance(value, float) else str(value)


def _task(run: Run) -> str | None:
    name = value_at(run.recipe, "task.name")
    tasks = run.about.get("tasks")
    tasks = tasks if isinstance(tasks, list) else sorted({e.task for e in run.episodes})
    if len(tasks) == 1:
        return str(tasks[0])
    name = name or (str(tasks[0]).partition("/")[0] if tasks else None)
    return f"{name}, {counted(len(tasks), 'problem')}" if tasks else name


def _episodes(run: Run) -> str:
    failed = sum(episode.failure is not None for episode in run.episodes)
    return f"{len(run.episodes):,}" + (f", {failed:,} failed" if failed else "")


def _steps(run: Run) -> str | None:
    if not run.is_training:
        return None
    planned = run.about.get("steps")
    done = int(run.steps[-1]["step"]) if run.steps else 0
    return f"{done:,} of {planned:,}" if isinstance(planned, int) else f"{done:,}"


def _feedback(sources: object) -> str | None:
    if not isinstance(sources, Sequence) or isinstance(sources, str):
        return None
    names = [s.get("source", "") if isinstance(s, Mapping) else str(s) for s in sources]
    return ", ".join(str(name) for name in names)


def _times(run: Run) -> tuple[datetime, datetime] | None:
    spans = []
    for episode in run.episodes:
        try:
            began = datetime.fromisoformat(episode.started)
        except ValueError:
            continue
        spans.append((began, began + timedelta(seconds=episode.seconds)))
    if not spans:
        return None
    return min(began for began, _ in spans), max(ended for _, ended in spans)


def _began(run: Run) -> str | None:
    times = _times(run)
    return times[0].strftime("%Y-%m-%d %H:%M") if times else None


def _took(run: Run) -> str | None:
    seconds = value_at(run.about, "summary.seconds")
    if not isinstance(seconds, int | float):
        times = _times(run)
        seconds = (times[1] - times[0]).total_seconds() if times else None
    if seconds is None:
        return None
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes} min {rest} s" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


def _agents(run: Run) -> list[dict[str, Any]]:
    """Name, model, responses, tokens and cost of each agent; None if they are unknown."""
    used = by_agent(run.episodes)
    models = run.about.get("models")
    models = models if isinstance(models, dict) else {}
    unknown = dict.fromkeys(("responses", "prompt_tokens", "new_tokens", "cost"))
    return [
        {"name": name, "model": str(models.get(name, "")), **unknown, **used.get(name, {})}
        for name in dict.fromkeys((*models, *used))
    ]
