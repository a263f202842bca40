"""Computes a probe from a team's episodes, and scores combinations as `algorithm: cross` does."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from operator import attrgetter
from typing import TypeVar

from collab.environments.library import class_of
from collab.evaluation.intervals import estimate_mean
from collab.evaluation.results import Estimate
from collab.evaluation.values import Groups
from collab.probe.results import AgentProbe, Best, Crossed, GameProbe, TeamProbe
from collab.recipe import Recipe, TrainerSpec
from collab.records import Episode, Problem, Score
from collab.rewards.declared import part_value, parts_about_others
from collab.runs import metric_names as names
from collab.runtime.scoring import JointScorer
from collab.sandbox import Sandbox
from collab.stats import group_by, mean
from collab.tasks import split_address
from collab.trainers.credit import Group
from collab.trainers.credit.combinations import Combinations
from collab.trainers.credit.counterfactual.algorithms import Cross
from collab.trainers.credit.counterfactual.base import MAX_COMBINATIONS, max_combinations
from collab.trainers.credit.counterfactual.forms import FORMS, CreditForm, forms
from collab.trainers.credit.group import group_of
from collab.trainers.credit.magrpo import marloo
from collab.trainers.credit.shape import Shape
from collab.trainers.learner.samples import is_dead
from collab.trainers.training.alarms import credit_warnings
from collab.trainers.training.check import why_untrainable
from collab.trainers.training.data import training_selection
from collab.wording import counted


async def probe(
    recipe: Recipe, problems: Sequence[Problem], episodes: Sequence[Episode], seconds: float
) -> TeamProbe:
    """Return the probe of a team, from the `episodes` of `problems`, run in `seconds`.

    Combinations are scored as `algorithm: cross` does, without calling a model.

    Raises:
        RecipeError: the reward cannot be opened.
    """
    began = time.perf_counter()
    groups = groups_of(problems, episodes)
    # In a game of several turns, a joint action's reward depends on earlier turns.
    crosses = recipe.environment is None or recipe.team.turns == 1
    played = [(p, groups[p.address]) for p in problems if len(groups.get(p.address, ())) > 1]
    recombines = crosses and not parts_about_others(recipe)
    scored = await score_groups(recipe, played, crosses=recombines)
    crossed = await _crossed_results(scored, tuple(recipe.team.agents)) if recombines else None
    failures = [e.failure for e in episodes if e.failure]
    whole = [episode for group in groups.values() for episode in group]
    maximum = max((e.largest_return or 0.0 for e in whole), default=0.0)
    returns = [[e.joint_return or 0.0 for e in group] for group in groups.values()]
    result = TeamProbe(
        team=recipe.team.name,
        protocol=str(recipe.team.protocol),
        turns=recipe.team.turns,
        tasks=tuple(problem.address for problem, _ in played),
        samples=recipe.samples,
        episodes=len(episodes),
        failed=len(failures),
        failure=f"{failures[0].type}: {failures[0].message}" if failures else None,
        maximum=maximum,
        reward_maximum=max((s.maximum for item in scored for s in item.played), default=0.0),
        mean=task_mean([mean(each) for each in returns], maximum),
        solved=share_solved([[e.score for e in group] for group in groups.values()], mean),
        dead=sum(is_dead(marloo(item.group)) for item in scored),
        agents={name: _agent_results(recipe, name, groups) for name in recipe.team.agents},
        crossed=crossed,
        game=_game_results(recipe, groups, crosses=crosses),
        best=_best_of_samples(scored) if crosses else best_game(groups),
        tokens=sum(d.action.new_tokens for e in episodes for d in e.decisions()),
        seconds=round(seconds, 3),
        scoring_seconds=round(time.perf_counter() - began, 3),
    )
    return result.model_copy(update={"advice": tuple(give_advice(result))})


def groups_of(problems: Sequence[Problem], episodes: Sequence[Episode]) -> dict[str, list[Episode]]:
    """Return the complete episodes of each problem that has some, in the order of their samples."""
    complete = [e for e in episodes if e.joint_return is not None]
    groups = group_by(sorted(complete, key=attrgetter("sample")), attrgetter("task"))
    return {p.address: groups[p.address] for p in problems if p.address in groups}


async def _crossed_results(scored: Sequence[ScoredGroup], agents: Sequence[str]) -> Crossed | None:
    """Return the measures of `cross`, or None if nothing is crossed."""
    groups = [item.group for item in scored]
    n_agents = max((len(g.episodes[0].turns[0].contributions) for g in groups), default=1)
    if n_agents < 2:
        return None
    size = max(len(group.episodes) for group in groups)
    fits = max_combinations(size, n_agents, "all") <= MAX_COMBINATIONS
    cross = Cross(shifts="all" if fits else None)
    weights, measures = await cross.credit(groups), cross.measures()
    return Crossed(
        scored=sum(len(item.further) for item in scored),
        failed=sum(len(item.joint.failures) for item in scored),
        forms=dict(scored[0].forms),
        dead=sum(map(is_dead, weights)),
        own=variance_shares(measures, names.CREDIT_OWN, agents),
        influence=variance_shares(measures, names.CREDIT_INFLUENCE, agents),
        interaction=measures.get(names.CREDIT_INTERACTION),
    )


def _best_of_samples(scored: Sequence[ScoredGroup]) -> Best | None:
    if not scored:
        return None
    largest = max(score.maximum for item in scored for score in item.played)
    every = [[*item.played, *item.further] for item in scored]
    combined = all(item.combinations for item in scored)
    played = [item.played for item in scored]
    return Best(
        samples=max(map(len, played)),
        combinations=max(item.combinations or 0 for item in scored) if combined else None,
        reward=task_mean([max(s.reward for s in scores) for scores in played], largest),
        reward_combined=task_mean([max(s.reward for s in scores) for scores in every], largest)
        if combined
        else None,
        solved=share_solved(played, any),
        solved_combined=share_solved(every, any) if combined else None,
    )


def _agent_results(recipe: Recipe, name: str, groups: Groups) -> AgentProbe:
    decisions = {t: [d for e in group for d in e.decisions(name)] for t, group in groups.items()}
    lengths = [d.action.new_tokens for each in decisions.values() for d in each]
    cut = [[d.action.is_truncated for d in each] for each in decisions.values()]
    empty = [
        [not t.artifacts[name].strip() for e in group for t in e.turns if name in t.artifacts]
        for group in groups.values()
    ]
    return AgentProbe(
        model=str(getattr(recipe.model_of(name), "name", recipe.model_of(name).engine)),
        untrainable=why_untrainable(recipe, name),
        responses=len(lengths),
        tokens=mean(lengths),
        limit=recipe.sampling_of(name).max_new_tokens,
        truncated=task_mean([mean(each) for each in cut if each], 1.0),
        empty=task_mean([mean(each) for each in empty if each], 1.0),
    )


@dataclass
class ScoredGroup:
    """One task's group, and the joint actions of its answers in the first turn."""

    group: Group
    forms: Mapping[str, CreditForm]
    played: list[Score]
    joint: Combinations
    further: list[Score]
    """Scores of combinations that were not played."""
    combinations: int | None
    """Number of combinations of the answers if each was scored, otherwise None."""


