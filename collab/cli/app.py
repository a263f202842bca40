"""The command line: imports a command when it runs, and turns errors into exit statuses."""

from __future__ import annotations

import errno
import inspect
import sys
import traceback
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import collab
from collab.cli import options
from collab.cli.screen.streams import escape_output, guard_streams, open_closed_streams
from collab.errors import CollabError, nearest_name
from collab.signals import INTERRUPTED_STATUS
from collab.wording import drop_python_remedies, plain_reason

PANELS = {
    "Start and check": {
        "init": "Start a project: a team, a suite and a recipe.",
        "doctor": "Check this machine: packages, devices, engines, sandbox, data.",
    },
    "Run and score": {
        "run": "Run a team on tasks and score its answers.",
        "eval": "Compare teams on the same tasks, with intervals.",
        "replay": "Run a recorded run again without a model, and compare.",
        "score": "Score programs or texts that already exist.",
        "show": "List runs, or show the episodes of one run.",
        "diff": "Compare two recorded runs, training runs or evaluations.",
        "report": "Write one HTML file about runs: curves, comparisons and episodes.",
        "view": "Show runs in the browser: list, filter, compare and follow them.",
        "serve": "Serve teams through an OpenAI-compatible API.",
    },
    "Train": {
        "probe": "Check, before training, whether a team has anything to learn from.",
        "train": "Train a team on the joint reward, with one adapter per agent.",
        "study": "Compare trainers at equal numbers of generated tokens.",
    },
    "Share": {
        "export": "Write a trained team's weights for other programs.",
        "push": "Upload a team to the Hugging Face hub, with a model card.",
    },
    "Look things up": {
        "teams": "List the teams, or show one with its agents and prompts.",
        "tasks": "List the suites, or the problems of one suite.",
        "trainers": "List the trainers, or show one with its settings.",
        "models": "List the model aliases, their sources and the engines.",
        "schema": "Print the JSON Schema of your YAML files, for editors.",
    },
}
"""The commands of `collab --help` with the first sentence of their help, without importing them."""

COMMANDS = {name: text for panel in PANELS.values() for name, text in panel.items()}

FAILED, BAD_USAGE = 1, 2

_PATH_ERRORS = (errno.ENAMETOOLONG, errno.EACCES, errno.EPERM, errno.EIO)
"""Errors of the system for a path, which collab would otherwise take for a bug of its own."""

_UsageError = typer.BadParameter.__mro__[1]
_ClickError = _UsageError.__mro__[1]


def _write_description(command: Any, ctx: Any, formatter: Any) -> None:  # noqa: ARG001
    """Write a command's docstring as it is: its lines are short, and its examples stay apart."""
    formatter.write_paragraph()
    for line in inspect.cleandoc(command.help or "").splitlines():
        formatter.write(f"{line}\n")


