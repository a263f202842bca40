"""A multi-agent collaboration runtime whose agents can be trained.

import collab

rollout = collab.load("coding").run("humaneval/12")
print(rollout.episode.reward)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collab.evaluation.api import evaluate
    from collab.recipe import Recipe, load_recipe
    from collab.records import Episode, read_episodes
    from collab.runtime import Event, Rollout, Session, Team, load

__all__ = [
    "Episode",
    "Event",
    "Recipe",
    "Rollout",
    "Session",
    "Team",
    "evaluate",
    "load",
    "load_recipe",
    "read_episodes",
]
_ROOMS = {
    "Episode": "collab.records",
    "Recipe": "collab.recipe",
    "evaluate": "collab.evaluation.api",
    "load_recipe": "collab.recipe",
    "read_episodes": "collab.records",
}


def __getattr__(name: str) -> Any:
    """Import the public names on first use: `import collab` itself costs nothing."""
    if name == "__version__":
        from collab.distribution import version

        return version()
    if name not in __all__:
        raise AttributeError(f"module 'collab' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_ROOMS.get(name, "collab.runtime")), name)