async def score_groups(
    recipe: Recipe, played: Sequence[tuple[Problem, Sequence[Episode]]], *, crosses: bool
) -> list[ScoredGroup]:
    """Return the groups of complete episodes, with combinations scored if `crosses`.

    No model is called.
    """
    one_turn = recipe.model_copy(update={"team": recipe.team.model_copy(update={"turns": 1})})
    async with Sandbox(recipe.sandbox) as sandbox:
        scorer = JointScorer(one_turn, sandbox)
        return [await _score_group(recipe, scorer, *item, crosses=crosses) for item in played]


async def _score_group(
    recipe: Recipe,
    scorer: JointScorer,
    problem: Problem,
    episodes: Sequence[Episode],
    *,
    crosses: bool,
) -> ScoredGroup:
    further: list[Score] = []

    async def score(problem: Problem, artifacts: Mapping[str, str]) -> Score:
        further.append(await scorer.score(problem, artifacts))
        return further[-1]

    spec = (recipe.trainer or TrainerSpec()).model_copy(update={"turn_structure": "chains"})
    joint = Combinations(problem, episodes, spec, score)
    shape = Shape("chains", len(episodes), recipe.team.turns)
    group = group_of(episodes, tuple(recipe.team.agents), spec, shape, ask=joint.score)
    nodes = [(number, 0) for number in range(len(episodes))]
    by_agent = forms(group, nodes)
    team = list(episodes[0].turns[0].contributions)
    combinations = len(nodes) ** len(team)
    crossed = len(team) > 1 and all(by_agent[name] == "crossed" for name in team)
    every = crosses and crossed and combinations <= MAX_COMBINATIONS
    if every:
        choices = product(range(len(nodes)), repeat=len(team))
        await group.score(nodes, [dict(zip(team, choice, strict=True)) for choice in choices])
    played = [s for e in episodes if (s := e.turns[0].score) is not None]
    return ScoredGroup(group, by_agent, played, joint, further, combinations if every else None)


