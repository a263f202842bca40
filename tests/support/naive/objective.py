"""Every objective, written token by token in float64, as plainly as possible."""

import math
from collections.abc import Collection, Sequence
from math import sqrt
from typing import Any

import torch
from torch import Tensor

from collab.recipe import TrainerSpec
from collab.records import (
    Action,
    Decision,
    Episode,
    Message,
    PartScore,
    Sampling,
    Score,
    Turn,
    WhenSolved,
)

SAMPLER_NOISE = 0.3
"""Difference, in nats, between the fake sampler's log-probs and the model's."""


def draw(generator: torch.Generator, vocabulary: int, count: int) -> tuple[int, ...]:
    return tuple(torch.randint(0, vocabulary - 5, (count,), generator=generator).tolist())


def action(
    generator: torch.Generator, vocabulary: int, prompt: tuple[int, ...], response: int
) -> Action:
    """A response of random tokens; every other length ends with the end-of-turn token."""
    ids = draw(generator, vocabulary, response)
    ends = response % 2 == 0
    if ends:
        ids = (*ids[:-1], vocabulary - 5)
    return Action(
        text="",
        token_ids=ids,
        prompt_ids=prompt,
        logprobs=(0.0,) * response,
        finish_reason="stop" if ends else "length",
    )


def episodes(
    vocabulary: int,
    *,
    samples: int,
    n_turns: int = 2,
    rounds: int = 1,
    steps: int = 1,
    solved: Collection[int] = (2,),
    when_solved: WhenSolved = "absorb",
) -> list[Episode]:
    """Hand-made episodes of two agents with different lengths and rewards; some end early.

    All start with the same prompts; later prompts continue an agent's own history. Between the
    `steps` of one move there are tokens of a tool.
    """
    generator = torch.Generator().manual_seed(7)
    first = {agent: draw(generator, vocabulary, n) for agent, n in (("a", 5), ("b", 3))}
    found = []
    for sample in range(samples):
        turns = []
        history = dict(first)
        for turn in range(1 if sample in solved else n_turns):
            decisions = []
            for number in range(rounds):
                for place, agent in enumerate(("a", "b")):
                    for step in range(steps):
                        length = 1 + (3 * sample + place + 2 * step) % 7
                        decision = Decision(
                            agent=agent,
                            round=number,
                            step=step,
                            observation=(Message(role="user", content=""),),
                            action=action(generator, vocabulary, history[agent], length),
                        )
                        decisions.append(decision)
                        tool_tokens = draw(generator, vocabulary, 1 + (sample + turn) % 4)
                        history[agent] += decision.action.token_ids + tool_tokens
            points = [((5 * sample + 3 * turn + 2 * n) % 7) / 7 for n in range(2)]
            parts = tuple(
                PartScore(name=name, level=name, value=value, weight=2.0, reason="")
                for name, value in zip(("own_a", "own_b"), points, strict=True)
            )
            score = Score(
                reward=sum(p.points for p in parts),
                maximum=4.0,
                solved=sample in solved,
                parts=parts,
            )
            turns.append(
                Turn(
                    index=turn,
                    decisions=tuple(decisions),
                    artifacts={"a": "", "b": ""},
                    score=score,
                )
            )
        found.append(
            Episode(
                id=f"t#{sample}",
                task="t",
                team="pair",
                sample=sample,
                turns=tuple(turns),
                horizon=n_turns,
                when_solved=when_solved,
            )
        )
    return found


def token_logprobs(model: Any, action: Action, sampling: Sampling) -> list[Tensor]:
    """log pi of each token of a response, from a forward pass over it alone.

    With top_k or top_p, pi covers only the remaining tokens and the sampled one.
    """
    ids = [*action.prompt_ids, *action.token_ids]
    logits = model(input_ids=torch.tensor([ids])).logits[0]  # [time, vocabulary]
    found = []
    for position, token in enumerate(action.token_ids):
        before = logits[len(action.prompt_ids) + position - 1] / sampling.temperature
        remaining = likeliest(torch.softmax(before.detach(), dim=-1).tolist(), sampling) | {token}
        total = torch.logsumexp(before[sorted(remaining)], dim=0)
        found.append(before[token] - total)
    return found


def likeliest(probabilities: Sequence[float], sampling: Sampling) -> set[int]:
    """The tokens that remain after top_k and then top_p."""
    order = sorted(range(len(probabilities)), key=lambda n: -probabilities[n])
    order = order[: sampling.top_k or None]
    mass = sum(probabilities[n] for n in order)
    remaining: set[int] = set()
    for n in order:
        if sum(probabilities[k] for k in remaining) < sampling.top_p * mass:
            remaining.add(n)
    return remaining


