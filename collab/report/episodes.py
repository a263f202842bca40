"""Episodes as the report's reader gets them: plain data, texts by their place in the table."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum
from typing import Any

from collab.records import Action, Decision, Episode, Failure, Feedback, Score, Turn
from collab.report.shown import Shown
from collab.report.texts import Texts
from collab.rewards.declared import Shown as Column
from collab.rewards.declared import told


def episode_data(shown: Shown, texts: Texts, columns: Sequence[Column] = ()) -> dict[str, Any]:
    """`columns` are what the reward of the run says is to be listed."""
    episode, score = shown.episode, shown.episode.score
    actions = [d.action for turn in episode.turns for d in turn.decisions]
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
        "verdict": verdict(episode),
        "reward": score.reward if score else None,
        "maximum": score.maximum if score else None,
        "return": episode.joint_return,
        "largest_return": episode.largest_return,
        "horizon": episode.horizon if episode.unplayed else None,
        "absorbed": episode.absorbed,
        "shown": _shown(score, columns) if score else {},
        "scheme": score.scheme if score else None,
        "flags": list(score.flags) if score else [],
        "cut": any(action.finish_reason == "length" for action in actions),
        "tokens": sum(action.usage.new_tokens for action in actions),
        "failure": _failure(episode.failure, texts),
        "turns": [_turn(turn, texts) for turn in episode.turns],
    }


def _shown(score: Score, columns: Sequence[Column]) -> dict[str, Any]:
    """By column: what stands in it, and what it is sorted by."""
    found = ((column.head, column.cell(score), column.value(score)) for column in columns)
    return {head: [cell, value] for head, cell, value in found if cell}


def verdict(episode: Episode) -> str:
    """How an episode ended, in a word or two."""
    if episode.failure:
        return "failed"
    if episode.score is None or episode.score.solved is None:
        return "done"
    return "solved" if episode.score.solved else "not solved"


def _turn(turn: Turn, texts: Texts) -> dict[str, Any]:
    return {
        "decisions": [_decision(decision, texts) for decision in turn.decisions],
        "artefacts": {name: texts(made) for name, made in turn.artefacts.items()},
        "joint": texts(turn.joint),
        "score": _score(turn.score, texts) if turn.score else None,
        "feedback": {
            agent: [_feedback(item, texts) for item in items]
            for agent, items in turn.feedback.items()
        },
        "failures": [_failure(failure, texts) for failure in turn.failures],
        "seconds": turn.seconds,
    }


def _decision(decision: Decision, texts: Texts) -> dict[str, Any]:
    action = decision.action
    return {
        "agent": decision.agent,
        "round": decision.round,
        "saw": list(decision.saw),
        "observation": [[m.role, texts(m.content)] for m in decision.observation],
        "text": texts(action.text),
        "finish": action.finish_reason,
        "model": action.model,
        "adapter": action.adapter,
        "prompt_tokens": action.usage.prompt_tokens,
        "new_tokens": action.usage.new_tokens,
        "cost": action.usage.cost,
        "seconds": action.seconds,
        "logprobs": _logprobs(action),
        "failure": _failure(action.failure, texts),
    }


def _logprobs(action: Action) -> dict[str, float] | None:
    """What the sampled tokens were worth to their model, in nats."""
    values = action.logprobs
    if not values:
        return None
    return {"sum": fsum(values), "mean": fsum(values) / len(values), "least": min(values)}


def _score(score: Score, texts: Texts) -> dict[str, Any]:
    return {
        "reward": score.reward,
        "maximum": score.maximum,
        "solved": score.solved,
        "told": [*told(score), *_earned(score)],
        "happened": score.told,
        "parts": [
            {
                "name": part.name,
                "value": part.value,
                "points": part.points,
                "weight": part.weight,
                "reason": texts(part.reason),
                "applies": part.applies,
            }
            for part in score.parts
        ],
        "schemes": [
            {"name": scheme.name, "lines": scheme.lines, "why": texts(scheme.why)}
            for scheme in score.schemes
        ],
        "flags": list(score.flags),
        "failures": [texts(failure) for failure in score.failures],
        "isolation": score.isolation,
        "seconds": score.seconds,
    }


def _earned(score: Score) -> list[str]:
    return [f"{agent} earns {reward:+.2f}" for agent, reward in score.by_agent.items()]


def _feedback(feedback: Feedback, texts: Texts) -> dict[str, Any]:
    return {
        "source": feedback.source,
        "text": texts(feedback.text),
        "findings": len(feedback.findings),
    }


def _failure(failure: Failure | None, texts: Texts) -> dict[str, Any] | None:
    if failure is None:
        return None
    return {
        "boundary": failure.boundary,
        "type": failure.type,
        "message": texts(failure.message),
    }
