"""What it takes to measure the tasks that a filter chooses from."""

from __future__ import annotations

from collab.recipe.training.curriculum import FilterSpec
from collab.wording import counted


def filter_told(spec: FilterSpec | None, tasks: int, most_tokens: int) -> list[str]:
    """A line for a plan; none without a filter.

    `tasks` are those to choose from, and `most_tokens` the new tokens of one episode at most.
    """
    if spec is None:
        return []
    bounds = f"tasks with a rate from {spec.low:g} to {spec.high:g} are kept"
    if spec.episodes is not None:
        return [f"filter: nothing is played, the episodes are those of {spec.episodes}; {bounds}"]
    episodes = tasks * spec.samples
    return [
        f"filter: before the first step {counted(episodes, 'episode')} ({tasks} x {spec.samples}),"
        f" at most {episodes * most_tokens:,} new tokens, which trainer.tokens does not count;"
        f" {bounds}"
    ]