def variance_shares(
    measures: Mapping[str, float], pattern: str, agents: Sequence[str]
) -> dict[str, float]:
    """Return the shares of the variance by agent, from the measures that match `pattern`."""
    by_agent = {agent: measures.get(names.fill_pattern(pattern, agent)) for agent in agents}
    return {agent: value for agent, value in by_agent.items() if value is not None}


def _game_results(recipe: Recipe, groups: Groups, *, crosses: bool) -> GameProbe | None:
    """Return the part of the results that only games have."""
    if recipe.environment is None:
        return None
    whole = [episode for group in groups.values() for episode in group]
    zero_sum = class_of(recipe.environment).zero_sum
    unequal = zero_sum or any(t.score.by_agent for e in whole for t in e.turns if t.score)
    ends = [part.name for e in whole if e.score for part in e.score.parts]
    return GameProbe(
        zero_sum=zero_sum,
        crosses=crosses,
        returns={
            a: _mean_over_tasks(groups, Episode.return_of, a) for a in recipe.team.agents if unequal
        },
        at_end={
            name: _mean_over_tasks(groups, lambda e, name: part_value(name, e.score), name)
            for name in dict.fromkeys(ends)
        },
    )


def best_game(groups: Groups) -> Best | None:
    """Return the best of each task's games.

    The result is None if there is no group, or if the joint return is not informative, as in a
    zero-sum game.
    """
    largest = max(
        (e.largest_return or 0.0 for group in groups.values() for e in group), default=0.0
    )
    groups = {task: group for task, group in groups.items() if len(group) > 1}
    if not groups or largest <= 0:
        return None
    returns = [[e.joint_return or 0.0 for e in group] for group in groups.values()]
    scores = [[e.score for e in group if e.score] for group in groups.values()]
    return Best(
        samples=max(map(len, returns)),
        whole_games=True,
        combinations=None,
        reward=task_mean([max(each) for each in returns], largest),
        solved=share_solved(scores, any),
    )


def _mean_over_tasks(
    groups: Groups, value: Callable[[Episode, str], float | None], name: str
) -> Estimate:
    by_task = [[v for e in group if (v := value(e, name)) is not None] for group in groups.values()]
    means = [mean(each) for each in by_task if each]
    return task_mean(means, max(1.0, *means) if means else 1.0)


def task_mean(values: Sequence[float], largest: float) -> Estimate:
    """Return the mean over tasks with its interval. Penalties may make a value negative."""
    return (
        estimate_mean(values, largest)
        if values
        else Estimate(mean=0.0, low=0.0, high=largest, tasks=0)
    )


def share_solved(
    groups: Iterable[Sequence[Score | None]], aggregate: Callable[[list[bool]], float]
) -> Estimate | None:
    """Return the mean over tasks of the share of solved episodes (`mean`), or of whether one is
    solved (`any`). The result is None if no reward defines `solved`."""
    known = [[s.solved for s in group if s and s.solved is not None] for group in groups]
    values = [float(aggregate(each)) for each in known if each]
    return task_mean(values, 1.0) if values else None


T = TypeVar("T")


def training_addresses(recipe: Recipe, addresses: Sequence[str]) -> list[str]:
    """Return the given addresses, or the training tasks in place of a whole suite."""
    task = recipe.task
    if task is None or (addresses and [split_address(each)[1] for each in addresses] != [""]):
        return list(addresses)
    selection = training_selection(task, recipe.trainer)
    return [f"{task.name}/{selection}"] if selection else list(addresses)


