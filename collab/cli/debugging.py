"""Whether the user wants to see where errors come from: `collab --debug COMMAND`."""

from __future__ import annotations

wanted = False
