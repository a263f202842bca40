"""A game played by a team: agents in the seats, and a score for each turn."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from collab.environments import BUILT_IN, Observation, Step, environment_for
from collab.environments.base import fault_of, fault_of_start, fault_of_state, rewards_by_seat
from collab.environments.library import MakeEnvironment
from collab.errors import CollabError, EnvironmentFailed, RecipeError, convert_error
from collab.recipe import Recipe, TaskSpec
from collab.recipe.task import SEED_FIELD
from collab.records import PartScore, Problem, Score, Turn
from collab.stats import mean
from collab.threads import run_in_thread

STEP_SECONDS = 60.0
"""Time limit for one step of a user's environment, in seconds."""


class Game:
    """One game that a team plays.

    Raises:
        RecipeError: on construction: the environment does not accept the problem's fields, or its
            seats do not match the team.
        EnvironmentFailed: from every method, if the environment fails.
    """

    def __init__(
        self,
        spec: TaskSpec,
        make: MakeEnvironment,
        problem: Problem,
        agents: Sequence[str],
        turns: int,
    ) -> None:
        """Start a game of the team's agents, in order, with at most this many turns."""
        assert spec.environment is not None, "a game's task has an environment"
        name = spec.environment.use
        self._what, self._is_plugin = f"environment '{name}'", name not in BUILT_IN
        self.environment = make(options_of(spec, problem))
        self._seats = _assign_seats(self._what, self.environment.seats, agents, spec.seats)
        self._seed = str(problem.hidden.get(SEED_FIELD, problem.address))
        self._team, self._turns_left = tuple(agents), turns
        self._step = Step()

    @property
    def acting_agents(self) -> tuple[str, ...]:
        """Agents that must act next, in the team's order."""
        acting = [self._seats[seat] for seat in self._step.observations]
        return tuple(agent for agent in self._team if agent in acting)

    @property
    def observations(self) -> dict[str, Observation]:
        """Map each agent that acts now to its observation."""
        return {
            self._seats[seat]: observation
            if isinstance(observation, Observation)
            else Observation(observation)
            for seat, observation in self._step.observations.items()
        }

    @property
    def ended(self) -> bool:
        return self._step.ended

    async def begin(self, played: Sequence[Turn] = ()) -> None:
        """Begin the game, and replay the turns in `played`.

        Raises:
            EnvironmentFailed: the environment fails, or no seat can act.
        """
        reset = self.environment.reset
        self._step = await self._run_step(fault_of_start, reset, Random(self._seed))
        for turn in played:
            await self.step(turn.artifacts)

    async def step(self, artifacts: Mapping[str, str]) -> tuple[Score, str]:
        """Play one turn, and return its score and the new state as text.

        Raises:
            EnvironmentFailed: the environment fails, or an agent that had to act has not acted.
        """
        actions = self._actions(artifacts)
        self._step = await self._run_step(fault_of, self.environment.step, actions)
        self._turns_left -= 1
        state = await self._run_with_timeout(self.environment.render)
        if fault := fault_of_state(state):
            raise EnvironmentFailed(f"{self._what}: render returned {fault}")
        return self._score(), state

    def _actions(self, artifacts: Mapping[str, str]) -> dict[str, str]:
        """Map each seat that acts now to its action."""
        silent = [agent for agent in self.acting_agents if agent not in artifacts]
        if silent:
            raise EnvironmentFailed(
                f"these agents must act: {', '.join(self.acting_agents)}, but the team's protocol"
                f" skipped {', '.join(silent)}; let all of turn.agents act"
            )
        return {seat: artifacts[self._seats[seat]] for seat in self._step.observations}

    def _score(self) -> Score:
        earned = rewards_by_seat(self._step.rewards, self.environment.seats)
        by_agent = {self._seats[seat]: reward for seat, reward in earned.items()}
        is_last = self.ended or self._turns_left == 0
        return Score(
            reward=mean([*earned.values()]),
            maximum=self.environment.largest_return if is_last else 0.0,
            by_agent=by_agent if len(set(earned.values())) > 1 else {},
            solved=self._step.solved,
            summary=self._step.summary,
            parts=tuple(
                PartScore(name=name, level=name, value=value, weight=0.0, reason="")
                for name, value in self._step.values.items()
            ),
        )

    async def _run_step(
        self, fault_in: Callable[..., str], function: Callable[..., Any], *args: Any
    ) -> Step:
        step = await self._run_with_timeout(function, *args)
        if fault := fault_in(step, self.environment.seats):
            raise EnvironmentFailed(f"{self._what}: {function.__name__} returned {fault}")
        made: Step = step
        return made

    async def _run_with_timeout(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call the user's code in a thread, because it may block."""
        if not self._is_plugin:
            return function(*args)
        try:
            return await asyncio.wait_for(run_in_thread(function, *args), STEP_SECONDS)
        except TimeoutError:
            raise EnvironmentFailed(
                f"{self._what}: {function.__name__} did not finish within {STEP_SECONDS:g} s; make"
                " it faster"
            ) from None
        except CollabError:
            raise
        except Exception as error:
            raise convert_error(error, EnvironmentFailed, self._what) from error


def options_of(spec: TaskSpec, problem: Problem) -> dict[str, Any]:
    """Return a problem's fields, except its id and seed. They are options of the environment."""
    fields = {**problem.public, **problem.hidden}
    return {key: value for key, value in fields.items() if key not in (spec.id_field, SEED_FIELD)}


MakeGame = Callable[[Problem], Game]
"""Makes the game of a problem."""


def game_maker(recipe: Recipe, kind: type[Game] = Game) -> MakeGame | None:
    """Return a function that makes a problem's game, or None for a suite without environment.

    Raises:
        RecipeError: there is no such environment, or the team has feedback as well.
    """
    spec, team = recipe.task, recipe.team
    if spec is None or spec.environment is None:
        return None
    if team.feedback and team.turns > 1:
        raise RecipeError(
            "feedback would show agents the whole state of the environment, but each may observe"
            " only its part; leave out team.feedback"
        )
    make = environment_for(spec.environment)
    return lambda problem: kind(spec, make, problem, tuple(team.agents), team.turns)


async def score_combination(game: Game, artifacts: Mapping[str, str], turns: int) -> Score:
    """Return the score of a combination of answers, in a game of one turn.

    Raises:
        RecipeError: the team plays several turns, so the score depends on earlier turns.
    """
    if turns > 1:
        raise RecipeError(
            f"the value of a joint action in an environment of {turns} turns depends on earlier"
            " turns; set trainer.algorithm to one that scores played actions only, e.g. rae or"
            " marloo"
        )
    await game.begin()
    score, _ = await game.step(artifacts)
    return score


def _assign_seats(
    what: str, seats: Sequence[str], agents: Sequence[str], named: Mapping[str, str]
) -> dict[str, str]:
    chosen = dict(named) or dict(zip(seats, agents, strict=False))
    if set(chosen) != set(seats) or sorted(chosen.values()) != sorted(agents):
        raise RecipeError(
            f"{what} has the seats {', '.join(seats)}, but the team has the agents"
            f" {', '.join(agents)}; give each agent one seat: as many agents as seats, and if"
            f" task.seats is set ({chosen}), every seat and every agent once in it"
        )
    return {seat: chosen[seat] for seat in seats}