class Command(TyperCommand):
    """A command whose output cannot send control codes to the terminal."""

    format_help_text = _write_description

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the parts of the usage line. Required arguments have no braces."""
        pieces = super().collect_usage_pieces(ctx)
        return [piece.replace("{", "").replace("}", "") for piece in pieces]

    def invoke(self, ctx: Any) -> Any:
        with escape_output():
            return super().invoke(ctx)


class Commands(TyperGroup):
    """Imports the module of the command that runs, and turns errors into exit statuses."""

    format_help_text = _write_description

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args:
            typer.echo(ctx.get_help())
            raise typer.Exit(BAD_USAGE)
        for arg in args:
            if arg != arg.encode(errors="replace").decode():  # records are UTF-8
                ctx.fail(f"'{arg}' is not UTF-8 text; use another name")
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Return the command with its summary, without importing its module."""
        if cmd_name not in COMMANDS:
            return None
        return TyperCommand(cmd_name, help=COMMANDS[cmd_name])

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002
        for panel, summaries in PANELS.items():
            with formatter.section(panel):
                formatter.write_dl(list(summaries.items()))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args[0] not in COMMANDS and not args[0].startswith("-"):
            close = nearest_name(args[0], COMMANDS)
            remedy = f"did you mean '{close}'?" if close else f"known: {', '.join(COMMANDS)}"
            ctx.fail(f"unknown command '{args[0]}'; {remedy}")
        name, command, rest = super().resolve_command(ctx, args)
        return name, command and _import_command(str(name)), rest

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command line and exit. Every error is one message on stderr."""
        open_closed_streams()
        for stream in (sys.stdout, sys.stderr):
            if hasattr(stream, "reconfigure"):
                stream.reconfigure(errors="backslashreplace")
        with guard_streams():
            try:
                extra |= {"prog_name": "collab", "standalone_mode": False}
                status = super().main(*args, **extra)
            except (KeyboardInterrupt, typer.Abort):
                status = INTERRUPTED_STATUS
            except Exception as error:
                status = print_error(error)
            sys.exit(status if isinstance(status, int) else 0)


def _import_command(name: str) -> Any:
    module = import_module(f"collab.cli.commands.{name}")
    single = typer.Typer(add_completion=False, rich_markup_mode=None)
    single.command(name, cls=Command)(module.command)
    command: Any = typer.main.get_command(single)
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: None  # noqa: ARG005
    return command


def print_error(error: Exception) -> int:
    """Print an error on stderr, and return its exit status."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if options.debugging:
        traceback.print_exception(error)
        if trace := getattr(error, "trace", None):
            print(f"caused by:\n{trace}", file=sys.stderr)
    if isinstance(error, CollabError):
        message = drop_python_remedies(str(error))
        place = message.partition(": ")[0]
        message = message.replace(f"\n{place}: ", f"\nerror: {place}: ")
        print(f"error: {message}", file=sys.stderr)
        return error.exit_status
    if isinstance(error, _ClickError):
        return _print_usage_error(error)
    if isinstance(error, OSError) and error.errno in _PATH_ERRORS:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
        return BAD_USAGE
    if isinstance(error, FileNotFoundError) and error.filename is None:  # of os.getcwd
        print("error: the current folder was deleted; change to another one", file=sys.stderr)
        return BAD_USAGE
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    print("".join(traceback.format_list(frames)), end="", file=sys.stderr)
    print(f"error: {type(error).__name__}: {error}", file=sys.stderr)
    print("this is a bug in collab; please report it, with your command line", file=sys.stderr)
    return FAILED


def _print_usage_error(error: Any) -> int:
    context = getattr(error, "ctx", None)
    if message := _usage_message(error):
        print(f"error: {message}", file=sys.stderr)
    if context is not None and message:
        print(f"see '{context.command_path} --help'", file=sys.stderr)
    return BAD_USAGE


def _usage_message(error: Any) -> str:
    """Return the message of a usage error. It gives a value of the wrong type or size."""
    message = str(error.format_message())
    if hasattr(error.__cause__, "errors"):
        problem = error.__cause__.errors()[0]
        message = f"{message.partition(': ')[0]}: {plain_reason(problem['msg'])}"
        if problem["type"] != "value_error":  # the reason of a value_error names the value
            message += f", got {problem['input']!s:.80}"
    return message[:1].lower() + message[1:].rstrip(".")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"collab {collab.__version__}")
        raise typer.Exit


app = typer.Typer(
    name="collab",
    cls=Commands,
    add_completion=True,
    rich_markup_mode=None,
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
            callback=_print_version,
            is_eager=True,
        ),
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show a traceback with each error.")
    ] = False,
) -> None:
    """Run teams of language models and train them together.

    A recipe combines a team, a suite of tasks and a model. Runs are saved to runs/.

    Examples:
      collab run coding --task humaneval/12    two agents write a program
      collab show runs/ID humaneval/12         what happened, turn by turn
      collab eval coding runs/ID -t humaneval  two teams compared, with intervals
      collab train examples/recipes/game.yaml  a team learns a game, in a minute on a CPU
      collab init my-project                   a new project
    """
    options.debugging = debug
