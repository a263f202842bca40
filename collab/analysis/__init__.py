"""What a program's syntax tree says: which code can run, and who really uses whom, and how."""

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
