"""A multi-agent collaboration runtime whose agents can be trained.

import collab

rollout = collab.load("coding").run("humaneval/12")
print(rollout.episode.reward)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from collab.lazy import import_name

if TYPE_CHECKING:
    from collab import rewards
    from collab.api.evaluate import evaluate
    from collab.api.reading import list_runs, read_metrics, to_pandas
    from collab.api.train import atrain, train
    from collab.api.training import Training
    from collab.errors import CollabError
    from collab.evaluation.folder import read_results
    from collab.evaluation.results import Results
    from collab.evaluation.selection import Selection
    from collab.recipe import Recipe, load_recipe
    from collab.recipe.in_python import Agent
    from collab.records import Episode, read_episodes
    from collab.runtime import Event, Rollout, Session, Team, load

__all__ = [
    "Agent",
    "CollabError",
    "Episode",
    "Event",
    "Recipe",
    "Results",
    "Rollout",
    "Selection",
    "Session",
    "Team",
    "Training",
    "atrain",
    "evaluate",
    "list_runs",
    "load",
    "load_recipe",
    "read_episodes",
    "read_metrics",
    "read_results",
    "rewards",
    "to_pandas",
    "train",
]


def __getattr__(name: str) -> Any:
    """Import the public names on first use: `import collab` itself costs nothing."""
    if name == "__version__":
        from collab.distribution import version

        return version()
    return import_name(name, __name__, __file__)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})
