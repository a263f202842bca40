"""Models: one interface, several engines. Engines are imported when one is opened."""

from collab.models.base import Call, Checks, Model, Progress, Request, Verifies

__all__ = ["Call", "Checks", "Model", "Progress", "Request", "Verifies"]
