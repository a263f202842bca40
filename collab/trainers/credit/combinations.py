"""Scores combinations: joint actions of responses from different episodes."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from collab.errors import CollabError, RecipeError, TrainingError
from collab.recipe import TrainerSpec
from collab.records import Episode, Failure, Problem, Score, Turn, failure_of
from collab.trainers.credit.group import Choice, Node, reward_of

ScoreCombination = Callable[[Problem, Mapping[str, str]], Awaitable[Score]]
"""Scores a combination, given a problem and each agent's artifact."""

Artifacts = tuple[tuple[str, str], ...]
"""The parts of a joint artifact, each with its agent."""

MAX_CONCURRENT_SCORES = 64
"""Maximum number of combinations to score at the same time."""


class Combinations:
    """The combinations of one group's responses, and their rewards. Each is scored once.

    Equal answers count as one combination. Joint actions that were played keep their recorded
    score.
    """

    def __init__(
        self,
        problem: Problem,
        episodes: Sequence[Episode],
        spec: TrainerSpec,
        score: ScoreCombination,
    ) -> None:
        self.failures: list[Failure] = []
        """Reasons why combinations could not be scored."""
        self._problem, self._episodes, self._spec = problem, episodes, spec
        self._score_combination = score
        self._slots = asyncio.Semaphore(MAX_CONCURRENT_SCORES)
        self._scores: dict[Artifacts, Score | asyncio.Future[Score | None]] = {}
        for turn in (turn for episode in episodes for turn in episode.turns):
            if turn.score is not None:
                self._scores.setdefault(tuple(turn.contributions.items()), turn.score)

    def team(self, nodes: Sequence[Node]) -> list[str]:
        """Return the agents whose responses make the joint artifact at `nodes`.

        Raises:
            TrainingError: the agents are not the same at all of `nodes`.
        """
        teams = [list(self._turn(node).contributions) for node in nodes]
        if any(team != teams[0] for team in teams):
            raise TrainingError(
                "responses can be combined only if the same agents contribute to every joint"
                f" artifact, but the protocol chose others in {self._problem.address}; set"
                " trainer.algorithm to 'marloo'"
            )
        return teams[0]

    async def score(
        self, nodes: Sequence[Node], choices: Sequence[Choice]
    ) -> list[Mapping[str, float] | None]:
        trained = dict.fromkeys([*self.team(nodes), *self._spec.local_parts])
        return [
            None if s is None else {a: reward_of(s, a, self._spec) for a in trained}
            for s in await self.scores(nodes, choices)
        ]

    async def scores(self, nodes: Sequence[Node], choices: Sequence[Choice]) -> list[Score | None]:
        """Return the score of each choice of responses at `nodes`, or None if scoring failed."""
        team = self.team(nodes)
        played = [self._turn(node).contributions for node in nodes]
        picks = [{a: choice.get(a, 0) for a in team} for choice in choices]
        return await asyncio.gather(
            *(
                self._cached_score({a: "" if n is None else played[n][a] for a, n in pick.items()})
                for pick in picks
            )
        )

    async def _cached_score(self, artifacts: Mapping[str, str]) -> Score | None:
        """Return the score of these artifacts, computed once, or None if scoring failed."""
        key = tuple(artifacts.items())
        if key not in self._scores:
            self._scores[key] = asyncio.ensure_future(self._compute_score(artifacts))
        known = self._scores[key]
        return known if isinstance(known, Score) else await known

    async def _compute_score(self, artifacts: Mapping[str, str]) -> Score | None:
        async with self._slots:
            try:
                return await self._score_combination(self._problem, artifacts)
            except RecipeError:
                raise  # this recipe cannot score combinations at all
            except CollabError as error:
                self.failures.append(failure_of(error))
                return None

    def _turn(self, node: Node) -> Turn:
        return self._episodes[node[0]].turns[node[1]]
