"""The page on engines."""

import re
from pathlib import Path

from collab.models.vllm.server import START

PAGE = Path(__file__).parents[2] / "docs/engines.md"


def test_server_command_of_the_page_has_the_required_options() -> None:
    """The options include a seed; without one, every server samples the same numbers."""
    [command] = re.findall(r"```sh\n(VLLM_.* vllm serve .*?)```", PAGE.read_text(), re.DOTALL)
    flags = re.compile(r"--[a-z-]+")
    assert "--seed" in flags.findall(START)
    assert flags.findall(command) == flags.findall(START)
