"""The store of weights: aliases, folders and hub names, fetched once and cached."""

from collab.models.store.aliases import ALIASES, AliasedModel
from collab.models.store.cache import StoreProgress, cache_root, quiet
from collab.models.store.models import at_hand, check_name, resolve

__all__ = [
    "ALIASES",
    "AliasedModel",
    "StoreProgress",
    "at_hand",
    "cache_root",
    "check_name",
    "quiet",
    "resolve",
]
