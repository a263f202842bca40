"""The commands by name, with what `collab --help` says of each: it imports none of them."""

from __future__ import annotations

from typing import NamedTuple

RUN, TRAIN, SHARE = "Run and score", "Train", "Share"
LOOK, START = "Look things up", "Start and check"


class Listed(NamedTuple):
    """How a command stands in the list."""

    panel: str
    summary: str
    """The first sentence of the command's own help."""


COMMANDS = {
    "run": Listed(RUN, "Run a team on problems, and score what it makes."),
    "eval": Listed(RUN, "Compare teams on the same problems, with intervals."),
    "replay": Listed(RUN, "Run a recorded run again without a model, and compare."),
    "score": Listed(RUN, "Score programs or texts that are already written, as a team's would be."),
    "show": Listed(RUN, "List the runs; show the episodes of one, or one of them turn by turn."),
    "diff": Listed(RUN, "Compare two runs, trainings or evaluations that are recorded."),
    "watch": Listed(RUN, "Follow a run, a training or an evaluation that another process does."),
    "report": Listed(
        RUN, "Write one HTML file about runs: curves, comparisons, and every episode."
    ),
    "view": Listed(
        RUN, "Show runs in the browser: list, filter, compare, and follow those at work."
    ),
    "serve": Listed(RUN, "Serve teams as OpenAI's servers serve models."),
    "export": Listed(SHARE, "Write a trained team's weights for other programs."),
    "push": Listed(SHARE, "Send a team to the Hugging Face hub, with a card made from its record."),
    "probe": Listed(TRAIN, "Tell, before anyone trains, what a team's play says of training it."),
    "train": Listed(
        TRAIN, "Train a team: every agent by the joint reward, each with an adapter of its own."
    ),
    "study": Listed(TRAIN, "Train with several trainers at equal tokens, and compare them."),
    "teams": Listed(LOOK, "List the teams, or show one with its agents and prompts."),
    "tasks": Listed(LOOK, "List the suites, or the problems of one."),
    "trainers": Listed(LOOK, "List the trainers, or show one with its settings."),
    "models": Listed(LOOK, "List the model aliases, where they come from, and the engines."),
    "schema": Listed(LOOK, "Print the JSON Schema of what you write, for editors and checkers."),
    "init": Listed(START, "Make a project of your own: a team, a suite, a recipe."),
    "doctor": Listed(START, "Check this machine: packages, devices, engines, isolation, data."),
}
