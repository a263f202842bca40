"""Generates pages of the site: from README and similar files, the schemas, and `--help`."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from typer.testing import CliRunner

from collab.cli.app import PANELS, app

ROOT = Path(__file__).resolve().parents[1]
COPIES = {
    "index.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
}
SCHEMAS = ("recipe", "team", "task", "reward", "trainer")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for page, source in COPIES.items():
        text = for_the_site((ROOT / source).read_text())
        files.append(File.generated(config, page, content=text))
    for name in SCHEMAS:
        schema = json.loads((ROOT / "docs" / "schema" / f"{name}.json").read_text())
        files.append(File.generated(config, f"reference/{name}.md", content=page_of(name, schema)))
    files.append(File.generated(config, "reference/cli.md", content=command_line()))
    return files


def command_line() -> str:
    """Return the help of every command, as shown on a terminal of 80 columns."""
    parts = ["# Command line", "Generated from `--help`.", help_of()]
    for panel, entries in PANELS.items():
        parts.append(f"## {panel}")
        for name in entries:
            parts += [f"### collab {name}", help_of(name)]
    return "\n\n".join(parts) + "\n"


def help_of(*command: str) -> str:
    """Return a code block with the help of one command, or of collab itself."""
    shown = CliRunner(env={"COLUMNS": "80"}).invoke(app, [*command, "--help"], prog_name="collab")
    return f"```text\n{shown.output.rstrip()}\n```"


def for_the_site(text: str) -> str:
    """Rewrite a root file's links for docs/; links to code become plain words."""

    def link(match: re.Match[str]) -> str:
        words, target = match.groups()
        if target.startswith("https://"):
            return match[0]
        if target.startswith("docs/"):
            return f"[{words}]({target.removeprefix('docs/')})"
        pages = {source: page for page, source in COPIES.items()}
        return f"[{words}]({pages[target]})" if target in pages else words

    return re.sub(r"\[([^\]]*)\]\(([^)\s]+)\)", link, text)


def page_of(name: str, schema: Mapping[str, Any]) -> str:
    """Document a schema: its own keys, then those of every object in it."""
    parts = [
        f"# {name.capitalize()}",
        f"Generated from `docs/schema/{name}.json`, which `collab schema {name}` prints.",
    ]
    parts += table_of(schema)
    for title, part in schema.get("$defs", {}).items():
        if "properties" in part:
            parts += [f"## {title}", *table_of(part)]
    return "\n\n".join(parts) + "\n"


def table_of(part: Mapping[str, Any]) -> list[str]:
    """Describe an object, with a table row for each of its keys."""
    required = part.get("required", ())
    rows = [
        f"| `{key}` | {cell(type_of(value))} | {cell(default_of(key, value, required))}"
        f" | {cell(value.get('description', ''))} |"
        for key, value in part.get("properties", {}).items()
    ]
    head = ["| key | type | default | meaning |", "|---|---|---|---|"]
    description = [part["description"]] if "description" in part else []
    return [*description, "\n".join([*head, *rows])]


def type_of(value: Mapping[str, Any]) -> str:
    """Return a short name for the type of a key."""
    if "$ref" in value:
        return str(value["$ref"]).rpartition("/")[2]
    for choice in ("anyOf", "oneOf"):
        if choice in value:
            return " or ".join(dict.fromkeys(map(type_of, value[choice])))
    if "enum" in value:
        return " or ".join(f"`{item}`" for item in value["enum"])
    if "const" in value:
        return f"`{value['const']}`"
    if value.get("type") == "array":
        return f"list of {type_of(value.get('items', {}))}"
    return str(value.get("type", "anything"))


def default_of(key: str, value: Mapping[str, Any], required: Any) -> str:
    """Return the default in YAML, or `required` if there is none."""
    if key in required:
        return "required"
    default = value.get("default")
    if default is None or (isinstance(default, str) and "\n" in default):
        return ""
    return f"`{json.dumps(default)}`"


def cell(text: str) -> str:
    """Escape a string so that it stays within one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
