"""What a program's syntax tree says: which code can run, and who really uses whom."""

from collab.analysis.returns import returns_value
from collab.analysis.usage import HelperUse, helper_use

__all__ = ["HelperUse", "helper_use", "returns_value"]
