"""A report as one HTML file that loads nothing else: style, script, data and safe strings."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import isfinite
from typing import Any

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

import collab
from collab.wording import escape_controls

STYLES = (
    *("base", "frame", "results", "head", "curves", "tables"),
    *("list", "episode", "turns", "media"),
)
SCRIPTS = (
    *("dom", "data", "python", "diff"),
    *("axes", "charts", "curves"),
    *("sorted", "columns", "list"),
    *("turns", "problem", "compare", "episode", "main"),
)
"""Scripts. Each may use those before it."""


@dataclass(frozen=True)
class Updates:
    """The address at which a served page asks for changes in its runs."""

    at: str
    stamp: str
    """Stamp that the server returns while nothing has changed."""


def fill_page(
    template: str,
    styles: Sequence[str],
    scripts: Sequence[str],
    *,
    may_connect: bool = False,
    updates: Updates | None = None,
    **values: Any,
) -> str:
    """Fill a template with escaped values, and include its style and script.

    Args:
        may_connect: True if the script may send requests to the page's server.
        updates: the address that the page asks for changes. It adds the script that asks.
    """
    scripts = [*scripts, "follow"] if updates else scripts
    style = "\n".join(_read_asset(f"{name}.css") for name in styles)
    script = '"use strict";\n' + "\n".join(_read_asset(f"{name}.js") for name in scripts)
    return (
        _environment()
        .get_template(f"{template}.html.j2")
        .render(
            style=Markup(style),
            script=Markup(script),
            policy=_content_policy(style, script, may_connect=may_connect or updates is not None),
            version=collab.__version__,
            updates=updates,
            **values,
        )
    )


@cache
def _environment() -> Environment:
    """Return an environment that escapes every value and shows control characters by name."""
    environment = Environment(
        loader=FunctionLoader(_read_asset),
        autoescape=True,
        trim_blocks=True,
        finalize=lambda value: escape_controls(value) if type(value) is str else value,
        undefined=StrictUndefined,
    )
    environment.filters["without"] = lambda facts, shared: [
        (label, value) for label, value in facts.items() if label not in shared
    ]
    return environment


def _read_asset(name: str) -> str:
    """Return an asset of the report, or as `room:asset` one of another package."""
    room, _, file = name.rpartition(":")
    return (files(room or "collab.report") / "assets" / file).read_text(encoding="utf-8")


def _content_policy(style: str, script: str, *, may_connect: bool) -> str:
    """Return a policy that allows only this style and this script, and no loading or sending."""
    return "; ".join(
        [
            "default-src 'none'",
            f"style-src '{_digest(style)}'",
            f"script-src '{_digest(script)}'",
            *(["connect-src 'self'"] if may_connect else []),
            "base-uri 'none'",
            "form-action 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        ]
    )


def _digest(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


class Texts:
    """A table of strings, shortened to at most `limit` characters with a note on the rest."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.shortened = 0
        """Number of strings that were shortened."""
        self._places: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        """Return the position of a string in the table."""
        if len(text) > self.limit:
            left_out = len(text) - self.limit
            text = f"{text[: self.limit]}\n[{left_out:,} more characters are left out]"
            self.shortened += text not in self._places
        return self._places.setdefault(text, len(self._places))

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)


def pack_data(data: Any) -> Markup:
    """Return data as JSON, compressed by gzip and encoded in base64, so it contains no markup."""
    text = json.dumps(_json_value(data), ensure_ascii=False, separators=(",", ":"))
    return Markup(base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode("ascii"))


def _json_value(data: Any) -> Any:
    """Return JSON data with visible control characters, and numbers of six digits."""
    if isinstance(data, str):
        return escape_controls(data)
    if isinstance(data, float):
        return float(f"{data:.6g}") if isfinite(data) else None
    if isinstance(data, dict):
        return {escape_controls(key): _json_value(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_json_value(value) for value in data]
    return data
