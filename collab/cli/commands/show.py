"""`collab show`."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from json import dumps
from pathlib import Path
from shlex import join
from typing import TYPE_CHECKING, Any, Literal

from collab.cli.options import argument, complete_runs, flag, option, print_remarks
from collab.cli.screen.page import BAD, DIM, GOOD, WARN, Page, Piece, open_page
from collab.errors import RecipeError, RecordError, UnknownName

if TYPE_CHECKING:
    from collab.records import Episode, Turn
    from collab.rewards.declared import ScoreColumn
    from collab.runs.listing import RunRow


EpisodeOutcome = Literal["failed", "done", "solved", "not solved"]
_RUN_COLUMNS = ("run", "began", "kind", "team", "task", "status", ">return", ">solved")


def command(
    run: Path | None = argument(
        "RUN",
        "The folder of a run. Default: a list of all runs.",
        autocompletion=complete_runs,
        default=None,
    ),
    episode: str | None = argument(
        "EPISODE", "An episode's id, its task's address, or its number in the list.", default=None
    ),
    *,
    turn: int | None = option("--turn", "N", "Show only this turn, counted from 1.", min=1),
    agent: str | None = option("--agent", "NAME", "Show only this agent."),
    outcome: EpisodeOutcome | None = option(
        "--outcome",
        "WORD",
        "Show only these episodes: failed, solved, 'not solved' or done.",
    ),
    json: bool = flag("--json", "Print the records as JSON lines."),
) -> None:
    """List runs, or show the episodes of one run.

    Without RUN, the command lists the runs in runs/, evals/ and studies/, newest
    first. If RUN is a folder of several runs, it lists these; if RUN is an
    evaluation, it shows the result tables. Interrupted and killed runs are shown
    up to the point they reached.

    Examples:
      collab show
      collab show runs/first
      collab show runs/first humaneval/12
      collab show runs/first 'humaneval/12#0' --turn 2
      collab show runs/first --outcome 'not solved'
      collab show runs/first --json | jq .task
    """
    from collab.evaluation.folder import is_evaluation
    from collab.runs.layout import DEFAULT_FOLDERS
    from collab.runs.listing import holds_runs

    whole = (episode, turn, agent, outcome) == (None, None, None, None)
    if run is None and not whole:
        raise RecipeError("--turn, --agent and --outcome need a RUN, such as runs/first")
    if run is None:
        _list_runs([Path(place) for place in DEFAULT_FOLDERS], json=json)
    elif is_evaluation(run) and whole:
        _show_evaluation(run, json=json)
    elif holds_runs(run) and whole:
        _list_runs([run], json=json)
    else:
        _show_run(run, episode, turn, agent, outcome, json=json)


def _list_runs(folders: list[Path], *, json: bool) -> None:
    from collab.runs.listing import list_rows

    runs = list_rows(folders)
    if json:
        for run in runs:
            print(dumps(run.data()))
    elif runs:
        open_page().table(_RUN_COLUMNS, [_run_row(run) for run in runs])
    else:
        places = ", ".join(f"{folder}/" for folder in folders)
        print(f"no runs in {places}; begin with: collab run TEAM --task SUITE/0", file=sys.stderr)


def _run_row(run: RunRow) -> list[Piece]:
    from collab.cli.screen.episode import format_points
    from collab.runs.about import KILLED, RUNNING

    tones = {"done": "", RUNNING: GOOD, KILLED: BAD, "failed": BAD}
    earned, solved = run.mean_return, run.solved
    return [
        run.folder,
        f"{run.began:%Y-%m-%d %H:%M}",
        run.kind,
        run.team,
        run.task,
        (run.status, tones.get(run.status, WARN)),
        "-" if earned is None else format_points(earned, run.largest_return),
        "-" if solved is None else f"{solved:.0%}",
    ]


def _show_evaluation(folder: Path, *, json: bool) -> None:
    from collab.cli.screen.results import show_evaluation
    from collab.cli.screen.streams import json_text
    from collab.evaluation.folder import read_evaluation

    record = read_evaluation(folder)
    teams = ", ".join(record.teams) or "none"
    if record.results is not None and json:
        print(json_text(record.results))
    elif record.results is not None:
        page = open_page()
        show_evaluation(page, record.results)
        command = join(["collab", "show", f"{folder}/TEAM"])
        page.line(f"episodes of a team: {command}; ", (teams, "bold"))
    print_remarks(record.complaints)
    if record.results is None:
        raise RecordError(f"{folder} has no results of all teams; show one of them: {teams}")


def _show_run(
    run: Path,
    episode: str | None,
    turn: int | None,
    agent: str | None,
    outcome: EpisodeOutcome | None,
    *,
    json: bool,
) -> None:
    from collab.cli.screen.episode import show_episode
    from collab.cli.screen.results import show_gains
    from collab.cli.screen.streams import json_text
    from collab.recipe.differences import recipe_in, reward_in
    from collab.records.run import open_run
    from collab.rewards.declared import score_columns

    record = open_run(run)
    chosen: Sequence[Episode]
    chosen = record.episodes if episode is None else _find_episodes(record.episodes, episode)
    numbers = {each.id: number for number, each in enumerate(record.episodes)}
    if outcome is not None:
        chosen = [each for each in chosen if each.outcome == outcome]
        print_remarks([f"no episode here has the outcome '{outcome}'"] * (not chosen), "note")
    chosen = _keep_agent(_keep_turn(chosen, turn), agent)
    if json:
        for item in chosen:
            print(json_text(item))
    elif episode is None and turn is None and agent is None:
        page, reward = open_page(), None
        with suppress(RecipeError):  # the list needs no recipe
            reward = reward_in(recipe_in(run))
        _show_episodes(page, record.about, chosen, numbers, score_columns(reward))
        if gains := record.about.get("summary", {}).get("gains"):
            show_gains(page, gains)
    else:
        for item in chosen:
            show_episode(open_page(), item, decisions=True, whole=turn is None)
    print_remarks(record.complaints)


def _show_episodes(
    page: Page,
    about: dict[str, Any],
    episodes: Sequence[Episode],
    numbers: Mapping[str, int],
    declared: Sequence[ScoreColumn],
) -> None:
    """Show the episodes; columns that the reward declares are shown unless they are empty."""
    if about:
        rest = [about.get("team"), *sorted(set(about.get("models", {}).values()))]
        page.line((str(about.get("run", "")), "bold"), *(f", {name}" for name in rest if name))
    scores = [episode.score for episode in episodes if episode.score]
    declared = [item for item in declared if any(map(item.cell, scores))]
    heads = [f">{item.head}" for item in declared]
    columns = [">", "episode", "verdict", ">return", ">of", *heads, ">turns", ">tokens"]
    columns.append("flags")
    rows = [_episode_row(numbers[episode.id], episode, declared) for episode in episodes]
    page.table(columns, rows)


def _episode_row(number: int, episode: Episode, declared: Sequence[ScoreColumn]) -> list[Any]:
    from collab.cli.screen.episode import styled_outcome

    score, (word, style) = episode.score, styled_outcome(episode)
    verdict = (f"failed: {episode.failure.type}" if episode.failure else word, style)
    tokens = sum(d.action.usage.new_tokens for d in episode.decisions())
    earned = [
        "-" if points is None else f"{points:.2f}"
        for points in (episode.joint_return, episode.largest_return)
    ]
    measured = [(item.cell(score) if score else "") or "-" for item in declared]
    played = str(len(episode.turns))
    turns = f"{played} of {episode.horizon}" if episode.unplayed else played
    counts = [*measured, turns, str(tokens)]
    flags = (", ".join(score.flags) if score else "") or "-"
    return [(str(number), DIM), episode.id, verdict, *earned, *counts, (flags, WARN)]


def _find_episodes(episodes: list[Episode], name: str) -> list[Episode]:
    """Return the episodes of an id, a problem's address, or a position in the list.

    Raises:
        UnknownName: there is no such episode. The message suggests the nearest id.
    """
    if name.isdecimal() and len(name) < 10 and int(name) < len(episodes):
        return [episodes[int(name)]]
    named = [episode for episode in episodes if name in (episode.id, episode.task)]
    if not named:
        remedy = f"(or a number from 0 to {len(episodes) - 1})"
        raise UnknownName("episode", name, [e.id for e in episodes], remedy=remedy)
    return named


def _keep_turn(episodes: Sequence[Episode], turn: int | None) -> Sequence[Episode]:
    """Return the episodes that reached this turn, with only this turn. Others ended early."""
    if turn is None:
        return episodes
    reached = [episode for episode in episodes if len(episode.turns) >= turn]
    if episodes and not reached:
        most = max(len(episode.turns) for episode in episodes)
        raise RecipeError(f"no episode here has a turn {turn}; the longest has {most}")
    return [item.model_copy(update={"turns": item.turns[turn - 1 : turn]}) for item in reached]


def _keep_agent(episodes: Sequence[Episode], agent: str | None) -> Sequence[Episode]:
    """Return the episodes in which this agent acted, with only this agent."""
    if agent is None:
        return episodes
    acted = [episode for episode in episodes if episode.decisions(agent)]
    if episodes and not acted:
        known = {d.agent for episode in episodes for d in episode.decisions()}
        raise UnknownName(f"agent of {', '.join(e.id for e in episodes[:3])}", agent, known)
    return [
        episode.model_copy(
            update={"turns": tuple(_keep_agent_in_turn(turn, agent) for turn in episode.turns)}
        )
        for episode in acted
    ]


def _keep_agent_in_turn(turn: Turn, agent: str) -> Turn:
    decisions = tuple(d for d in turn.decisions if d.agent == agent)
    texts: dict[str, Mapping[str, Any]] = {"artifacts": turn.artifacts, "feedback": turn.feedback}
    of_agent = {key: {agent: each[agent]} if agent in each else {} for key, each in texts.items()}
    return turn.model_copy(update={"decisions": decisions, **of_agent})
