"""The engines' page."""

from __future__ import annotations

import re
from pathlib import Path

from collab.models.vllm.server import START

PAGE = Path(__file__).parents[2] / "docs/engines.md"


def test_a_server_is_started_by_the_options_that_a_refusal_names() -> None:
    """A seed among them: without one every server draws the same numbers."""
    [command] = re.findall(r"```sh\n(VLLM_.* vllm serve .*?)```", PAGE.read_text(), re.DOTALL)
    flags = re.compile(r"--[a-z-]+")
    assert "--seed" in flags.findall(START)
    assert flags.findall(command) == flags.findall(START)
