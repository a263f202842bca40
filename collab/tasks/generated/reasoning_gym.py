"""Problems of reasoning-gym's sets, as `reasoning_gym/NAME`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Any

from collab.distribution import import_optional
from collab.errors import RecipeError, TaskError, UnknownName

CHUNK_SIZE = 50
"""Number of problems to make at once, because some sets make all of theirs in advance."""
MAX_VAIN_CHUNKS = 20
"""Number of chunks without a new question after which a set counts as exhausted."""
_SEED_LIMIT = 1 << 31
_SOURCE_KEYS = {"size": "task.source.rows", "seed": "task.source.seed"}


def reasoning_gym(random: Random, *, name: str, **options: Any) -> Iterator[dict[str, Any]]:
    """Yield problems of the set `name`, without repetition. Options are those of the set.

    Raises:
        TaskError: the package is not installed.
        UnknownName: the package has no such set.
        RecipeError: an option is already set by the suite's source.
    """
    for option in {*options} & {*_SOURCE_KEYS}:
        key = _SOURCE_KEYS[option]
        raise RecipeError(f"'{option}' is not an option of reasoning_gym here; set {key}")
    user = f"the suite reasoning_gym/{name}"
    gym = import_optional("reasoning_gym", user, "reasoning-gym", TaskError)
    if name not in gym.factory.DATASETS:
        raise UnknownName("set of reasoning_gym", name, gym.factory.DATASETS)
    first, seen, vain = random.randrange(_SEED_LIMIT), set[str](), 0
    for chunk in count():
        before = len(seen)
        # A set draws problem i with seed + i, so each chunk begins where the previous one ended.
        made = gym.create_dataset(name, seed=first + chunk * CHUNK_SIZE, size=CHUNK_SIZE, **options)
        for number in range(CHUNK_SIZE):
            entry = made[number]
            if entry["question"] not in seen:
                seen.add(entry["question"])
                yield _row(name, entry)
        vain = vain + 1 if len(seen) == before else 0
        if vain == MAX_VAIN_CHUNKS:
            return


def _row(name: str, entry: dict[str, Any]) -> dict[str, Any]:
    return {
        "prompt": entry["question"],
        "set": name,
        "answer": entry["answer"],
        "metadata": entry["metadata"],
    }
