"""Former names of a record's keys, which older folders and their functions use."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

from pydantic import BaseModel, model_validator


def former_keys(names: Mapping[str, str | None]) -> Any:
    """Return a validator that reads older records: it renames keys, and leaves out those that
    `names` maps to None.
    """

    def read(cls: type[BaseModel], data: Any) -> Any:  # noqa: ARG001
        if not isinstance(data, dict):
            return data
        current = {key: names.get(key, key) for key in data if names.get(key) not in data}
        return {name: data[key] for key, name in current.items() if name is not None}

    validator: Any = model_validator(mode="before")
    return validator(classmethod(read))


class FormerArtifacts:
    """Adds the property `artefacts`, the former name of `artifacts`.

    Functions in folders of old runs use the former name.
    """

    artefacts = property(attrgetter("artifacts"))
