"""What problems asked, where it can be read without running anything of the user's.

A record holds what agents were told, not the problem itself. Its public fields are had again from
the rows in the run's own folder, from installed data or a generator that comes with collab, and are
believed only where the record repeats some of them: another version may make other problems.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from collab.errors import CollabError
from collab.recipe.task import SourceSpec, TaskSpec
from collab.records import Episode
from collab.report.runs import Run, value_at
from collab.tasks import Suite, open_suite
from collab.tasks.formats import BUILT_IN as FORMATS
from collab.tasks.generated import BUILT_IN as GENERATORS

Fields = dict[str, Any]


def problems_of(run: Run) -> dict[str, Fields]:
    """The public fields of each problem of the run's suite, by address; none that are in doubt."""
    suite = _suite(run)
    if suite is None:
        return {}
    problems = (suite.problem(number) for number in range(len(suite)))
    return {p.address: _without_id(p.public, suite.spec.id_field) for p in problems}


def is_recorded(fields: Fields, episode: Episode) -> bool:
    """Whether what the agents were told repeats some of the problem."""
    decisions = [decision for turn in episode.turns for decision in turn.decisions]
    told = "\n".join(message.content for d in decisions for message in d.observation)
    return any(text.strip() and text.strip() in told for text in map(as_text, fields.values()))


def as_text(value: Any) -> str:
    """A field's value as agents are told it."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _without_id(fields: Fields, id_field: str) -> Fields:
    """The fields less the problem's name, which its address says."""
    return {name: value for name, value in fields.items() if name != id_field}


def _suite(run: Run) -> Suite | None:
    try:
        spec = TaskSpec.model_validate(value_at(run.recipe, "task"))
    except ValidationError:
        return None
    source = _at_hand(spec.source, run.path)
    if source is None:
        return None
    try:
        return open_suite(spec.model_copy(update={"source": source}))
    except CollabError:
        return None


def _at_hand(source: SourceSpec, folder: Path) -> SourceSpec | None:
    """The source, if it is in the run's folder or comes with what is installed."""
    if source.hub or (source.generate and source.generate.use not in GENERATORS):
        return None
    if source.adapt and source.adapt.use not in FORMATS:
        return None
    if not source.path:
        return source
    path = (folder / source.path).resolve()
    if not path.is_relative_to(folder.resolve()):
        return None
    return source.model_copy(update={"path": str(path)})
