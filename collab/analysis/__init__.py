"""Facts from a program's syntax tree: code that can run, and how functions use each other."""

from collab.analysis.usage import HelperUse, helper_use, returns_value

__all__ = ["HelperUse", "helper_use", "returns_value"]
