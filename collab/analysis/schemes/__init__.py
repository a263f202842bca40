"""How a program's entry point works together with its helper: cooperation schemes."""

from collab.analysis.schemes.classify import Classification, classify
from collab.analysis.schemes.match import SCHEMES, Match

__all__ = ["SCHEMES", "Classification", "Match", "classify"]
