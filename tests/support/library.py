"""Which of the library's suites a team of the library works on, of those that need no hub."""

from collab.recipe.library import components

OF_ONE_SUITE = ("classeval", "pro", "pro-parallel", "pro-qwen", "pro-single")
TEAMS = [n for n, _ in components("team") if n not in OF_ONE_SUITE]
"""All but those that read fields which only their own suites have: tests/tasks/."""


def suite_of(team: str) -> str:
    """The suite of the team's own name, or of its kind; `humaneval` for teams that write code."""
    if team in {name for name, path in components("task") if "  hub: " not in path.read_text()}:
        return team
    kind = team.partition("-")[0]
    return {"arxiv": "arxiv", "tldr": "tldr", "pocket": "pocket-code"}.get(kind, "humaneval")
