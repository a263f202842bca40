"""Models: one interface, several engines. Engines are imported when one is opened."""

from collab.models.base import Call, Model, Progress, Request

__all__ = ["Call", "Model", "Progress", "Request"]
