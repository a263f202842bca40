"""The store of weights: aliases, folders and hub names, fetched once and cached."""

from collab.models.store.cache import StoreProgress, cache_root, quiet
from collab.models.store.models import (
    ALIASES,
    StoredModel,
    check_name,
    resolve,
    stored_models,
)

__all__ = [
    "ALIASES",
    "StoreProgress",
    "StoredModel",
    "cache_root",
    "check_name",
    "quiet",
    "resolve",
    "stored_models",
]
