"""Suggests changes before training; each comes from one number and its threshold."""

from __future__ import annotations

from collections.abc import Iterator

from collab.probe.results import TeamProbe
from collab.trainers.credit.counterfactual.forms import FORMS
from collab.trainers.training.alarms import credit_warnings
from collab.wording import counted

FEW_TASKS = 5
FAILED, DEAD, TRUNCATED, EMPTY = 0.1, 0.5, 0.2, 0.3
TOO_EASY = 0.9
"""Share of the largest return above which tasks are too easy."""
REVIVED = 0.2
"""Share of the groups that are dead as played, but not when crossed."""


def advice_on(probe: TeamProbe) -> Iterator[str]:
    """All suggestions, or a sentence that there are none."""
    advices = [*_on_tasks(probe), *_dead_groups(probe), *_on_agents(probe), *_on_credit(probe)]
    yield from advices or ["no problem found: this team can be trained with these settings"]
    yield from _of_games(probe)
    if 0 < len(probe.tasks) < FEW_TASKS:
        yield (
            f"the intervals are wide with {counted(len(probe.tasks), 'task')}; probe more (--tasks)"
        )


def _on_tasks(probe: TeamProbe) -> Iterator[str]:
    share = probe.failed / probe.episodes if probe.episodes else 0.0
    if share > FAILED:
        yield (
            f"{probe.failed} of {counted(probe.episodes, 'episode')} failed, and training skips"
            f" failed episodes; first failure: {probe.failure}"
        )
    best = probe.best
    if best and (solved := best.solved_combined or best.solved) and solved.mean == 0:
        what = f"{best.samples} samples"
        if best.solved_combined and best.combinations:
            what = f"{best.combinations} combinations"
        yield (
            f"the best of {what} solves none of {solved.tasks} tasks; use easier tasks, a warm"
            " start, a stronger model, or a reward that pays for partial solutions"
        )
    if probe.maximum > 0 and probe.mean.mean > TOO_EASY * probe.maximum:
        yield (
            f"the mean return is already {probe.mean.mean / probe.maximum:.0%} of the maximum, so"
            " there is little left to learn; use harder tasks"
        )


def _dead_groups(probe: TeamProbe) -> Iterator[str]:
    groups, crossed = len(probe.tasks), probe.crossed
    if not groups:
        return
    revived = probe.dead - crossed.dead if crossed else 0
    if probe.dead > DEAD * groups:
        are = "is" if groups == 1 else "are"
        text = f"{probe.dead} of {counted(groups, 'group')} {are} dead: all returns of a group are"
        text += " equal, so it gives no gradient; raise samples (trainer.group_size) or the"
        text += " temperature, or choose easier or harder tasks"
        if crossed and revived <= REVIVED * groups:
            text += f"; scoring all combinations leaves {crossed.dead} dead"
        yield text
    if crossed and revived > REVIVED * groups:
        yield (
            f"scoring all combinations leaves {crossed.dead} of {counted(groups, 'group')} dead"
            f" instead of {probe.dead}, without more tokens; train with `algorithm: cross`"
        )


def _on_agents(probe: TeamProbe) -> Iterator[str]:
    for name, agent in probe.agents.items():
        if agent.truncated.mean > TRUNCATED and agent.limit > 1 and agent.tokens > 2:
            yield (
                f"{agent.truncated.mean:.0%} of the responses of `{name}` are truncated at"
                f" {agent.limit} tokens; raise agents.{name}.sampling.max_new_tokens, or ask for"
                " shorter answers"
            )
        if agent.empty.mean > EMPTY:
            yield (
                f"the parser found nothing in {agent.empty.mean:.0%} of the answers of `{name}`;"
                " check its prompt and parser"
            )
        if agent.untrainable:
            yield f"`{name}` takes part but cannot be trained: {agent.untrainable}"


def _on_credit(probe: TeamProbe) -> Iterator[str]:
    if probe.crossed is None:
        return
    for _, text in credit_warnings(probe.crossed.own, probe.crossed.influence):
        yield text
    for name, form in probe.crossed.forms.items():
        if form == "alone":
            yield (
                f"`{name}` cannot be crossed in the protocol '{probe.protocol}'; its credit is"
                f" {FORMS['alone']}"
            )
        elif form == "swapped":
            yield (
                f"`{name}` sees teammates' answers in the protocol '{probe.protocol}';"
                f" {FORMS['swapped']}, not all combinations"
            )


def _of_games(probe: TeamProbe) -> Iterator[str]:
    """Yield the limits of the probe in games."""
    if probe.game is None:
        return
    if not probe.game.crosses:
        yield (
            "answers are not crossed: in a game of several turns, the reward of an answer depends"
            " on earlier turns"
        )
    if probe.game.zero_sum:
        yield (
            "the game is zero-sum, so the joint return is always 0; each agent learns from its own"
            " return. For self-play, share one adapter (trainer.policies: shared_adapter)"
        )
