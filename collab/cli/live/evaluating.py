"""Following an evaluation to its end, or to the user's, and showing its tables."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing
from typing import TYPE_CHECKING

from collab import errors
from collab.cli.live.episodes import Episodes
from collab.cli.live.live import LiveView
from collab.cli.live.playing import Interruption
from collab.cli.live.running import pace_lines
from collab.cli.live.sample import Sample
from collab.cli.live.views import Report, View
from collab.cli.screen.page import BAD, DIM, GOOD, NAME, WARN, Column, Page, Piece
from collab.cli.screen.terminal import TerminalPage
from collab.errors import CollabError
from collab.evaluation.evaluation import EvaluationRun as Evaluation
from collab.evaluation.events import (
    EvaluationEvent,
    EvaluationFinished,
    EvaluationStarted,
    TeamFinished,
    TeamStarted,
)
from collab.evaluation.intervals import METHOD
from collab.evaluation.results import (
    Results,
    TeamResult,
    difference_rows,
    difference_title,
    headline,
    team_rows,
)
from collab.evaluation.table import TableCell as Cell
from collab.evaluation.table import TableRow as Row
from collab.runtime.events import AgentActing, EpisodeFinished
from collab.wording import counted

if TYPE_CHECKING:
    from rich.console import RenderableType


class EvaluationReport(Report):
    """One line for each team as it ends, then the tables."""

    def __init__(self, page: Page) -> None:
        super().__init__(page)
        self._folder: str | None = None

    def see(self, event: EvaluationEvent) -> None:
        match event:
            case EvaluationStarted():
                self._folder = event.folder
                if event.isolation == "unsafe":
                    told = "generated programs run without isolation (--sandbox unsafe)"
                    self.page.line((told, WARN))
            case TeamStarted():
                missing = event.planned - event.recorded
                told = f": {counted(missing, 'episode')} to play"
                told += f", {event.recorded} recorded" if event.recorded else ""
                self.page.line((event.label, NAME), told)
            case EvaluationFinished():
                show_results(self.page, event.results)
                if self._folder:
                    self.page.line("record: ", (self._folder, NAME))


class LiveEvaluation(LiveView[EvaluationEvent]):
    """A report of an evaluation, below which the team at work has a line with its speed."""

    work = (AgentActing,)
    end = EvaluationFinished

    def __init__(self, page: TerminalPage) -> None:
        self._team = ""
        self._episodes = Episodes()
        self._sample = Sample()
        super().__init__(page, EvaluationReport(page))

    def follow(self, event: EvaluationEvent) -> None:
        match event:
            case TeamStarted():
                self._team = event.label
                self._episodes = Episodes(planned=event.planned, finished=event.recorded)
            case TeamFinished() | EvaluationFinished():
                self._team = ""
            case _:
                if isinstance(event, EpisodeFinished):
                    self._sample.see(event.episode)
                self._episodes.see(event)

    def lines(self) -> list[RenderableType]:
        if not self._team:
            return []
        sample = self._sample.lines(self.console.width)
        return [*sample, *pace_lines(self._episodes, self._team, held=self.memory())]


def show_results(page: Page, results: Results) -> None:
    """The tables, and in words what they leave out."""
    if results.teams:
        page.line()
        page.line((headline(results), NAME))
        page.table(_columns([team.label for team in results.teams]), _rows(team_rows(results)))
    if rows := difference_rows(results):
        page.line()
        page.line((difference_title(results), NAME))
        labels = [difference.team for difference in results.differences]
        page.table(_columns(labels), _rows(rows))
    if results.teams:
        lanes = ", ".join(map(str, sorted({team.concurrency for team in results.teams})))
        told = f"in brackets {results.confidence:.0%} intervals ({METHOD}); new tokens by episode"
        told += ", cost of all" if any(_is_priced(team) for team in results.teams) else ""
        page.line((f"{told}; speed of {lanes} episodes at the same time", DIM))
    for note in results.notes:
        page.line(("note: ", WARN), note)


def _is_priced(team: TeamResult) -> bool:
    return any(agent["cost"] is not None for agent in team.agents.values())


def _columns(labels: list[str]) -> list[Column]:
    return [Column(""), *(Column(label, right=True, wrap=True) for label in labels)]


def _rows(rows: list[Row]) -> list[list[Piece]]:
    return [[row.title, *map(_piece, row.cells)] for row in rows]


def _piece(cell: Cell) -> Piece:
    return (cell.text, GOOD if cell.sign > 0 else BAD) if cell.sign else cell.text


def follow(evaluation: Evaluation, view: View[EvaluationEvent]) -> None:
    """Evaluate to the end; an interruption is a status, other trouble raises as `stream` does."""

    def give_up() -> None:
        evaluation.close()
        if evaluation.begun:
            view.see(EvaluationFinished(results=evaluation.results()))
        view.close()
        _tell_interrupted(evaluation)

    async def main() -> None:
        with Interruption(give_up) as interruption:
            stream = evaluation.stream(progress=view.progress, loading=view.loading)
            try:
                async with aclosing(stream) as events:
                    async for event in events:
                        view.see(event)
            except asyncio.CancelledError:
                if not interruption.happened:
                    raise

    try:
        asyncio.run(main())
    finally:
        if evaluation.begun and evaluation.status != "done":
            view.see(EvaluationFinished(results=evaluation.results()))
        view.close()
    if evaluation.status == "interrupted":
        _tell_interrupted(evaluation)


def _tell_interrupted(evaluation: Evaluation) -> None:
    told = f"interrupted; go on with the same command and --out {evaluation.out}"
    print(told, file=sys.stderr)


def exit_status(results: Results) -> int:
    """0 done, 130 interrupted; 1 when a team has failed throughout, 2 when it could not begin."""
    if results.status == "interrupted":
        return 130
    status = 0
    for team in results.teams:
        if team.total_failure:
            print(f"error: {team.total_failure}", file=sys.stderr)
            kinds = [getattr(errors, name, CollabError) for name in team.failures]
            status = status or (2 if all(kind.exit_status == 2 for kind in kinds) else 1)
    return status
