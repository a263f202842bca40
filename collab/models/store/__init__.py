"""The store of weights: aliases, folders and hub names, fetched once and cached."""

from collab.models.store.aliases import ALIASES, AliasedModel
from collab.models.store.cache import StoreProgress, cache_root, ignore_progress
from collab.models.store.configuration import how_to_replace, read_config
from collab.models.store.install import source_of
from collab.models.store.models import check_name, local_folder, resolve

__all__ = [
    "ALIASES",
    "AliasedModel",
    "StoreProgress",
    "cache_root",
    "check_name",
    "how_to_replace",
    "ignore_progress",
    "local_folder",
    "read_config",
    "resolve",
    "source_of",
]
