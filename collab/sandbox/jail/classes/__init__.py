"""Tests of a class: the class that the test sees, and its objects in the worker."""

from .objects import CLASS, Objects
from .remote_class import remote_class

__all__ = ["CLASS", "Objects", "remote_class"]
