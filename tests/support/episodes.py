"""Hand-made episodes for readers of records."""

from typing import Any

from collab.records import (
    Action,
    Decision,
    Episode,
    Failure,
    Message,
    PartScore,
    Score,
    Tests,
    Turn,
    Usage,
)
from collab.runtime.events import RunStarted

OBSERVED = (Message(role="user", content="write"),)


def make_score(
    reward: float = 1.0,
    *,
    maximum: float = 4.0,
    solved: bool | None = None,
    tests: tuple[int, int] | None = None,
    parts: tuple[PartScore, ...] = (),
) -> Score:
    return Score(
        reward=reward,
        maximum=maximum,
        solved=solved,
        tests=Tests(passed=tests[0], total=tests[1]) if tests else None,
        parts=parts,
    )


def make_part(
    level: str, value: float, weight: float, *, name: str = "", applies: bool = True
) -> PartScore:
    return PartScore(
        name=name or level, level=level, value=value, weight=weight, reason="", applies=applies
    )


def make_turn(score: Score | None = None, *, index: int = 0, tokens: int = 10) -> Turn:
    """A turn of the agents `aux` and `main` with `tokens` new tokens each."""
    action = Action(text="x", usage=Usage(prompt_tokens=5, new_tokens=tokens))
    decisions = tuple(
        Decision(agent=agent, observation=OBSERVED, action=action) for agent in ("aux", "main")
    )
    return Turn(index=index, decisions=decisions, score=score)


def make_episode(
    task: str, sample: int, *scores: Score | None, failed: bool = False, **fields: Any
) -> Episode:
    turns = tuple(make_turn(score, index=index) for index, score in enumerate(scores))
    failure = (
        Failure(boundary="model", type="ModelTimeout", message="no answer") if failed else None
    )
    return Episode(
        id=f"{task}#{sample}", task=task, team="pair", sample=sample, turns=turns,
        failure=failure, **fields,
    )  # fmt: skip


def make_started(**changed: Any) -> RunStarted:
    """The start of a run of one episode; `changed` replaces fields."""
    values: dict[str, Any] = {
        "run": "r", "folder": None, "team": "pair", "agents": ("aux",), "models": {}, "turns": 1,
        "tasks": ("t",), "samples": 1, "seed": 0, "isolation": None, "versions": {},
    }  # fmt: skip
    return RunStarted(**values | changed)
