"""Texts of given sizes, and the shipped writing rewards that score them."""

from functools import lru_cache

from collab.recipe import RewardSpec
from collab.recipe.documents import read_mapping
from collab.recipe.library import library_root
from collab.records import Problem

FIELDS = {"tldr": "prompt", "arxiv": "abstract_text"}
SOURCE = "The old bridge keeper painted his bridge and moved the lamps."


@lru_cache
def shipped_reward(name: str) -> RewardSpec:
    return RewardSpec.model_validate(
        read_mapping(library_root() / "tasks" / "rewards" / f"{name}.yaml")
    )


def problem_for(name: str) -> Problem:
    return Problem(address=f"{name}/0", public={FIELDS[name]: SOURCE})


def text(n_words: int, n_characters: int, n_unique: int | None = None, stem: str = "w") -> str:
    """`n_words` words in exactly `n_characters`, `n_unique` of them different."""
    n_unique = n_words if n_unique is None else n_unique
    chosen = [f"{stem}{i}" for i in range(n_unique)]
    missing = n_characters - len(" ".join(chosen + [chosen[0]] * (n_words - n_unique)))
    chosen[-1] += stem * missing
    chosen += [chosen[0]] * (n_words - n_unique)
    return " ".join(chosen)


ONE_OF_EACH = (
    "moreover", "for instance", "in other words", "therefore", "whereas", "next", "certainly",
    "overall", "likewise", "despite", "unless", "during",
)  # fmt: skip
