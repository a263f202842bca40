"""What rank 0 has the others do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from collab.recipe import Recipe, TrainerSpec
from collab.trainers.learner.samples import Sample


@dataclass(frozen=True)
class Begin:
    """Open the policies of a recipe and hold them ready."""

    recipe: Recipe
    spec: TrainerSpec
    total_steps: int
    folder: Path
    """The run's, for a log."""


@dataclass(frozen=True)
class Restore:
    """Go on from parameters, by policy and name, and from the state of a learner."""

    parameters: Mapping[str, Mapping[str, Any]]
    state: Mapping[str, Any]


@dataclass(frozen=True)
class Learn:
    """Take a part in the step, counted from 0."""

    samples: Sequence[Sample]
    step: int


@dataclass(frozen=True)
class End:
    """Nothing more is to be done."""


Order = Begin | Restore | Learn | End
