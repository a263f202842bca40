"""Runs a protocol without a model, to learn the order in which agents act."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from collab.errors import AgentError, CollabError, RecipeError, convert_error
from collab.recipe import Recipe
from collab.recipe.team import TEMPLATE_FIELDS, TeamSpec
from collab.records import Feedback, Finding, Problem
from collab.runtime.agents import check_template
from collab.runtime.game import Game, MakeGame
from collab.runtime.protocols import Protocol, protocol_for
from collab.runtime.turn import Round, Turn, TurnFeedback
from collab.runtime.waiting import wait_for

MAX_ROUNDS = 1000
"""Maximum number of rounds in a turn. A protocol with more rounds counts as endless."""


ERROR_FEEDBACK = Feedback(
    source="rehearsal",
    text="",
    findings=(Finding(source="rehearsal", code="error", severity="error", message=""),),
)
"""Feedback with errors, which keeps a protocol working."""


@dataclass(frozen=True)
class RehearsedTurn:
    """The rounds of a rehearsed turn, in which every answer was empty."""

    rounds: tuple[Round, ...]
    joined: tuple[str, ...]
    """Agents whose answers were joined."""
    is_chosen: bool
    """True if the protocol chose these agents. In another turn it may choose others."""
    asks_feedback: bool
    """True if the protocol asked for feedback on answers of the same turn."""


async def rehearse_turn(protocol: Protocol, team: TeamSpec) -> RehearsedTurn:
    """Run a turn in which every answer is empty, and return its rounds.

    Raises:
        RecipeError: the protocol does not fit the team, fails, or does not end.
    """
    _refuse_former_template(team)
    rounds: list[Round] = []

    async def act_round(round_: Round) -> Mapping[str, str]:
        if len(rounds) == MAX_ROUNDS:
            raise RecipeError(
                f"the protocol lets agents act in more than {MAX_ROUNDS} rounds of one turn; give"
                " its loop a limit"
            )
        for agent in round_.agents if round_.otherwise is None else ():
            check_template(
                agent, round_.template, (*TEMPLATE_FIELDS, *team.agents[agent].templates)
            )
        rounds.append(round_)
        return dict.fromkeys(round_.agents, "")

    feedback_calls = 0

    async def get_feedback(turn: Turn) -> TurnFeedback:
        nonlocal feedback_calls
        feedback_calls += 1
        if feedback_calls > MAX_ROUNDS:
            raise RecipeError(
                f"the protocol asks for feedback more than {MAX_ROUNDS} times in one turn;"
                " give its loop a limit"
            )
        if any(spec.source == "solved" for spec in team.feedback):
            raise RecipeError(
                "the protocol asks for feedback within a turn, and 'solved' is known only at its"
                " end; take it out of team.feedback"
            )
        return dict.fromkeys(turn.agents, (ERROR_FEEDBACK,))

    turn = Turn(0, team.agents, act_round, get_feedback=get_feedback if team.feedback else None)
    try:
        await protocol(turn)
        joined = turn.joined(team.roles.contributors)
    except Exception as error:
        cause = convert_error(error, AgentError)
        hint = ""
        if rounds and not isinstance(error, CollabError):
            hint = "; before a run, collab runs a turn in which every answer is empty, and the"
            hint += " protocol must accept such answers"
        raise cause if isinstance(cause, RecipeError) else RecipeError(f"{cause}{hint}") from error
    return RehearsedTurn(
        tuple(rounds), joined, turn.chosen is not None, asks_feedback=feedback_calls > 0
    )


def _refuse_former_template(team: TeamSpec) -> None:
    """Refuse a template that would be ignored, because it has since been renamed."""
    for agent, spec in team.agents.items():
        if team.protocol.use == "critic_loop" and "criticise" in spec.templates:
            raise RecipeError(
                f"the template 'criticise' of agent '{agent}' is now called 'criticize'; rename it"
            )


def gives_feedback(recipe: Recipe) -> bool:
    """Return True if the recipe's feedback sources will be used, between turns or within one."""
    team = recipe.team
    return bool(team.feedback) and (team.turns > 1 or rehearse_team(recipe).asks_feedback)


def rehearse_team(recipe: Recipe) -> RehearsedTurn:
    """Return the rounds of a turn of the recipe's team, rehearsed with empty answers.

    Raises:
        RecipeError: the protocol cannot be rehearsed.
    """
    return wait_for(rehearse_turn(protocol_for(recipe.team.protocol), recipe.team))


MAX_LISTED_ROUNDS = 12
"""Maximum number of rounds of a turn that a plan lists."""


def describe_rounds(turn: RehearsedTurn, turns: int) -> list[str]:
    """Return the order of agents in a turn as text, one line per round."""
    lines = ["each turn:" if turns > 1 else "the turn:"]
    for round_ in turn.rounds[:MAX_LISTED_ROUNDS]:
        agents = ", ".join(round_.agents)
        together = " at the same time" if len(round_.agents) > 1 else ""
        seen = {name for others in round_.others.values() for name in others}
        sees = f", seeing {', '.join(sorted(seen))}" if seen else ""
        lines.append(f"  round {round_.number + 1}: {agents}{together}{sees}")
    if left := len(turn.rounds) - MAX_LISTED_ROUNDS:
        lines += [f"  and {left} more"] if left > 0 else []
    return lines


class RehearsedGame(Game):
    """A game with legal moves, if the environment lists them, so that it does not end early."""

    def _actions(self, artifacts: Mapping[str, str]) -> dict[str, str]:
        legal = self.environment.moves()
        made = super()._actions(artifacts)
        return {seat: next(iter(legal.get(seat, ())), text) for seat, text in made.items()}


def warn_truncated_games(
    make_game: MakeGame | None, problems: Iterable[Problem], turns: int
) -> list[str]:
    """Return a warning if games last longer than the team's turns, otherwise an empty list.

    Raises:
        RecipeError: the environment does not accept a problem's fields, or its seats do not match
            the team.
    """
    if make_game is None:
        return []
    longest = max((make_game(problem).environment.turns for problem in problems), default=0)
    if longest <= turns:
        return []
    return [
        f"a game may last {longest} turns, but team.turns is {turns}; longer games are truncated"
    ]
