"""Chooses a suite for each team of the library, among suites that need no hub."""

from collab.recipe.library import components

OF_ONE_SUITE = ("classeval", "pro", "pro-main-first", "pro-parallel", "pro-qwen", "pro-single")
TEAMS = [n for n, _ in components("team") if n not in OF_ONE_SUITE]
"""Teams that need no fields of a particular suite; tests/tasks covers the others."""


def suite_of(team: str) -> str:
    """The suite with the team's name or of its kind; otherwise `humaneval`."""
    if team in {name for name, path in components("task") if "  hub: " not in path.read_text()}:
        return team
    kind = team.partition("-")[0]
    return {"arxiv": "arxiv", "tldr": "tldr", "pocket": "pocket-code"}.get(kind, "humaneval")
