"""The commands, imported when they are needed, and how their errors end."""

from __future__ import annotations

import inspect
import re
import sys
import traceback
from functools import partial
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

import collab
from collab.cli import options
from collab.cli.screen.streams import guarded_streams, safe_output
from collab.errors import CollabError, nearest

RUN, TRAIN, SHARE = "Run and score", "Train", "Share"
LOOK, START = "Look things up", "Start and check"


class Entry(NamedTuple):
    """A command's entry in `collab --help`, which imports no command."""

    panel: str
    summary: str
    """The first sentence of the command's own help."""


COMMANDS = {
    "run": Entry(RUN, "Run a team on problems, and score what it makes."),
    "eval": Entry(RUN, "Compare teams on the same problems, with intervals."),
    "replay": Entry(RUN, "Run a recorded run again without a model, and compare."),
    "score": Entry(RUN, "Score programs or texts that are already written, as a team's would be."),
    "show": Entry(RUN, "List the runs; show the episodes of one, or one of them turn by turn."),
    "diff": Entry(RUN, "Compare two runs, trainings or evaluations that are recorded."),
    "watch": Entry(RUN, "Follow a run, a training or an evaluation that another process does."),
    "report": Entry(RUN, "Write one HTML file about runs: curves, comparisons, and every episode."),
    "view": Entry(
        RUN, "Show runs in the browser: list, filter, compare, and follow those at work."
    ),
    "serve": Entry(RUN, "Serve teams as OpenAI's servers serve models."),
    "export": Entry(SHARE, "Write a trained team's weights for other programs."),
    "push": Entry(SHARE, "Send a team to the Hugging Face hub, with a card made from its record."),
    "probe": Entry(TRAIN, "Tell, before anyone trains, what a team's play says of training it."),
    "train": Entry(
        TRAIN, "Train a team: every agent by the joint reward, each with an adapter of its own."
    ),
    "study": Entry(TRAIN, "Train with several trainers at equal tokens, and compare them."),
    "teams": Entry(LOOK, "List the teams, or show one with its agents and prompts."),
    "tasks": Entry(LOOK, "List the suites, or the problems of one."),
    "trainers": Entry(LOOK, "List the trainers, or show one with its settings."),
    "models": Entry(LOOK, "List the model aliases, where they come from, and the engines."),
    "schema": Entry(LOOK, "Print the JSON Schema of what you write, for editors and checkers."),
    "init": Entry(START, "Make a project of your own: a team, a suite, a recipe."),
    "doctor": Entry(START, "Check this machine: packages, devices, engines, isolation, data."),
}


FAILED, BAD_USAGE, INTERRUPTED = 1, 2, 130

_UsageError = typer.BadParameter.__mro__[1]
_ClickError = _UsageError.__mro__[1]
_MARKUP = re.compile(r"\[/?(?:bold)?\]")


