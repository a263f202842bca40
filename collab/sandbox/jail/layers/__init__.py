"""Isolation layers between a program and this machine: each separately, and all in order."""

from __future__ import annotations

from .stack import (
    ALL,
    BY_NAME,
    INSIDE_UID,
    LAYERS,
    MIB,
    Layer,
    LayerUnavailable,
    Setting,
    drop_uid,
    granted,
    prepare,
    seal,
)

__all__ = [
    "ALL",
    "BY_NAME",
    "INSIDE_UID",
    "LAYERS",
    "MIB",
    "Layer",
    "LayerUnavailable",
    "Setting",
    "drop_uid",
    "granted",
    "prepare",
    "seal",
]