def draw_problems(problems: Sequence[T], largest: int, seed: int) -> list[T]:
    """Return up to `largest` problems, drawn by the seed, in their original order."""
    if len(problems) <= largest:
        return list(problems)
    chosen = random.Random(f"{seed}|probe").sample(range(len(problems)), largest)
    return [problems[number] for number in sorted(chosen)]


MIN_TASKS = 5
MAX_FAILED_SHARE, MAX_DEAD_SHARE, MAX_TRUNCATED_SHARE, MAX_EMPTY_SHARE = 0.1, 0.5, 0.2, 0.3
MAX_MEAN_SHARE = 0.9
"""Share of the largest return above which tasks are too easy."""
MIN_REVIVED_SHARE = 0.2
"""Share of the groups that are dead as played, but not when crossed."""


def give_advice(probe: TeamProbe) -> Iterator[str]:
    """Yield the suggestions, or a note that there is none, and notes on games and intervals."""
    advices = [
        *_task_advice(probe),
        *_dead_group_advice(probe),
        *_agent_advice(probe),
        *_credit_advice(probe),
    ]
    yield from advices or ["no problem found: this team can be trained with these settings"]
    yield from _game_notes(probe)
    if 0 < len(probe.tasks) < MIN_TASKS:
        yield (
            f"the intervals are wide with {counted(len(probe.tasks), 'task')}; probe more (--tasks)"
        )


def _task_advice(probe: TeamProbe) -> Iterator[str]:
    share = probe.failed / probe.episodes if probe.episodes else 0.0
    if share > MAX_FAILED_SHARE:
        yield (
            f"{probe.failed} of {counted(probe.episodes, 'episode')} failed, and training skips"
            f" failed episodes; first failure: {probe.failure}"
        )
    best = None if probe.solved and probe.solved.mean else probe.best  # `best` is of the first turn
    if best and (solved := best.solved_combined or best.solved) and solved.mean == 0:
        what = f"{best.samples} samples"
        if best.solved_combined and best.combinations:
            what = f"{best.combinations} combinations"
        yield (
            f"the best of {what} solves none of {solved.tasks} tasks; use easier tasks, a warm"
            " start, a stronger model, or a reward that pays for partial solutions"
        )
    if probe.maximum > 0 and probe.mean.mean > MAX_MEAN_SHARE * probe.maximum:
        yield (
            f"the mean return is already {probe.mean.mean / probe.maximum:.0%} of the maximum, so"
            " there is little left to learn; use harder tasks"
        )


def _dead_group_advice(probe: TeamProbe) -> Iterator[str]:
    groups, crossed = len(probe.tasks), probe.crossed
    if not groups:
        return
    revived = probe.dead - crossed.dead if crossed else 0
    if probe.dead > MAX_DEAD_SHARE * groups:
        text = (
            f"{probe.dead} of {counted(groups, 'group')} had equal returns, which give no gradient;"
            " raise samples (trainer.group_size) or the temperature, or choose easier or harder"
            " tasks"
        )
        if crossed and revived <= MIN_REVIVED_SHARE * groups:
            text += f"; scoring all combinations leaves {crossed.dead} dead"
        yield text
    if crossed and revived > MIN_REVIVED_SHARE * groups:
        yield (
            f"scoring all combinations leaves {crossed.dead} of {counted(groups, 'group')} dead"
            f" instead of {probe.dead}, without more tokens; train with `algorithm: cross`"
        )


def _agent_advice(probe: TeamProbe) -> Iterator[str]:
    for name, agent in probe.agents.items():
        if agent.truncated.mean > MAX_TRUNCATED_SHARE and agent.limit > 1 and agent.tokens > 2:
            yield (
                f"{agent.truncated.mean:.0%} of the responses of `{name}` are truncated at"
                f" {agent.limit} tokens; raise agents.{name}.sampling.max_new_tokens, or ask for"
                " shorter answers"
            )
        if agent.empty.mean > MAX_EMPTY_SHARE:
            yield (
                f"the parser found nothing in {agent.empty.mean:.0%} of the answers of `{name}`;"
                " check its prompt and parser"
            )
        if agent.untrainable:
            yield f"`{name}` takes part but cannot be trained: {agent.untrainable}"


def _credit_advice(probe: TeamProbe) -> Iterator[str]:
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


def _game_notes(probe: TeamProbe) -> Iterator[str]:
    """Yield notes on games: what the probe leaves out, and how agents learn in them."""
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