class Command(TyperCommand):
    """A command whose help names values, not types, and whose output is safe to look at."""

    def get_params(self, ctx: Any) -> Any:
        return _ours(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        if sys.stdout.isatty():
            super().format_help(ctx, formatter)
        else:
            write_help(self, ctx, formatter)

    def invoke(self, ctx: Any) -> Any:
        with safe_output():
            return super().invoke(ctx)


class Commands(TyperGroup):
    """Imports the module of the command that is asked for; turns errors into exit statuses."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args:
            typer.echo(ctx.get_help())
            raise typer.Exit(BAD_USAGE)
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """The command as it stands in the list, without its module."""
        if cmd_name not in COMMANDS:
            return None
        panel, summary = COMMANDS[cmd_name]
        return TyperCommand(cmd_name, help=summary, rich_help_panel=panel)

    def get_params(self, ctx: Any) -> Any:
        return _ours(super().get_params(ctx))

    def format_help(self, ctx: Any, formatter: Any) -> None:
        if sys.stdout.isatty():
            super().format_help(ctx, formatter)
        else:
            write_help(self, ctx, formatter)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            close = nearest(args[0], COMMANDS)
            remedy = f"did you mean '{close}'?" if close else f"known: {', '.join(COMMANDS)}"
            ctx.fail(f"unknown command '{args[0]}'; {remedy}")
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and _imported(str(name)), rest

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line and exit; every error is one message on stderr."""
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        with guarded_streams():
            try:
                extra |= {"prog_name": "collab", "standalone_mode": False}
                status = super().main(*args, **extra)
            except KeyboardInterrupt:
                status = INTERRUPTED
            except typer.Abort:
                status = INTERRUPTED
            except Exception as error:
                status = report(error)
            sys.exit(status if isinstance(status, int) else 0)


def write_help(command: Any, ctx: Any, formatter: Any) -> None:
    """Write typer's help without rich, whose import takes most of the time of `--help`."""
    formatter.width = ctx.terminal_width or 80
    command.format_usage(ctx, formatter)
    formatter.write_paragraph()
    text = inspect.cleandoc(command.help or "")
    for line in _MARKUP.sub("", text).replace("\\[", "[").splitlines():
        formatter.write(f"{line}\n")
    for title, rows in _panels(command, ctx).items():
        formatter.write_paragraph()
        formatter.write_heading(title)
        with formatter.indentation():
            formatter.write_dl(rows)


def _panels(command: Any, ctx: Any) -> dict[str, list[tuple[str, str]]]:
    """The rows of each panel by its title: arguments, then options, then commands."""
    panels: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": []}
    for parameter in command.get_params(ctx):
        panel = "Arguments" if parameter.param_type_name == "argument" else "Options"
        if row := parameter.get_help_record(ctx):
            panels.setdefault(getattr(parameter, "rich_help_panel", None) or panel, []).append(row)
    names = command.list_commands(ctx) if hasattr(command, "list_commands") else ()
    for name in names:
        below = command.get_command(ctx, name)
        panels.setdefault(below.rich_help_panel, []).append((name, below.help))
    return {title: rows for title, rows in panels.items() if rows}


def _imported(name: str) -> Any:
    module = import_module(f"collab.cli.commands.{name}")
    single = typer.Typer(add_completion=False, rich_markup_mode="rich")
    register = single.command(name, cls=Command, rich_help_panel=COMMANDS[name].panel)
    register(module.command)
    return typer.main.get_command(single)


def _ours(parameters: Any) -> Any:
    """Each without its type in the help, and checked only where it is given."""
    for parameter in parameters:
        _leave_out_type(parameter)
        if not parameter.required and not isinstance(parameter.process_value, partial):
            parameter.process_value = partial(_processed, parameter, parameter.process_value)
    return parameters


def _leave_out_type(parameter: Any) -> None:
    """Options show the word for their value, arguments their own name, flags neither."""
    if getattr(parameter, "is_flag", False):
        parameter.metavar = ""
    elif parameter.param_type_name == "argument":
        parameter.display_type_rich = _no_type


def _processed(parameter: Any, process: Any, ctx: Any, value: Any) -> Any:
    """What is left out is None without a check, for which typer would import all of pydantic."""
    if value is not None:
        return process(ctx, value)
    return parameter.callback(ctx, parameter, None) if parameter.callback else None


def _no_type(ctx: Any) -> None:
    """Stand in for the type of an argument, which typer would show as `<str>`."""


def report(error: Exception) -> int:
    """Tell the user of an error, on stderr; gives the exit status."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if options.debugging:
        traceback.print_exception(error)
        if trace := getattr(error, "trace", None):
            print(f"this came of:\n{trace}", file=sys.stderr)
    if isinstance(error, CollabError):
        print(f"error: {error}", file=sys.stderr)
        return error.exit_status
    if isinstance(error, _ClickError):
        return _report_usage(error)
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    print("".join(traceback.format_list(frames)), end="", file=sys.stderr)
    print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
    print("this is a defect of collab; please report it with the command line", file=sys.stderr)
    return FAILED


def _report_usage(error: Any) -> int:
    context = getattr(error, "ctx", None)
    if message := error.format_message():
        print(f"error: {message}", file=sys.stderr)
    if context is not None and message:
        print(f"see '{context.command_path} --help'", file=sys.stderr)
    return BAD_USAGE


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"collab {collab.__version__}")
        raise typer.Exit


app = typer.Typer(
    name="collab",
    cls=Commands,
    add_completion=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def collab_(
    version: Annotated[  # noqa: ARG001
        bool,
        typer.Option(
            "--version",
            help="Show the version.",
            metavar="",
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show where errors come from.", metavar="")
    ] = False,
) -> None:
    """Teams of language models that work together, and can be trained together.

    A recipe joins a team, a suite and a model; a run leaves its record in runs/.

    [bold]Examples[/]
      collab run coding --task humaneval/12   two agents write a program
      collab show runs/ID humaneval/12        what happened, turn by turn
      collab score humaneval/12 mine.py       the reward of a program of yours
      collab init my-project                  a project of your own
    """
    options.debugging = debug
