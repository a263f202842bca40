"""Models: one interface, several engines. Engines are imported when one is opened."""

from collab.models.base import (
    Call,
    Checks,
    Declares,
    Model,
    Progress,
    Promises,
    Request,
    Samples,
    Verifies,
)

__all__ = [
    "Call",
    "Checks",
    "Declares",
    "Model",
    "Progress",
    "Promises",
    "Request",
    "Samples",
    "Verifies",
]
