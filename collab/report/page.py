"""A report as one HTML file: its style, script and data are inside, and it loads nothing else."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

import collab
from collab.report.texts import visible

STYLES = (
    "base",
    "frame",
    "results",
    "head",
    "curves",
    "tables",
    "list",
    "episode",
    "turns",
    "media",
)
SCRIPTS = (
    *("dom", "data", "python", "diff"),
    *("axes", "charts", "curves"),
    *("columns", "list"),
    *("turns", "problem", "compare", "episode", "main"),
)
"""In the order in which they build on each other."""


def render(report: Any, data: str) -> str:
    """The page; `data` is what its script reads, packed."""
    style = "\n".join(_part(f"{name}.css") for name in STYLES)
    script = '"use strict";\n' + "\n".join(_part(f"{name}.js") for name in SCRIPTS)
    return (
        _environment()
        .get_template("report.html.j2")
        .render(
            report=report,
            data=Markup(data),
            style=Markup(style),
            script=Markup(script),
            policy=_policy(style, script),
            version=collab.__version__,
        )
    )


def _environment() -> Environment:
    """Every value is escaped, and what steers the text around it is shown by its name."""
    environment = Environment(
        loader=FunctionLoader(_part),
        autoescape=True,
        trim_blocks=True,
        finalize=_shown,
        undefined=StrictUndefined,
    )
    environment.filters |= {"count": _count, "money": _money, "without": _without}
    return environment


def _part(name: str) -> str:
    return (files("collab.report") / "assets" / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Nothing is loaded, nothing is sent, and only this style and this script are obeyed."""
    return "; ".join(
        [
            "default-src 'none'",
            f"style-src '{_digest(style)}'",
            f"script-src '{_digest(script)}'",
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _shown(value: Any) -> Any:
    return visible(value) if type(value) is str else value


def _count(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"


def _without(facts: dict[str, str], shared: dict[str, str]) -> list[tuple[str, str]]:
    return [(label, value) for label, value in facts.items() if label not in shared]


def _money(cost: float | None) -> str:
    return "–" if cost is None else f"${cost:.4f}"