def objective(
    logprobs: dict[int, list[Tensor]],
    references: dict[int, list[Tensor]],
    responses: Sequence[tuple[Action, float, float]],
    spec: TrainerSpec,
    start: dict[int, list[float]],
    *,
    max_new_tokens: int,
) -> Tensor:
    """The objective of one agent; `responses` are actions with advantage and share of the mean."""
    all_tokens = sum(share * len(a.token_ids) for a, _, share in responses)
    total = torch.zeros((), dtype=torch.float64)
    for number, (a, advantage, share) in enumerate(responses):
        inner = torch.zeros((), dtype=torch.float64)
        for t, logprob in enumerate(logprobs[number]):
            old = start[number] if spec.has_correction else a.logprobs
            gain = token_gain(logprobs[number], old, t, advantage, spec)
            if spec.has_correction:
                ratios = zip(start[number], a.logprobs, strict=True)
                gain = gain * factor_of(
                    [math.exp(new - sampled) for new, sampled in ratios], t, spec
                )
            if spec.kl_coef:
                d = references[number][t].detach() - logprob
                gain = gain - spec.kl_coef * (torch.exp(d) - d - 1)
            inner = inner + gain
        if spec.token_weighting == "response_mean":
            inner = inner / len(a.token_ids)
        if spec.token_weighting == "constant":
            inner = inner / max_new_tokens
        total = total + share * inner
    return total / all_tokens if spec.token_weighting == "batch_tokens" else total


def token_gain(
    logprobs: list[Tensor], old: Sequence[float], t: int, advantage: float, spec: TrainerSpec
) -> Tensor:
    """The contribution of a response's t-th token to the objective."""
    logprob = logprobs[t]
    if spec.objective == "cispo":
        most = 1 + (spec.clip_ratio_high or 0.0)
        return min(math.exp(float(logprob.detach()) - old[t]), most) * advantage * logprob
    if spec.clip_ratio is None:
        return advantage * logprob
    rho = torch.exp(logprob - old[t])
    if spec.objective == "gspo":
        steps = [float(new.detach()) - before for new, before in zip(logprobs, old, strict=True)]
        rho = math.exp(sum(steps) / len(steps)) * torch.exp(logprob - logprob.detach())
    high = spec.clip_ratio if spec.clip_ratio_high is None else spec.clip_ratio_high
    bounded = min(max(rho, torch.tensor(1 - spec.clip_ratio)), torch.tensor(1 + high))
    return min(rho * advantage, bounded * advantage)


def factor_of(rho: Sequence[float], t: int, spec: TrainerSpec) -> float:
    """The factor on the t-th token's loss that corrects for the sampler."""
    if spec.sequence_limit is not None and math.prod(rho) > spec.sequence_limit:
        return 0.0
    if spec.importance_band is not None:
        low, high = spec.importance_band
        return rho[t] if low <= rho[t] <= high else 0.0
    return 1.0 if spec.importance_cap is None else min(rho[t], spec.importance_cap)


def returns_of(found: Sequence[Episode], agent: str, spec: TrainerSpec) -> list[list[float]]:
    """R_t^(g) for each episode and turn, from the last turn to the first.

    A solved episode that absorbs repeats its last turn until the horizon.
    """
    table = []
    for episode in found:
        turns = list(episode.turns)
        assert episode.horizon is not None
        while episode.when_solved == "absorb" and len(turns) < episode.horizon:
            turns.append(turns[-1])
        row: list[float] = []
        value = 0.0
        for turn in reversed(turns):
            assert turn.score is not None
            local_parts = spec.local_parts.get(agent, {})
            reward = spec.team_weight * turn.score.reward
            for part in turn.score.parts:
                if part.name in local_parts:
                    weight = local_parts[part.name]
                    reward += (part.weight if weight is None else weight) * part.value
            value = reward + spec.discount * value
            row.insert(0, value)
        table.append(row)
    return table


def advantages(
    table: Sequence[Sequence[float]], played: Sequence[int], spec: TrainerSpec
) -> list[list[float]]:
    """A_t^(g) in chains: each turn is compared with the same turn of the other episodes.

    A turn that no other episode played is compared with what the ended ones still earn.
    """
    result = [list(row[:n]) for row, n in zip(table, played, strict=True)]
    for t in range(max(played)):
        at = [g for g, n in enumerate(played) if n > t]
        compared = at if len(at) > 1 else range(len(table))
        earned = {g: table[g][t] if len(table[g]) > t else 0.0 for g in compared}
        column = [*earned.values()]
        for g in at:
            others = [earned[h] for h in compared if h != g]
            result[g][t] -= {
                "magrpo": sum(column) / len(column),
                "marloo": sum(others) / len(others) if others else table[g][t],
                "maremax": max(column),
                "mareinforce": 0.0,
            }[spec.algorithm.use]
        if spec.normalize == "group":
            spread = std([result[g][t] for g in at] if len(at) > 1 else column)
            for g in at:
                result[g][t] /= spread
    if spec.normalize in ("agent", "step"):  # they are the same for a single task
        spread = std([value for row in result for value in row])
        result = [[value / spread for value in row] for row in result]
    return result


def sft_mask(found: Sequence[Episode], above: float | None) -> list[list[float]]:
    """1 for every turn of an episode that `sft` learns from, and 0 for other turns."""
    table = []
    for episode in found:
        rewards = [turn.score.reward for turn in episode.turns if turn.score]
        if episode.when_solved == "absorb":
            rewards += rewards[-1:] * ((episode.horizon or 0) - len(rewards))
        largest = 4.0 * (episode.horizon or 0)
        last = episode.turns[-1].score
        assert last is not None
        is_kept = bool(last.solved) if above is None else sum(rewards) / largest > above
        table.append([float(is_kept)] * len(episode.turns))
    return table


def std(values: Sequence[float]) -> float:
    mean = sum(values) / len(values)
    found = sqrt(sum((value - mean) ** 2 for value in values) / len(values))
    return found if found > 1e-9 else 1.0
