"""Checks whether a recipe can be trained, before any model is loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import itemgetter
from pathlib import Path

from collab.agents import join_for, parser_for
from collab.environments.library import class_of
from collab.errors import RecipeError, UnknownName
from collab.feedback.plain import Plugin
from collab.models.vllm.adapter_files import check_servable, is_adapter, served_rank
from collab.recipe import Recipe, TrainerSpec
from collab.recipe.feedback import PluginFeedbackSpec
from collab.recipe.model import VLLMSpec, local_weights
from collab.rewards import Scorer
from collab.runtime.prompt_check import PromptCheck, check_prompts
from collab.trainers.credit import algorithm_for
from collab.trainers.training.data import TaskOrder, max_turns, phases
from collab.trainers.training.trackers import check_trackers
from collab.wording import counted, format_option

COLD_TEMPERATURE = 0.5
"""Below this temperature, the episodes of a group hardly differ."""


def check_recipe(recipe: Recipe) -> TrainerSpec:
    """Return the trainer of a recipe, after checking that it can be trained.

    Raises:
        RecipeError: the recipe cannot be trained. The message gives the value and the remedy.
    """
    if recipe.trainer is None:
        raise RecipeError(
            f"the recipe has no trainer; add one, e.g. {format_option('trainer', 'magrpo')}"
        )
    recipe.check_scored()
    spec = recipe.trainer
    trained = recipe.team.trained
    if not trained:
        raise RecipeError(
            "no agent of the team is trainable; set agents.NAME.trainable=true for one"
        )
    for name in trained:
        _check_agent(recipe, name)
        _check_sampler(recipe, name, spec)
    _check_staleness(recipe, spec, trained)
    _check_algorithm(recipe, spec)
    _check_functions(recipe)
    check_trackers(spec.report_to)
    _check_local_parts(recipe, spec)
    _check_game(recipe, spec)
    return spec


def _check_functions(recipe: Recipe) -> None:
    """Load the user's functions, so that mistakes in them are reported before any work."""
    join_for(recipe.team.join)
    for agent in recipe.team.agents.values():
        parser_for(agent.parser)
    if recipe.reward is not None:
        Scorer(recipe.reward, None, agents=recipe.team.agents)
    for feedback in recipe.team.feedback:
        if isinstance(feedback, PluginFeedbackSpec):
            Plugin(feedback)


def _check_algorithm(recipe: Recipe, spec: TrainerSpec) -> None:
    algorithm = algorithm_for(spec.algorithm)
    algorithm.check(recipe, spec)
    if spec.normalize == "group" and not algorithm.is_centered:
        raise RecipeError(
            f"algorithm '{spec.algorithm.use}' has a baseline from other steps, so normalize"
            " 'group' would give the largest weights to groups whose rewards hardly differ; set"
            " normalize to 'none' or 'step'"
        )
    if algorithm.compares and spec.group_size == 1:
        raise RecipeError(
            f"group_size 1 leaves '{spec.algorithm.use}' nothing to compare an episode with, so"
            " every advantage is 0; set group_size to 2 or more, or algorithm to 'mareinforce'"
        )


def why_untrainable(recipe: Recipe, name: str) -> str | None:
    """Return why an agent cannot be trained, with the remedy, or None if it can."""
    if not recipe.team.agents[name].trainable:
        return "trainable is false"
    model = recipe.model_of(name)
    weights = local_weights(model)
    if weights is None:
        return (
            f"its engine '{model.engine}' has no weights here; set agents.{name}.trainable=false,"
            " or give it a local model"
        )
    if weights.dtype == "float16":
        return (
            f"in float16, small gradients become 0; set {recipe.key_of_model(name)}.dtype to"
            f" bfloat16 or float32, or agents.{name}.trainable=false"
        )
    if weights.load_in and recipe.trainer and recipe.trainer.policies == "full":
        return (
            f"the weights of a whole model in {weights.load_in} are frozen; set trainer.policies to"
            " 'adapters', or leave out load_in"
        )
    return None


def _check_agent(recipe: Recipe, name: str) -> None:
    if why := why_untrainable(recipe, name):
        raise RecipeError(f"agent '{name}' cannot be trained: {why}")
    sampling = recipe.sampling_of(name)
    if sampling.temperature == 0:
        raise RecipeError(
            f"agent '{name}' samples at temperature 0, so all episodes of a group are equal; set"
            f" agents.{name}.sampling.temperature=1.0"
        )
    kl_coef = recipe.trainer.kl_coef if recipe.trainer else 0.0
    if kl_coef and sampling.limits_tokens:
        raise RecipeError(
            f"agent '{name}' samples with top_p {sampling.top_p:g} and top_k {sampling.top_k}, and"
            f" trainer.kl_coef is {kl_coef:g}, but the KL divergence of truncated distributions is"
            " infinite; set kl_coef to 0, or top_p=1.0 and top_k=0"
        )


