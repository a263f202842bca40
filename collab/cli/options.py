"""Options that several commands share, with their completion and checks."""

from __future__ import annotations

import re
import sys
import termios
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from collab.runs.layout import DEFAULT_FOLDERS, RUN_MARKERS, RUNS
from collab.wording import drop_python_remedies

if TYPE_CHECKING:
    from pydantic import BaseModel

    from collab.recipe.library import ComponentKind
    from collab.trust import Consent, Question


def option(flags: str, value: str, help: str, default: Any = None, **more: Any) -> Any:
    """Return a typer option of comma-separated `flags`, with `value` shown for its value."""
    return typer.Option(default, *flags.split(", "), metavar=value, help=help, **more)


def flag(name: str, help: str) -> Any:
    """Return a typer option without a value."""
    return typer.Option(False, name, help=help)


def argument(value: str, help: str, default: Any = ..., **more: Any) -> Any:
    """Return a typer argument, shown as `value`. Without a default, it is required."""
    return typer.Argument(default, metavar=value, help=help, **more)


debugging = False
"""True if errors show a traceback: `collab --debug COMMAND`."""


def complete_teams(incomplete: str) -> list[str]:
    """Return the names of teams, and the folders of runs, that begin with the text typed so far."""
    return [*_complete_components("team", incomplete), *complete_runs(incomplete)]


def complete_suites(incomplete: str) -> list[str]:
    """Return the names of suites that begin with the text typed so far."""
    return _complete_components("task", incomplete)


def complete_trainers(incomplete: str) -> list[str]:
    """Return the names of trainers that begin with the text typed so far."""
    return _complete_components("trainer", incomplete)


def complete_runs(incomplete: str) -> list[str]:
    """Return the folders of runs and evaluations that begin with the text typed so far."""
    folders = {
        str(file.parent)
        for place in DEFAULT_FOLDERS
        for mark in RUN_MARKERS
        for pattern in (f"*/{mark}", f"*/*/{mark}")
        for file in Path(place).glob(pattern)
    }
    return _matching_names(folders, incomplete)


def _complete_components(kind: ComponentKind, incomplete: str) -> list[str]:
    from collab.recipe import library

    return _matching_names({name for name, _ in library.components(kind)}, incomplete)


_SHELL_SAFE_NAME = re.compile(r"[\w./][\w./+-]*")
"""Names without special characters. Shells may run other names, or insert them unquoted."""


def _matching_names(names: Iterable[str], incomplete: str) -> list[str]:
    return sorted(n for n in names if n.startswith(incomplete) and _SHELL_SAFE_NAME.fullmatch(n))


def task_option(verb: str, more: str = " Repeatable.") -> Any:
    """Return the option --task of a command that runs, trains on or probes tasks."""
    return option(
        "--task, -t",
        "SUITE[/TASKS]",
        f"Tasks to {verb}: a suite, SUITE/0-19 or FILE.jsonl/3.{more} Default: the recipe's tasks.",
        autocompletion=complete_suites,
    )


def samples_option(default_text: str, *, minimum: int = 1, default: int | None = None) -> Any:
    text = f"Episodes per task. Default: {default_text}."
    return option("--samples, -n", "N", text, default, min=minimum, show_default=False)


def seed_option(default_text: str, *, default: int | None = None) -> Any:
    same = "With local models on a CPU, the same seed gives the same tokens on the same machine."
    text = f"Random seed. {same} Default: {default_text}."
    return option("--seed", "N", text, default, min=0, show_default=False)


def setting_option(spec: type[BaseModel], name: str, value: str = "") -> Any:
    """Return the option of one of the settings `spec`, with its own text, default and limit."""
    one = spec.model_fields[name]
    flags, text = f"--{name.replace('_', '-')}", str(one.description)
    if not value:
        return flag(flags, text)
    least = next((limit.ge for limit in one.metadata if hasattr(limit, "ge")), None)
    return option(flags, value, text, one.default, min=least)


def out_option(default_text: str) -> Any:
    """Return the option --out of a command that writes a record."""
    return option("--out", "DIR", f"Folder for the record. Default: {default_text}.")


TEAM = argument(
    "TEAM",
    "A team's name, a team file, a recipe file, or a run's folder.",
    autocompletion=complete_teams,
)
TEAMS = argument(
    "TEAM",
    "Names of teams, team files, recipe files, or folders of runs.",
    autocompletion=complete_teams,
)
SETTINGS = option(
    "--set", "KEY=VALUE", "Change one key of the recipe, e.g. team.turns=2. Repeatable."
)
MODEL = option(
    "--model, -m",
    "NAME",
    "Model for all agents without their own: an alias, a hub name, a folder or ENGINE:NAME;"
    " see 'collab models'.",
)
SEED = seed_option("the recipe's, otherwise 0")
JSON = flag("--json", "Print JSON lines on stdout, everything else on stderr.")
JSON_LIST = flag("--json", "Print JSON lines, one per row, with every field.")
RUN_OUT = out_option(f"{RUNS}/ID")
DRY_RUN = flag("--dry-run", "Check the recipe and show the plan, without running it.")
SHOW_RECIPE = flag("--show-recipe", "Like --dry-run, but also show the full recipe.")
Isolation = Literal["sealed", "unsafe"]
SANDBOX = option(
    "--sandbox",
    "sealed|unsafe",
    "Isolation of generated programs; unsafe means none. Default: sealed.",
)
WORKERS = option(
    "--workers",
    "N",
    "Number of generated programs to run in parallel. Default: one per processor.",
    min=1,
)
TRUST = flag(
    "--trust",
    "Approve the third-party functions and commands of this call without asking.",
)


def consent(trust: bool) -> Consent:
    """Return True for --trust, otherwise a function that asks at the terminal."""
    return trust or (_ask if sys.stdin.isatty() and sys.stderr.isatty() else False)


def _ask(question: Question) -> bool:
    print(question.text(), file=sys.stderr)
    termios.tcflush(sys.stdin, termios.TCIFLUSH)  # an answer given before the question is none
    text = "Read these files first. Allow them until they change?"
    return typer.confirm(text, default=False, err=True)


def suite_of(addresses: Sequence[str] | None) -> str | None:
    """Return the suite in the first address, or None if there are no addresses."""
    from collab.tasks import split_address

    return split_address(addresses[0])[0] if addresses else None


def with_sandbox(
    settings: Sequence[str] | None, isolation: Isolation | None, workers: int | None = None
) -> list[str]:
    """Return the settings, extended by those of --sandbox and --workers."""
    changes = list(settings or ())
    if isolation is not None:
        changes.append(f"sandbox.isolation={isolation}")
    if workers is not None:
        changes.append(f"sandbox.workers={workers}")
    return changes


def print_remarks(texts: Iterable[str], kind: str = "warning") -> None:
    """Print each string on stderr, after the word `kind`."""
    for text in texts:
        print(f"{kind}: {drop_python_remedies(text)}", file=sys.stderr)


def set_up_tracing() -> None:
    """Send spans if the environment specifies a collector; print a note if that fails."""
    from collab.telemetry import set_up_tracing

    if trouble := set_up_tracing():
        print_remarks([trouble], "note")
