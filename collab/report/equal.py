"""Curves that lie on top of each other: one would hide the other, and nobody would know."""

from __future__ import annotations

from dataclasses import replace

from collab.report.panels import Panel, Series


def told_equal(panel: Panel, *, merge: bool) -> Panel:
    """The panel with equal curves told apart, and a word on them.

    Args:
        merge: draw them as one, under both names; else the later one is dashed, so that the colours
            of both are seen.
    """
    if panel.stacked:
        return panel
    kept: list[Series] = []
    told = []
    for line in panel.series:
        place = next((n for n, one in enumerate(kept) if _equal(one, line)), None)
        if place is None:
            kept.append(line)
            continue
        first = kept[place]
        told.append(f"{first.label} and {line.label} are equal.")
        if merge:
            label = f"{first.label} = {line.label}"
            kept[place] = replace(first, label=label, short=label, dashed=False)
        else:
            kept.append(replace(line, dashed=True))
    return replace(panel, series=kept, note=" ".join([n for n in (panel.note, *told) if n]))


def _equal(one: Series, other: Series) -> bool:
    if "thin" in (one.style, other.style):
        return False
    return (one.x, one.y, one.low, one.high) == (other.x, other.y, other.low, other.high)