def _check_sampler(recipe: Recipe, name: str, spec: TrainerSpec) -> None:
    """Check a separate sampling engine, which supports only adapters of certain shapes."""
    if not isinstance(recipe.model_of(name), VLLMSpec):
        return
    if spec.policies == "full":
        raise RecipeError(
            f"agent '{name}' runs in vllm, which can load trained adapters but not whole models"
            " (trainer.policies 'full'); set trainer.policies to 'adapters', or"
            f" {recipe.key_of_model(name)}.engine to 'transformers'"
        )
    served_rank(spec.lora.rank)
    start = recipe.team.agents[name].adapter
    if start is not None and is_adapter(Path(start)):
        check_servable(Path(start))


def _check_staleness(recipe: Recipe, spec: TrainerSpec, trained: Sequence[str]) -> None:
    """Check samplers that work during learning: they need their own weights and must not sleep."""
    learned = [local_weights(recipe.model_of(name)) for name in trained]
    for name in recipe.team.agents if spec.max_staleness else ():
        model = recipe.model_of(name)
        key = recipe.key_of_model(name)
        if model in learned:
            raise RecipeError(
                f"max_staleness {spec.max_staleness} samples the next step while one is learned,"
                f" but agent '{name}' samples with the weights that are being trained (engine"
                f" transformers); set {key}.engine to 'vllm', or trainer.max_staleness to 0"
            )
        if isinstance(model, VLLMSpec) and model.sleep:
            raise RecipeError(
                f"{key}.sleep frees the GPU while a step is learned, but with max_staleness"
                f" {spec.max_staleness} the next step is sampled at that time; remove {key}.sleep,"
                " or set trainer.max_staleness to 0"
            )


def _check_local_parts(recipe: Recipe, spec: TrainerSpec) -> None:
    parts = recipe.reward.parts if recipe.reward else {}
    for agent, names in spec.local_parts.items():
        if agent not in recipe.team.agents:
            raise UnknownName("agent in trainer.local_parts", agent, recipe.team.agents)
        for name in names:
            if name not in parts:
                raise UnknownName(f"reward part in trainer.local_parts.{agent}", name, parts)


def _check_game(recipe: Recipe, spec: TrainerSpec) -> None:
    """Refuse to score more joint actions in games of several turns, because no state is kept."""
    if recipe.environment is None:
        return
    if spec.turn_structure == "greedy" and class_of(recipe.environment).zero_sum:
        raise RecipeError(
            "turn_structure 'greedy' continues from the largest joint reward, which is always 0"
            " in a zero-sum game; set turn_structure to 'chains' or 'tree'"
        )
    turns = max_turns(recipe, spec)
    if algorithm_for(spec.algorithm).scores_unplayed and turns > 1:
        raise RecipeError(
            f"algorithm '{spec.algorithm.use}' scores combinations of answers, but in a"
            f" game of {turns} turns their value depends on earlier turns; set algorithm to"
            " e.g. 'marloo' or 'rae'"
        )


def check_phase_prompts(recipe: Recipe, spec: TrainerSpec, tasks: TaskOrder) -> PromptCheck:
    """Check the prompts of every phase, and return the check of the phase with the most turns."""
    problems = [*tasks.training, *tasks.held_out]
    played = [
        (phase.team.turns, check_prompts(phase, problems)) for _, phase in phases(recipe, spec)
    ]
    longest = max(played, key=itemgetter(0))[1]
    return replace(longest, warnings=(*longest.warnings, *_temperature_warnings(recipe, spec)))


def _temperature_warnings(recipe: Recipe, spec: TrainerSpec) -> Iterator[str]:
    """Yield a warning if samples are too similar to learn from."""
    by_agent = {name: recipe.sampling_of(name).temperature for name in recipe.team.trained}
    cold = {name: t for name, t in by_agent.items() if t < COLD_TEMPERATURE}
    if cold and spec.learn_from is None:
        temperatures = ", ".join(f"{t:g}" for t in sorted({*cold.values()}))
        yield (
            f"{', '.join(cold)}: at temperature {temperatures}, the episodes of a group hardly"
            " differ and teach little; set sampling.temperature=0.8, or"
            " agents.NAME.sampling.temperature for an agent that has its own"
        )


def describe_trainer(recipe: Recipe, spec: TrainerSpec, tasks: TaskOrder) -> str:
    """Return the settings that decide a training run: algorithm, sizes of a step, learning rate,
    temperatures and models.
    """
    temperatures = sorted({recipe.sampling_of(name).temperature for name in recipe.team.trained})
    models = sorted({recipe.model_of(name).name for name in recipe.team.trained})
    per_step = min(spec.tasks_per_step, len(tasks.training))
    noun = "recorded episode" if tasks.recorded else "sample"
    most = "at most " if tasks.recorded else ""
    return (
        f"{spec.algorithm.use}: {counted(per_step, 'task')} per step,"
        f" {most}{counted(spec.group_size, noun)} per task, learning rate {spec.rate:g},"
        f" temperature {', '.join(f'{t:g}' for t in temperatures)}, {', '.join(models)}"
    )
