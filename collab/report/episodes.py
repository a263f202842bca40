"""Chooses the episodes of a report, and makes their data for the page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from operator import attrgetter
from typing import Any, Literal

from collab.records import Action, Episode, Turn
from collab.report.page import Texts
from collab.report.runs import Run
from collab.rewards.declared import ScoreColumn as Column
from collab.rewards.declared import earnings_of, measures_of
from collab.stats import group_by
from collab.trainers.training.events import Mode

Phase = Literal["training", "held out before", "held out after"]


@dataclass(frozen=True)
class ShownEpisode:
    """An episode in a report, with its run and its place in it."""

    run: int
    """Number of the episode's run."""
    episode: Episode
    step: int | None = None
    """Training step of the episode, or for a held-out episode the last step before it."""
    phase: Phase | None = None
    """Phase of training, or None without training."""
    mode: Mode | None = None
    """Sampling mode of a held-out episode."""


def choose_shown_episodes(runs: Sequence[Run], limit: int) -> tuple[list[ShownEpisode], int]:
    """Return up to `limit` episodes to show, shared among the runs in proportion to their sizes,
    and the number of all episodes."""
    kinds = [
        kind
        for number, run in enumerate(runs)
        for kind in (_run_episodes(number, run), _held_out_episodes(number, run))
    ]
    total = sum(map(len, kinds))
    shares = [max(2, limit * len(episodes) // max(limit, total)) for episodes in kinds]
    while sum(map(min, shares, map(len, kinds))) > limit:
        largest = max(range(len(kinds)), key=lambda place: min(shares[place], len(kinds[place])))
        shares[largest] = min(shares[largest], len(kinds[largest])) - 1
    pairs = zip(kinds, shares, strict=True)
    return [item for kind, share in pairs for item in sample_evenly(kind, share)], total


def _run_episodes(number: int, run: Run) -> list[ShownEpisode]:
    phase: Phase | None = "training" if run.is_training else None
    return [ShownEpisode(number, episode, run.step_of(episode), phase) for episode in run.episodes]


def _held_out_episodes(number: int, run: Run) -> list[ShownEpisode]:
    """Return the episodes ordered by problem, so that a problem's episodes are chosen together."""
    steps = [evaluation.step for evaluation in run.evaluations]
    phases: dict[int, Phase] = {}
    if steps:
        phases = {steps[-1]: "held out after", steps[0]: "held out before"}
    shown = [
        ShownEpisode(number, played.episode, played.step, phases[played.step], played.mode)
        for played in run.held_out
        if played.step in phases
    ]
    return sorted(
        shown, key=lambda s: (s.episode.group, s.step or 0, s.mode == "greedy", s.episode.sample)
    )


def sample_evenly(episodes: Sequence[ShownEpisode], limit: int) -> list[ShownEpisode]:
    """Return at most `limit` episodes, from groups spread evenly over the run.

    The last group may be cut.
    """
    if len(episodes) <= limit:
        return list(episodes)
    groups = group_by(episodes, attrgetter("episode.group"))
    keys = list(groups)
    wanted = max(2, limit * len(keys) // len(episodes))
    chosen = sorted({round(n * (len(keys) - 1) / (wanted - 1)) for n in range(wanted)})
    return [shown for place in chosen for shown in groups[keys[place]]][:limit]


def episode_data(
    shown: ShownEpisode, texts: Texts, columns: Sequence[Column] = ()
) -> dict[str, Any]:
    """Return the JSON data of an episode. `columns` are the reward parts to show."""
    episode, score, failure = shown.episode, shown.episode.score, shown.episode.failure
    actions = [decision.action for decision in episode.decisions()]
    return {
        "id": episode.id,
        "run": shown.run,
        "task": episode.task,
        "team": episode.team,
        "sample": episode.sample,
        "step": shown.step,
        "phase": shown.phase,
        "mode": shown.mode,
        "seed": str(episode.seed),
        "started": episode.started,
        "seconds": episode.seconds,
        "verdict": episode.outcome,
        "reward": score.reward if score else None,
        "maximum": score.maximum if score else None,
        "return": episode.joint_return,
        "largest_return": episode.largest_return,
        "horizon": episode.horizon if episode.unplayed else None,
        "absorbed": episode.absorbed,
        "shown": {
            column.head: [cell, column.value(score)]  # the text and the sort key
            for column in columns
            if score and (cell := column.cell(score))
        },
        "flags": list(score.flags) if score else [],
        "cut": any(action.is_truncated for action in actions),
        "tokens": sum(action.usage.new_tokens for action in actions),
        "failure": failure and _intern_texts(failure.model_dump(exclude=_PRIVATE_FIELDS), texts),
        "turns": [_turn_data(turn, texts) for turn in episode.turns],
    }


_PRIVATE_FIELDS = {"traceback"}
_OMITTED_FIELDS: dict[str, Any] = {
    "decisions": {
        "__all__": {
            "action": {
                **dict.fromkeys(("token_ids", "logprobs", "prompt_ids", "tool_calls"), True),
                "failure": _PRIVATE_FIELDS,
            },
            "observation": {"__all__": {"tool_calls", "answers"}},
        }
    },
    "feedback": {"__all__": {"__all__": {"findings"}}},
    "failures": {"__all__": _PRIVATE_FIELDS},
}
_TEXT_KEYS = ("content", "text", "artifacts", "joint", "reason", "why", "failures", "message")
"""Keys of a turn whose strings are stored in the table of texts."""


def _turn_data(turn: Turn, texts: Texts) -> dict[str, Any]:
    data: dict[str, Any] = _intern_texts(
        turn.model_dump(mode="json", exclude=_OMITTED_FIELDS), texts
    )
    for decision, shown in zip(turn.decisions, data["decisions"], strict=True):
        shown["action"]["logprobs"] = _logprobs(decision.action)
    if score := turn.score:
        for part, shown in zip(score.parts, data["score"]["parts"], strict=True):
            shown["points"] = part.points
        data["score"]["measured"] = [*measures_of(score), *earnings_of(score)]
    return data


def _intern_texts(value: Any, texts: Texts, key: str = "") -> Any:
    """Return the value with each string replaced by its position in the table."""
    if isinstance(value, dict):
        return {
            k: _intern_texts(v, texts, key if key == "artifacts" else k) for k, v in value.items()
        }
    if isinstance(value, list):
        return [_intern_texts(item, texts, key if isinstance(item, str) else "") for item in value]
    return texts(value) if isinstance(value, str) and key in _TEXT_KEYS else value


def _logprobs(action: Action) -> dict[str, float] | None:
    """Return log-probabilities of the sampled tokens, in nats."""
    values = action.logprobs
    return {"mean": fsum(values) / len(values), "least": min(values)} if values else None
