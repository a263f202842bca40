"""Evaluation from Python."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import aclosing
from pathlib import Path

from collab.errors import CollabError
from collab.evaluation.evaluation import Evaluation
from collab.evaluation.results import Results
from collab.evaluation.teams import choose_k, find_teams
from collab.runtime.problems import flat_addresses
from collab.trust import Consent


def evaluate(
    *teams: str,
    task: str | Sequence[str] | None = None,
    split: str | None = None,
    samples: int = 1,
    k: Sequence[int] | None = None,
    seed: int = 0,
    greedy: bool = False,
    model: str | None = None,
    settings: Sequence[str] = (),
    trust: Consent = False,
    out: str | Path | None = None,
) -> Results:
    """Teams side by side on the same problems.

    Args:
        teams: names, files or folders of runs, as `collab.load` takes them.
        task: a suite or an address, e.g. `humaneval/0-19`, or several; None for the recipes' own.
        samples: episodes of each problem; pass@k takes k of them.
        k: of pass@k; None for those of 1, 3, 5 and 10 that so many samples can tell.
        settings: overrides as on the command line, for every team.
        trust: True for a yes to the functions of teams from elsewhere.
        out: a folder for the record, which the same call goes on with; None leaves none.

    Raises:
        RecipeError, TaskError, ModelUnavailable, RecordError: before any work is done.
            What fails within an episode is counted as failed.
    """
    if _loop_is_running():
        raise CollabError("an event loop is running here; follow Evaluation(...).stream() in it")
    evaluated_teams = find_teams(
        teams,
        tasks=[] if task is None else flat_addresses([task]),
        split=split,
        samples=samples,
        seed=seed,
        greedy=greedy,
        model=model,
        settings=settings,
        trust=trust,
    )
    ks = choose_k(k, evaluated_teams[0].recipe.samples)
    evaluation = Evaluation(evaluated_teams, ks, out=Path(out) if out else None, trust=trust)
    asyncio.run(_follow(evaluation))
    return evaluation.results()


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:  # which is how asyncio says no
        return False
    return True


async def _follow(evaluation: Evaluation) -> None:
    async with aclosing(evaluation.stream()) as events:
        async for _ in events:
            pass
