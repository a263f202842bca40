"""The episodes of a run, a row each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from collab.cli.screen.page import Column, Page
from collab.records import Episode
from collab.rewards.declared import Shown


def show_list(
    page: Page, about: dict[str, Any], episodes: list[Episode], declared: Sequence[Shown]
) -> None:
    """The table; of the columns that a reward has `declared`, those without a cell are left out."""
    if about:
        models = ", ".join(sorted(set(about.get("models", {}).values())))
        page.line((str(about.get("run", "")), "bold"), f", {about.get('team', '')}, {models}")
    columns = [Column("", right=True, style="dim"), Column("episode"), Column("verdict")]
    scores = [episode.score for episode in episodes if episode.score]
    declared = [item for item in declared if any(map(item.cell, scores))]
    ranks = {"return": 0, "of": 3, **{item.head: 0 for item in declared}, "turns": 4, "tokens": 2}
    columns += [Column(name, right=True, rank=rank) for name, rank in ranks.items()]
    has_schemes = any(score.scheme for score in scores)
    columns += [Column("scheme", rank=1)] * has_schemes
    columns += [Column("flags", style="yellow", wrap=True)]
    rows = [_row(n, episode, declared, has_schemes) for n, episode in enumerate(episodes)]
    page.table(columns, rows)


def _row(number: int, episode: Episode, declared: Sequence[Shown], has_schemes: bool) -> list[Any]:
    score, failure = episode.score, episode.failure
    if failure:
        told = (f"failed: {failure.type}", "red")
    elif score is None or score.solved is None:
        told = ("done", "")
    else:
        told = ("solved", "green") if score.solved else ("not solved", "red")
    tokens = sum(d.action.usage.new_tokens for turn in episode.turns for d in turn.decisions)
    earned = [
        "-" if points is None else f"{points:.2f}"
        for points in (episode.joint_return, episode.largest_return)
    ]
    measured = [(item.cell(score) if score else "") or "-" for item in declared]
    played = str(len(episode.turns))
    turns = f"{played} of {episode.horizon}" if episode.unplayed else played
    counts = [*measured, turns, str(tokens)]
    scheme = [(score.scheme if score else None) or "-"] * has_schemes
    flags = ", ".join(score.flags) if score else ""
    return [str(number), episode.id, told, *earned, *counts, *scheme, flags or "-"]
