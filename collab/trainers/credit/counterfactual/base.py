"""The common part of algorithms that score combinations of a group's responses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from collab.errors import RecipeError
from collab.recipe import Recipe, TrainerSpec
from collab.rewards.declared import parts_about_others
from collab.runs import metric_names as names
from collab.runs.metric_names import fill_pattern
from collab.stats import mean
from collab.trainers.credit.base import Algorithm
from collab.trainers.credit.counterfactual.forms import FORMS, CreditForm, forms, planned_forms
from collab.trainers.credit.counterfactual.table import (
    Cells,
    Shifts,
    Table,
    Vector,
    leave_one_out,
    make_table,
)
from collab.trainers.credit.group import Group, Node, ResponseKey, Weights


class VarianceShares:
    """Estimates, from the tables of a step, the share of the reward's variance that each agent
    decides.

    A reward is R = mean + own + teammates' + interaction: the effect of the agent's response alone,
    of the teammates' responses alone, and of both together. The estimates use half the mean squared
    difference of two cells of a table. For two cells in one column, it estimates var(own) +
    var(interaction), because only the agent's response differs. For two cells in one row, it
    estimates var(teammates') + var(interaction). For two cells that share neither, it estimates the
    sum of all three. The shares follow from these estimates. The shares are unbiased if the missing
    cells do not depend on the answers.
    """

    def __init__(self) -> None:
        self._estimates: dict[str, list[list[float]]] = {}
        """Estimates by agent and table: of cells in one column, in one row, and in neither."""

    def add(self, agent: str, table: Table) -> None:
        """Add a table whose rows are drawn independently of its columns."""
        cells = table.cells[:, list(table.columns)]
        column, row, all_pairs = map(_squared_differences, (cells.T, cells, cells.reshape(1, -1)))
        neither = all_pairs[0] - row[0] - column[0], all_pairs[1] - row[1] - column[1]
        if column[1] and row[1] and neither[1]:
            halves = [squares / pairs / 2 for squares, pairs in (column, row, neither)]
            self._estimates.setdefault(agent, []).append(halves)

    def measures(self) -> Iterator[tuple[str, float]]:
        """Yield the metrics, or none if all rewards of each task were equal.

        `credit/AGENT/own` is the share that the agent's responses explain alone, and `/influence`
        includes their interactions. `credit/interaction` is the share that no agent explains alone.
        """
        alone: list[float] = []
        for agent, estimates in self._estimates.items():
            column, row, total = map(mean, zip(*estimates, strict=True))
            if total > 0:
                alone.append((total - row) / total)
                yield fill_pattern(names.CREDIT_OWN, agent), _clip_to_unit(alone[-1])
                yield fill_pattern(names.CREDIT_INFLUENCE, agent), _clip_to_unit(column / total)
        if len(alone) > 1:
            yield names.CREDIT_INTERACTION, _clip_to_unit(1 - sum(alone))


def _clip_to_unit(value: float) -> float:
    """Clip an estimated share, which may be slightly out of range, to the range from 0 to 1."""
    return min(max(value, 0.0), 1.0)


def _squared_differences(values: Cells) -> tuple[float, float]:
    """Return the sum of the squared differences of all pairs within rows, and their number."""
    known = ~np.isnan(values)
    numbers, filled = known.sum(1), np.where(known, values, 0.0)
    squares = numbers * (filled**2).sum(1) - filled.sum(1) ** 2
    return float(squares.sum()), float((numbers * (numbers - 1) / 2).sum())


MAX_COMBINATIONS = 4096
"""Maximum number of combinations to score at one turn of one group."""


class Counterfactual(Algorithm):
    """Computes weights from tables of rewards that contain more joint actions than were played.

    An algorithm turns a table into weights. Rewards of later turns are compared as played, by
    leave-one-out, because later turns are on-policy only as they were played.
    """

    compares = scores_unplayed = True

    def __init__(self, pair_shifts: Shifts = "samples", team_shifts: Shifts = "samples") -> None:
        """Set the shifts to score for joint artifacts of two answers, and of more."""
        self._pair_shifts, self._team_shifts = pair_shifts, team_shifts
        self._form_counts: Counter[tuple[str, CreditForm]] = Counter()
        self._variance_shares = VarianceShares()
        self._spreads: list[dict[ResponseKey, float]] = []

    def crossed(self, table: Table) -> Vector:
        """Return an agent's weights, shape [G], for the form `crossed`.

        Args:
            table: the agent's rewards, with one row per own response.
        """
        return table.swapped()

    async def prepare(self, group: Group) -> None:
        """Score all joint actions that `credit` will need for a group."""
        for nodes in group.baselines_over:
            agent_forms = forms(group, nodes)
            for agent in group.agents:
                if agent_forms[agent] != "alone":
                    await self._table(group, nodes, agent, agent_forms)

    async def credit(self, groups: Sequence[Group]) -> list[Weights]:
        self._form_counts, self._variance_shares, self._spreads = Counter(), VarianceShares(), []
        return [await self._credit(group) for group in groups]

    def measures(self) -> Mapping[str, float]:
        """Return the share of an agent's responses by form, and the shares of the variance."""
        totals = Counter[str]()
        for (agent, _), count in self._form_counts.items():
            totals[agent] += count
        shares = {
            fill_pattern(fill_pattern(names.CREDIT_FORM, agent), form): count / totals[agent]
            for (agent, form), count in self._form_counts.items()
        }
        return {**shares, **dict(self._variance_shares.measures())}

    def spreads(self) -> Sequence[Mapping[ResponseKey, float]]:
        """Return the deviations of the rewards behind each weight, by group."""
        return self._spreads

    def check(self, recipe: Recipe, spec: TrainerSpec) -> None:
        """Check that the algorithm is unbiased for a recipe, and not equal to MARLOO.

        Raises:
            RecipeError: the algorithm is biased, or equal to MARLOO.
        """
        name = spec.algorithm.use
        if spec.normalize in ("agent", "step"):
            raise RecipeError(
                f"normalize '{spec.normalize}' would give an agent without influence weights as"
                " large as the others'; set normalize to 'none', or to 'group', which uses the"
                " deviation over all scored joint actions"
            )
        agent_forms = planned_forms(recipe, shared=True)
        n_agents = len(recipe.team.roles.contributors)
        if n_agents > 1 and set(agent_forms.values()) == {"alone"}:
            raise RecipeError(
                f"algorithm '{name}' cannot combine any response: in this team's protocol,"
                " teammates see each trained agent's answer, or the protocol chooses whose answer"
                " counts; set algorithm to 'marloo', which gives the same weights here"
            )
        if n_agents > 1 and (parts := parts_about_others(recipe)):
            raise RecipeError(
                f"algorithm '{name}' combines only the answers that make the joint artifact,"
                f" but the reward's {', '.join(parts)} reads another agent's; set algorithm to"
                " 'marloo'"
            )
        scored = self._max_scored(spec.group_size, n_agents)
        if scored > MAX_COMBINATIONS:
            raise RecipeError(
                f"algorithm '{name}' would score {scored} combinations per turn of a group of"
                f" {spec.group_size}, more than {MAX_COMBINATIONS}; lower trainer.group_size, or"
                " set an algorithm that scores fewer, e.g. {use: cross, options: {shifts: 3}}"
            )

    def describe(self, recipe: Recipe, spec: TrainerSpec) -> list[str]:
        """Return the form of each agent's credit, and the number of combinations to score."""
        first = planned_forms(recipe, shared=True)
        later = planned_forms(recipe, shared=spec.turn_structure != "chains")
        lines = []
        for agent, form in first.items():
            line = f"credit of {agent}: {form}, {FORMS[form]}"
            if recipe.team.turns > 1 and later[agent] != form:
                line += f"; from turn 2 on {later[agent]}, {FORMS[later[agent]]}"
            lines.append(line)
        n_agents = len(recipe.team.roles.contributors)
        scored = self._max_scored(spec.group_size, n_agents)
        lines.append(f"scoring: at most {scored:,} combinations per turn and task")
        return lines

    async def _credit(self, group: Group) -> Weights:
        weights: dict[ResponseKey, float] = {}
        spreads: dict[ResponseKey, float] = {}
        for nodes in group.baselines_over:
            agent_forms = forms(group, nodes)
            for agent in group.agents:
                self._form_counts[agent, agent_forms[agent]] += len(nodes)
                agent_weights, spread = await self._credit_agent(group, nodes, agent, agent_forms)
                for (episode, turn), weight in zip(nodes, agent_weights, strict=True):
                    weights[episode, turn, agent] = float(weight)
                    if spread is not None:
                        spreads[episode, turn, agent] = spread
        self._spreads.append(spreads)
        return weights

    async def _credit_agent(
        self, group: Group, nodes: Sequence[Node], agent: str, agent_forms: Mapping[str, CreditForm]
    ) -> tuple[Vector, float | None]:
        """Return the agent's weights, and the standard deviation of the values behind them."""
        form = agent_forms[agent]
        if form == "alone":
            returns = np.array(group.compared(nodes, agent))
            return leave_one_out(returns)[: len(nodes)], None
        table = await self._table(group, nodes, agent, agent_forms)
        later = later_returns(group, nodes, agent)
        if form == "crossed":
            self._variance_shares.add(agent, table)
        now = self.crossed(table) if form == "crossed" else table.swapped()
        return now + leave_one_out(later), float(np.nanstd(table.cells + later[:, None]))

    async def _table(
        self, group: Group, nodes: Sequence[Node], agent: str, agent_forms: Mapping[str, CreditForm]
    ) -> Table:
        team = list(group.turn(nodes[0]).contributions)
        shifts = self._shifts(len(team))
        if shifts == "all" and any(agent_forms[name] != "crossed" for name in team):
            shifts = "samples"  # teammates that saw each other must stay together
        return await make_table(group, nodes, team, agent, shifts)

    def _shifts(self, n_agents: int) -> Shifts:
        return self._pair_shifts if n_agents <= 2 else self._team_shifts

    def _max_scored(self, group_size: int, n_agents: int) -> int:
        """Return the maximum number of combinations to score at one turn of a group."""
        return max_combinations(group_size, n_agents, self._shifts(n_agents))


def later_returns(group: Group, nodes: Sequence[Node], agent: str) -> Vector:
    """Return what an agent earns after each of `nodes`."""
    return np.array([group.returns[n][agent] - group.rewards[n][agent] for n in nodes])


def max_combinations(group_size: int, n_agents: int, shifts: Shifts) -> int:
    """Return the maximum number of combinations to score at one turn, except the played ones."""
    if shifts == "all":
        return int(group_size**n_agents) - group_size
    tables = 1 if n_agents == 2 else n_agents
    samples = group_size if shifts == "samples" else min(shifts, group_size)
    return tables * group_size * (samples - 1)
