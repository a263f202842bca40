"""`collab show`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from collab.errors import RecipeError, RecordError
from collab.wording import counted

if TYPE_CHECKING:
    from collab.cli.screen.page import Block, Page
    from collab.records import Decision, Episode, Turn
    from collab.rewards.declared import Shown


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    episode: Annotated[
        str | None,
        typer.Argument(metavar="EPISODE", help="Its id, its problem, or its place in the list."),
    ] = None,
    turn: Annotated[
        int | None,
        typer.Option("--turn", metavar="N", min=1, help="Only this turn, counted from 1."),
    ] = None,
    agent: Annotated[
        str | None, typer.Option("--agent", metavar="NAME", help="Only this agent.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="The records as JSON lines.")] = False,
) -> None:
    """Show the episodes of a run, or one of them turn by turn.

    Runs that were interrupted or killed are shown as far as they came.

    [bold]Examples[/]
      collab show runs/20260101-120000-000-coding
      collab show runs/20260101-120000-000-coding humaneval/12
      collab show runs/20260101-120000-000-coding 'humaneval/12#0' --turn 2
      collab show runs/20260101-120000-000-coding --json | jq .task
    """
    from collab.cli.arguments.episodes import select
    from collab.cli.screen.choose import open_page
    from collab.cli.screen.streams import json_text
    from collab.recipe.dump import reward_in
    from collab.records.run import open_run
    from collab.rewards.declared import shown

    _check_is_run(run)
    record = open_run(run)
    chosen = record.episodes if episode is None else select(record.episodes, episode)
    chosen = [_narrowed(item, turn, agent) for item in _with_turn(chosen, turn)]
    if json:
        for item in chosen:
            print(json_text(item))
    elif episode is None and turn is None and agent is None:
        _list(open_page(), record.about, chosen, shown(reward_in(run)))
    else:
        for item in chosen:
            _show(open_page(), item, whole=turn is None)
    for complaint in record.complaints:
        print(f"warning: {complaint}", file=sys.stderr)


def _check_is_run(run: Path) -> None:
    from collab.evaluation.reading import is_evaluation
    from collab.runs.layout import EPISODES

    if is_evaluation(run):
        teams = ", ".join(sorted(str(file.parent) for file in run.glob(f"*/{EPISODES}")))
        raise RecordError(f"{run} is an evaluation; show one of its teams: {teams or 'none yet'}")


def _with_turn(episodes: Sequence[Episode], turn: int | None) -> Sequence[Episode]:
    """Those that came to this turn; an episode that is solved ends before its last."""
    if turn is None:
        return episodes
    found = [episode for episode in episodes if len(episode.turns) >= turn]
    if episodes and not found:
        most = max(len(episode.turns) for episode in episodes)
        raise RecipeError(f"no episode here has a turn {turn}; the longest has {most}")
    return found


def _narrowed(episode: Episode, turn: int | None, agent: str | None) -> Episode:
    """The episode with only this turn and this agent in it."""
    from collab.errors import UnknownName

    turns = list(episode.turns)
    if turn is not None:
        turns = [turns[turn - 1]]
    if agent is not None:
        agents = {d.agent for t in turns for d in t.decisions}
        if agent not in agents:
            raise UnknownName(f"agent of {episode.id}", agent, agents)
        turns = [_of_agent(item, agent) for item in turns]
    return episode.model_copy(update={"turns": tuple(turns)})


def _of_agent(turn: Turn, agent: str) -> Turn:
    return turn.model_copy(
        update={
            "decisions": tuple(d for d in turn.decisions if d.agent == agent),
            "artefacts": {name: a for name, a in turn.artefacts.items() if name == agent},
            "feedback": {name: f for name, f in turn.feedback.items() if name == agent},
        }
    )


def _list(
    page: Page, about: dict[str, Any], episodes: list[Episode], declared: Sequence[Shown]
) -> None:
    """`declared` are columns that the run's reward asks for; those without a cell are left out."""
    from collab.cli.screen.page import Column

    if about:
        models = ", ".join(sorted(set(about.get("models", {}).values())))
        page.line((str(about.get("run", "")), "bold"), f", {about.get('team', '')}, {models}")
    columns = [Column("", right=True, style="dim"), Column("episode"), Column("verdict")]
    scores = [episode.score for episode in episodes if episode.score]
    declared = [item for item in declared if any(map(item.cell, scores))]
    ranks = {"return": 0, "of": 3, **{item.head: 0 for item in declared}, "turns": 4, "tokens": 2}
    columns += [Column(name, right=True, rank=rank) for name, rank in ranks.items()]
    has_schemes = any(score.scheme for score in scores)
    columns += [Column("scheme", rank=1)] * has_schemes
    columns += [Column("flags", style="yellow", wrap=True)]
    rows = [_row(n, episode, declared, has_schemes) for n, episode in enumerate(episodes)]
    page.table(columns, rows)


def _row(number: int, episode: Episode, declared: Sequence[Shown], has_schemes: bool) -> list[Any]:
    score, failure = episode.score, episode.failure
    if failure:
        told = (f"failed: {failure.type}", "red")
    elif score is None or score.solved is None:
        told = ("done", "")
    else:
        told = ("solved", "green") if score.solved else ("not solved", "red")
    tokens = sum(d.action.usage.new_tokens for turn in episode.turns for d in turn.decisions)
    earned = [
        "-" if points is None else f"{points:.2f}"
        for points in (episode.joint_return, episode.largest_return)
    ]
    measured = [(item.cell(score) if score else "") or "-" for item in declared]
    played = str(len(episode.turns))
    turns = f"{played} of {episode.horizon}" if episode.unplayed else played
    counts = [*measured, turns, str(tokens)]
    scheme = [(score.scheme if score else None) or "-"] * has_schemes
    flags = ", ".join(score.flags) if score else ""
    return [str(number), episode.id, told, *earned, *counts, *scheme, flags or "-"]


def _show(page: Page, episode: Episode, *, whole: bool) -> None:
    from collab.cli.screen import episode as view

    page.heading(episode.id)
    page.line((f"seed {episode.seed}, {episode.seconds:.1f} s, {episode.started}", "dim"))
    before: float | None = None
    for turn in episode.turns:
        page.line()
        page.line((f"turn {turn.index + 1}", "bold"))
        for decision in turn.decisions:
            _show_decision(page, decision)
        view.show_work(page, turn)
        if turn.score:
            view.show_score(page, turn.score, before)
        view.show_feedback(page, turn)
        before = turn.score.reward if turn.score else None
    if whole:
        view.show_end(page, episode)
    elif episode.failure:
        view.show_failure(page, episode.failure)
    page.line()


def _show_decision(page: Page, decision: Decision) -> None:
    from collab.cli.screen.page import Block
    from collab.cli.screen.tool_calls import call_block

    action = decision.action
    place = f"{decision.agent}, round {decision.round + 1}" if decision.round else decision.agent
    blocks: list[Block] = [
        Block(f"{place} observes: {message.role}", message.content, "text")
        for message in decision.observation
    ]
    told = f"{place} responds: {counted(action.usage.new_tokens, 'token')}, {action.seconds:.1f} s"
    told += f", {action.finish_reason}, {action.model}"
    told += f", adapter {action.adapter}" if action.adapter else ""
    if action.logprobs:
        mean = sum(action.logprobs) / len(action.logprobs)
        told += f", log-prob {mean:.2f} a token, least {min(action.logprobs):.2f}"
    asked = [call_block(place, call) for call in action.tool_calls if call.id]
    for block in (*blocks, Block(told, action.text, "text"), *asked):
        page.blocks([block])
