"""The commands, imported when they are needed, and how their errors end."""

from __future__ import annotations

import sys
import traceback
from functools import partial
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

import collab
from collab.cli import debugging
from collab.cli.listed import COMMANDS
from collab.cli.screen.help import write_help
from collab.cli.screen.streams import guarded_streams, safe_output
from collab.errors import CollabError, nearest

FAILED, BAD_USAGE, INTERRUPTED = 1, 2, 130

_UsageError = typer.BadParameter.__mro__[1]
_ClickError = _UsageError.__mro__[1]


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
    if debugging.wanted:
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
    debugging.wanted = debug
