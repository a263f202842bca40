"""The loop: play groups, give credit, learn, evaluate, keep checkpoints, go on after a crash."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path
from threading import Event as Flag
from typing import Any

from collab.errors import TrainingError
from collab.models.store import StoreProgress
from collab.recipe import Recipe
from collab.runtime import Session
from collab.runtime import Event as RuntimeEvent
from collab.runtime.events import EpisodeFinished, RunFinished, RunStarted
from collab.runtime.team import versions
from collab.trainers.algorithms import algorithm_for
from collab.trainers.algorithms.group import Shape
from collab.trainers.check import check_recipe, choose_tasks
from collab.trainers.checkpoints import Checkpoints, load_checkpoint
from collab.trainers.clock import Clock
from collab.trainers.credit import give_credit
from collab.trainers.curriculum import stretch_at
from collab.trainers.events import (
    CheckpointSaved,
    Evaluation,
    Phase,
    StepFinished,
    TrainingEvent,
    TrainingProgress,
)
from collab.trainers.folder import TrainingFolder, read_about
from collab.trainers.heldout import compare, evaluate, mean_return
from collab.trainers.metrics import StepData, step_metrics
from collab.trainers.policy import Policies, open_policies
from collab.trainers.rollouts import Played, play_groups
from collab.trainers.samples import make_samples
from collab.trainers.signs import Signs
from collab.trainers.sinks import Tracker, open_trackers
from collab.trainers.update import Cancelled, Learner, OutOfMemory, Update

Emit = Callable[[TrainingEvent], None]
