"""Steps without learning: the reasons, and the limit after which a run ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from collab.errors import TrainingError
from collab.recipe import Recipe, TrainerSpec
from collab.records import Episode
from collab.runs import metric_names as names
from collab.runs.metrics import STEP_FINISHED
from collab.stats import mean
from collab.trainers.credit.step_credit import Credit
from collab.trainers.learner.samples import is_dead
from collab.trainers.training.alarms import Alarms, can_compare_turns
from collab.trainers.training.rollouts import complete_episodes

WHOLE_STEP = "step"
"""Key of a step that was skipped as a whole. `policy/NAME` is one policy's share of a step."""

MAX_FAILED_SHARE = 0.5
"""Largest share of a step's episodes that may fail. Above it the step is skipped."""

MAX_SKIPPED_STEPS = 3
"""Largest number of consecutive skipped steps. One more ends the training."""

TRUNCATION_SHARE = 0.5
"""Smallest share of truncated responses that is named as a cause."""


def skip_reason(groups: Sequence[Sequence[Episode]], spec: TrainerSpec) -> str | None:
    """Return the reason why nothing can be learned from a step, or None.

    Either more than `MAX_FAILED_SHARE` of its episodes failed, or no group has enough episodes left
    to compare.
    """
    episodes = [episode for group in groups for episode in group]
    failed = [episode for episode in episodes if episode.failure]
    if len(failed) > MAX_FAILED_SHARE * len(episodes):
        least = f"at least {1 - MAX_FAILED_SHARE:.0%} of a step's episodes must finish"
        return f"{describe_failures(failed, len(episodes))}; {least}"
    if failed and all(len(complete_episodes(g)) < spec.min_complete for g in groups):
        return f"{describe_failures(failed, len(episodes))}; no group has enough left to compare"
    return None


def lost_group_warnings(
    groups: Sequence[Sequence[Episode]], credited: Sequence[str]
) -> Iterator[str]:
    """Yield a message for each group with failed episodes whose task is not in `credited`."""
    for group in groups:
        failed = [episode for episode in group if episode.failure]
        if failed and group[0].task not in credited:
            failures = describe_failures(failed, len(group))
            yield f"{group[0].task} was skipped: {failures}"


def no_weight_warnings(credit: Credit) -> Iterator[str]:
    """Yield why nothing was learned, if no response of the step has a weight."""
    if not credit.groups or not all(map(is_dead, credit.weights)):
        return
    if not any(credit.weights):
        yield "nothing was learned: the algorithm returned no weights"
        return
    alike = all(len({e.joint_return for e in group.episodes}) == 1 for group in credit.groups)
    reason = "all returns of each group are equal" if alike else "every weight is 0"
    yield f"nothing was learned: {reason}{_truncation_hint(credit)}"


def _truncation_hint(credit: Credit) -> str:
    episodes = (episode for group in credit.groups for episode in group.episodes)
    cut = [d.action.is_truncated for e in episodes for d in e.decisions()]
    if not cut or mean(cut) < TRUNCATION_SHARE:
        return ""
    return f"; {mean(cut):.0%} of the responses are truncated, raise max_new_tokens"


def describe_failures(failed: Sequence[Episode], total: int) -> str:
    """Return the number of `failed` episodes of `total`, their kinds, and the first failure."""
    failures = [episode.failure for episode in failed if episode.failure]
    kinds = ", ".join(f"{n} {kind}" for kind, n in Counter(f.type for f in failures).items())
    first = failures[0]
    return (
        f"{len(failed)} of {total} episodes failed ({kinds}), the first, {failed[0].id}:"
        f" {first.type}: {first.message}"
    )


class StepHistory:
    """Counts a run's finished steps, their tokens and their skipped parts."""

    def __init__(self, recipe: Recipe, total_steps: int) -> None:
        self.step = 0
        """Number of finished steps."""
        self.tokens = 0
        """Number of tokens generated in the finished steps."""
        self.unlearned = 0
        """Number of steps in which nothing was learned."""
        trainer = recipe.trainer
        compare = can_compare_turns(
            recipe.environment,
            recipe.team.when_solved,
            trainer.turn_structure if trainer else None,
        )
        self._alarms = Alarms(recipe.reward, turns_compare=compare)
        self.total_steps, self._token_limit = total_steps, trainer.tokens if trainer else None
        self._recent_skips: Counter[str] = Counter()
        self._total_skips: Counter[str] = Counter()

    def is_over(self, steps: int = 0, tokens: int = 0) -> bool:
        """Return True if the run ends after this many more steps and generated tokens."""
        reached = self._token_limit is not None and self.tokens + tokens >= self._token_limit
        return reached or self.step + steps >= self.total_steps

    def restore(self, step: int, rows: Sequence[Mapping[str, Any]]) -> None:
        """Restore the counts of `step` steps from rows of metrics. Skips in a row start at 0."""
        steps = [row for row in rows if row["type"] == STEP_FINISHED]
        self.step = step
        self.tokens = sum(int(row.get(names.TOKENS, 0)) for row in steps)
        self.unlearned = sum(map(_is_unlearned, steps))
        for row in steps:
            skipped = (names.match_pattern(names.SKIPPED, key) for key in row)
            self._total_skips.update(key for key in skipped if key is not None)
            self._alarms.read({k: v for k, v in row.items() if isinstance(v, int | float)})

    def add(self, metrics: Mapping[str, float]) -> tuple[str, ...]:
        """Add a finished step, and return the alarms that its metrics raise."""
        self.step += 1
        self.tokens += int(metrics[names.TOKENS])
        self.unlearned += _is_unlearned(metrics)
        return self._alarms.read(metrics)

    def check_skipped(self, skipped: Mapping[str, str]) -> None:
        """Count the skipped parts of a finished step, by key and reason.

        Raises:
            TrainingError: something was skipped in every step of the run, or in more than
                `MAX_SKIPPED_STEPS` steps in a row.
        """
        self._recent_skips = Counter({key: self._recent_skips[key] + 1 for key in skipped})
        self._total_skips.update(skipped.keys())
        for key, reason in skipped.items():
            if self._total_skips[key] >= self.total_steps:
                raise TrainingError(f"training skipped every step; the last: {reason}")
            if self._recent_skips[key] > MAX_SKIPPED_STEPS:
                raise TrainingError(
                    f"{self._recent_skips[key]} steps in a row were skipped, limit"
                    f" {MAX_SKIPPED_STEPS}; the last: {reason}"
                )


def _is_unlearned(row: Mapping[str, Any]) -> bool:
    """Return True if a step was skipped, or none of its responses had a weight."""
    return names.fill_pattern(names.SKIPPED, WHOLE_STEP) in row or row.get(names.DEAD_GROUPS) == 1.0
