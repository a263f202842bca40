"""Facts from a program's syntax tree: code that can run, and how functions use each other."""

from collab.analysis.schemes import SCHEMES, Classification, classify
from collab.analysis.usage import HelperUse, helper_use, returns_value

__all__ = [
    "SCHEMES",
    "Classification",
    "HelperUse",
    "classify",
    "helper_use",
    "returns_value",
]
