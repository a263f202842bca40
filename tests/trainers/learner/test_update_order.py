"""Agents that learn one after the other (HAPPO), or one at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import exp, log
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from pydantic import ValidationError
from support.rule_runs import check_resume
from support.trainer_recipes import make_game

from collab.errors import RecipeError
from collab.recipe import TrainerSpec, load_recipe
from collab.records import Sampling
from collab.trainers.credit import Group, Weights, algorithm_for
from collab.trainers.credit.games import Game, gradient, outcomes
from collab.trainers.credit.games.estimate import gradient_of
from collab.trainers.credit.step_credit import Credit
from collab.trainers.learner.learner import TorchLearner
from collab.trainers.learner.logprobs import logprobs_of
from collab.trainers.learner.policy import Policies, Policy, open_policies
from collab.trainers.learner.samples import Sample, make_samples
from collab.trainers.learner.update_order import CompoundRatios, updated_at
from collab.trainers.training.check import check_recipe

pytestmark = pytest.mark.slow

SEQUENTIAL = TrainerSpec(update_order="sequential", compound_ratio_cap=None)
SAMPLINGS = {"a": Sampling(), "b": Sampling()}


def a_policy(agent: str) -> Policy:
    """The name and the agent of a policy, where no model is asked."""
    return SimpleNamespace(name=agent, agents=(agent,))  # type: ignore[return-value]


def a_game(*, sees: bool) -> Game:
    rng = np.random.default_rng(2)
    logits = {("a", 0, 0): rng.normal(size=3)}
    logits["b", 0, 0] = rng.normal(size=(3, 2) if sees else 2)
    return Game(("a", "b"), (rng.normal(size=(3, 2)),), logits, sees={"b": ("a",)} if sees else {})


def weighed(group: Group, weights: Weights, first: str, old: Game, new: Game) -> Weights:
    """The weights after `first` has moved from the old game's policy to the new one's."""
    samples = make_samples(Credit([group], [weights]), SAMPLINGS, SEQUENTIAL)
    told = iter([old, new])

    def measure(_: Policy, own: Sequence[Sample]) -> list[float]:
        policies = next(told).policies
        return [log(policies[s.agent, 0, 0][(*s.prompt_ids[2:], s.token_ids[0])]) for s in own]

    ratios = CompoundRatios(SEQUENTIAL, measure)
    second = "b" if first == "a" else "a"
    with ratios.following(a_policy(first), samples, later=[a_policy(second)]):
        pass
    return {(s.joint[1], s.joint[2], s.agent): s.weight for s in ratios.weighed(samples)}


@pytest.mark.parametrize("sees", [False, True])
@pytest.mark.parametrize(("first", "second"), [("a", "b"), ("b", "a")])
@pytest.mark.parametrize("rule", ["marloo", "coma"])
def test_the_second_agent_follows_the_gradient_where_the_first_has_moved(
    sees: bool, first: str, second: str, rule: str
) -> None:
    old, algorithm = a_game(sees=sees), algorithm_for(TrainerSpec(algorithm=rule).algorithm)
    step = np.random.default_rng(9).normal(size=old.logits[first, 0, 0].shape)
    moved = {**old.logits, (first, 0, 0): old.logits[first, 0, 0] + step}
    new, found = replace(old, logits=moved), old.zeros()[second]
    for chance, group in outcomes(old, 2):
        [weights] = asyncio.run(algorithm.credit([group]))
        given = weighed(group, weights, first, old, new)
        found += chance * gradient_of(old, group, given)[second]
    assert found == pytest.approx(gradient(new)[second], abs=1e-12)
    assert np.abs(found - gradient(old)[second]).max() > 1e-3


def test_the_compound_ratio_is_of_the_whole_joint_action_and_capped() -> None:
    spec = TrainerSpec(update_order="sequential", compound_ratio_cap=2.0)

    def sample(agent: str, episode: int, weight: float) -> Sample:
        return Sample(agent, (1,), (2, 3), (0.0, 0.0), 1.0, weight, 1.0, joint=(0, episode, 0))

    samples = [sample(agent, n, w) for agent in "abc" for n, w in enumerate((1.0, -2.0, 0.0))]
    # by response, before and after: a gets log 1.5 and log 9 likelier, b log 1.2 and log 9
    told = iter([[-5.0, -5.0], [-5 + log(1.5), -5 + log(9)], [-1.0, -1.0], [-1 + log(1.2), 1.2]])
    asked: list[list[int]] = []

    def measure(_: Policy, own: Sequence[Sample]) -> list[float]:
        asked.append([s.joint[1] for s in own])
        return next(told)

    ratios = CompoundRatios(spec, measure)
    assert ratios.weighed(samples) == samples, "nobody has moved yet"
    for agent, later in (("a", "bc"), ("b", "c")):
        with ratios.following(a_policy(agent), samples, later=[a_policy(name) for name in later]):
            pass
    assert asked == [[0, 1]] * 4, "nobody learns from the third joint action"
    found = [s.weight for s in ratios.weighed(samples) if s.agent == "c"]
    assert found == pytest.approx([1.5 * 1.2, 2.0 * -2.0, 0.0])


def test_the_order_is_drawn_anew_at_every_step_from_the_seed() -> None:
    policies = [a_policy(name) for name in "abc"]
    spec = TrainerSpec(update_order="sequential")
    orders = [[p.name for p in updated_at(n, policies, spec, 1)] for n in range(40)]
    assert len({tuple(order) for order in orders}) == 6
    assert orders == [[p.name for p in updated_at(n, policies, spec, 1)] for n in range(40)]
    assert orders != [[p.name for p in updated_at(n, policies, spec, 2)] for n in range(40)]
    alternating = TrainerSpec(update_order="alternating", alternate_every=2)
    assert [updated_at(n, policies, alternating, 1)[0].name for n in range(7)] == list("aabbcca")


def learned(policies: Policies, samples: Sequence[Sample], spec: TrainerSpec) -> dict[str, Any]:
    """By policy: its parameters after one step."""
    learner = TorchLearner(policies, spec, total_steps=1, seed=0)
    learner.learn(samples, 0, Event())
    return {p.name: [q.detach().clone() for q in p.parameters.values()] for p in policies}


def test_the_learner_does_what_happo_says(tiny_words: Path, tmp_path: Path) -> None:
    """Step by step by hand: the first as ever, then the second with the ratio of the first."""
    options: dict[str, Any] = {"learning_rate": 0.1, "kl_coef": 0.0}
    recipe = make_game(tiny_words, tmp_path, update_order="sequential", **options)
    plain = make_game(tiny_words, tmp_path, **options).trainer
    assert recipe.trainer is not None
    assert plain is not None
    policies = open_policies(recipe, recipe.trainer)
    begun = {p.name: [q.detach().clone() for q in p.parameters.values()] for p in policies}

    def back_to_the_start() -> None:
        for policy in policies:
            for parameter, value in zip(
                policy.parameters.values(), begun[policy.name], strict=True
            ):
                parameter.data.copy_(value)

    rng = np.random.default_rng(0)
    raw = [
        Sample(agent, (1, 2), tuple(rng.integers(0, 9, size=3).tolist()), (), 1.0, w, 0.25, joint=j)
        for agent in "ab"
        for w, j in ((1.0, (0, 0, 0)), (-0.5, (0, 1, 0)), (0.3, (1, 0, 0)))
    ]
    samples = [replace(s, logprobs=logprobs_of(policies.by_name[s.agent], [s], 64)[0]) for s in raw]
    found = learned(policies, samples, recipe.trainer)
    first, second = (p.name for p in updated_at(0, list(policies), recipe.trainer, 0))

    back_to_the_start()
    theirs = [s for s in samples if s.agent == first]
    by_hand = learned(policies, theirs, plain)
    after = logprobs_of(policies.by_name[first], theirs, 64)
    ratios = {
        s.joint: min(2.0, max(0.5, exp(sum(new) - sum(s.logprobs))))
        for s, new in zip(theirs, after, strict=True)
    }
    assert max(abs(ratio - 1) for ratio in ratios.values()) > 0.05
    own = [replace(s, weight=s.weight * ratios[s.joint]) for s in samples if s.agent == second]
    by_hand = learned(policies, own, plain) | {first: by_hand[first]}
    for name in (first, second):
        for one, other in zip(found[name], by_hand[name], strict=True):
            assert torch.allclose(one, other, atol=1e-6)
            assert name == second or torch.equal(one, other)
    asyncio.run(policies.aclose())


def trainer_named(name: str, **changes: Any) -> dict[str, Any]:
    spec = load_recipe("coding", task="humaneval", trainer=name).trainer
    assert spec is not None
    return {**spec.model_dump(exclude={"name", "description"}, exclude_unset=True), **changes}


def test_happo_trains_and_goes_on_bit_by_bit(tiny_words: Path, tmp_path: Path) -> None:
    trainer = trainer_named("happo")
    rows = check_resume(trainer.pop("algorithm"), tiny_words, tmp_path, **trainer)
    orders = [(row["update_order/a"], row["update_order/b"]) for row in rows]
    assert set(orders) <= {(1, 2), (2, 1)}
    for row in rows:
        of_a, of_b = (row[f"compound_ratio/{agent}"] for agent in "ab")
        first, second = (of_a, of_b) if row["update_order/a"] == 1 else (of_b, of_a)
        assert first == 1.0
        assert second != 1.0


def test_those_who_wait_for_their_turn_stay_bit_by_bit(tiny_words: Path, tmp_path: Path) -> None:
    trainer = trainer_named("alternating", alternate_every=1, keep_checkpoints=9)
    rows = check_resume(trainer.pop("algorithm"), tiny_words, tmp_path, **trainer)
    assert [[key for key in row if key.startswith("loss/")] for row in rows] == [
        ["loss/a"],
        ["loss/b"],
        ["loss/a"],
    ]
    folders = sorted((tmp_path / "whole" / "checkpoints").glob("step-*"))
    saved = [
        {p.parent.name: p.read_bytes() for p in folder.glob("policies/*/*.safetensors")}
        for folder in folders
    ]
    changed = [
        {name for name in "ab" if before[name] != after[name]} for before, after in pairwise(saved)
    ]
    assert changed == [{"a"}, {"b"}, {"a"}]


@pytest.mark.parametrize(
    "algorithm",
    [
        "cross",
        "shapley",
        "sft",
    ],
)
def test_weights_that_are_of_no_played_joint_action_are_refused(
    tiny_words: Path, tmp_path: Path, algorithm: Any
) -> None:
    recipe = make_game(tiny_words, tmp_path, algorithm=algorithm, update_order="sequential")
    with pytest.raises(RecipeError, match="set update_order to 'simultaneous'"):
        check_recipe(recipe)


def test_shared_parameters_have_no_order() -> None:
    with pytest.raises(ValidationError, match="set policies to 'adapters'"):
        TrainerSpec(update_order="sequential", policies="shared_adapter")
