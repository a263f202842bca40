"""Pages of the site that are made of other files: README, schemas, and those of the root."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
COPIES = {
    "about.md": "README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
}
SCHEMAS = ("recipe", "team", "task", "reward", "trainer")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that no file in docs/ holds."""
    for page, source in COPIES.items():
        text = for_the_site((ROOT / source).read_text())
        files.append(File.generated(config, page, content=text))
    for name in SCHEMAS:
        schema = json.loads((ROOT / "docs" / "schema" / f"{name}.json").read_text())
        files.append(File.generated(config, f"reference/{name}.md", content=page_of(name, schema)))
    return files


def for_the_site(text: str) -> str:
    """A file of the root with its links as docs/ sees them; links to code are left out."""

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
    """All keys of a schema: the object itself, then every object that it is made of."""
    parts = [
        f"# {name.capitalize()}",
        f"Made from `docs/schema/{name}.json`; `collab schema {name}`.",
    ]
    parts += table_of(schema)
    for title, part in schema.get("$defs", {}).items():
        if "properties" in part:
            parts += [f"## {title}", *table_of(part)]
    return "\n\n".join(parts) + "\n"


def table_of(part: Mapping[str, Any]) -> list[str]:
    """What an object is, and a row for each of its keys."""
    required = part.get("required", ())
    rows = [
        f"| `{key}` | {cell(type_of(value))} | {cell(default_of(key, value, required))}"
        f" | {cell(value.get('description', ''))} |"
        for key, value in part.get("properties", {}).items()
    ]
    head = ["| key | type | default | meaning |", "|---|---|---|---|"]
    told = [part["description"]] if "description" in part else []
    return [*told, "\n".join([*head, *rows])]


def type_of(value: Mapping[str, Any]) -> str:
    """A short name for what a key takes."""
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
    """The default as YAML writes it; `required` where there is none."""
    if key in required:
        return "required"
    default = value.get("default")
    if default is None or (isinstance(default, str) and "\n" in default):
        return ""
    return f"`{json.dumps(default)}`"


def cell(text: str) -> str:
    """Text that stays within one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")
