"""Episodes of an earlier run, to learn from or to measure by."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from collab.errors import RecipeError, RecordError
from collab.recipe import Recipe, TrainerSpec
from collab.records import Episode
from collab.records.reading import key_of
from collab.runs.layout import EPISODES
from collab.runs.reading import each_once, read_whole_lines
from collab.trainers.credit import algorithm_for
from collab.trainers.credit.sft import Sft
from collab.trainers.training.rollouts import whole
from collab.wording import counted

Recorded = Mapping[str, tuple[Episode, ...]]
"""Episodes by task."""


def recorded_episodes(name: str, key: str) -> list[Episode]:
    """The episodes of a run's folder or an `episodes.jsonl`, in their order there.

    `key` is that of the setting that names it, for messages.

    Raises:
        RecordError: there are none, or not all of them can be read.
    """
    path = Path(name)
    file = path / EPISODES if path.is_dir() else path
    if not file.is_file():
        raise RecordError(
            f"{key}: {name} is neither a run's folder nor a file of episodes; give one that has"
            f" {EPISODES}"
        )
    episodes, complaints = read_whole_lines(file, Episode)
    if complaints:
        raise RecordError(f"{key}: {complaints[0]}; mend or remove that line")
    if not episodes:
        raise RecordError(f"{key}: {file} holds no episode")
    return list(each_once(episodes, key_of))


def kept_episodes(recipe: Recipe, spec: TrainerSpec, tasks: Collection[str]) -> Recorded:
    """By task, the episodes of `trainer.episodes` that are learned from; those of `tasks` alone.

    Raises:
        RecordError: they cannot be read, or none is left.
        RecipeError: a trained agent has no response in them.
        TrainingError: they do not say what is solved.
    """
    assert spec.episodes is not None, "the trainer names some"
    rule = algorithm_for(spec.algorithm)
    assert isinstance(rule, Sft), "the recipe was checked"
    found = recorded_episodes(spec.episodes, "trainer.episodes")
    own = [episode for episode in whole(found) if episode.task in tasks]
    kept: dict[str, list[Episode]] = {}
    for episode in own:
        if rule.keeps(episode):
            kept.setdefault(episode.task, []).append(episode)
    if not kept:
        raise RecordError(
            f"trainer.episodes: nothing is left to learn from: of"
            f" {counted(len(found), 'episode')} in {spec.episodes}, {len(own)} are whole and of the"
            " tasks that are trained on, and none of these is solved, or above the bound of"
            " trainer.algorithm; take others, or set its option above"
        )
    _check_agents(recipe, kept)
    return {task: tuple(episodes) for task, episodes in kept.items()}


def _check_agents(recipe: Recipe, kept: Mapping[str, Sequence[Episode]]) -> None:
    turns = [turn for episodes in kept.values() for e in episodes for turn in e.turns]
    heard = {decision.agent for turn in turns for decision in turn.decisions}
    for name, agent in recipe.team.agents.items():
        if agent.trainable and name not in heard:
            raise RecipeError(
                f"trainer.episodes has no response of agent '{name}' (it has: "
                f"{', '.join(sorted(heard))}); give the agent that name, or set"
                f" agents.{name}.trainable=false"
            )


def chosen(episodes: Sequence[Episode], most: int, visit: int) -> list[Episode]:
    """Those of a task's episodes that are learned from at its `visit`-th turn, counted from 0.

    All of them, or the next `most`.
    """
    if len(episodes) <= most:
        return list(episodes)
    first = visit * most
    return [episodes[(first + n) % len(episodes)] for n in range(most)]
