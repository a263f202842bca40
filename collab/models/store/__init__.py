"""The store of weights: aliases, folders and hub names, fetched once and cached."""

from collab.models.store.cache import StoreProgress, cache_root, quiet
from collab.models.store.models import (
    ALIASES,
    StoredModel,
    at_hand,
    check_name,
    resolve,
    stored_models,
)

__all__ = [
    "ALIASES",
    "StoreProgress",
    "StoredModel",
    "at_hand",
    "cache_root",
    "check_name",
    "quiet",
    "resolve",
    "stored_models",
]
