"""The conformance suite: the same checks for every engine, built in or third-party.

    async for verdict in conform(engine, adapters=("runs/a", "runs/b")):
        assert verdict.outcome != "failed", verdict

What an engine declares as `capabilities` is checked. A check of anything else is skipped.
"""

from collab.models.conformance.suite import Verdict, conform

__all__ = ["Verdict", "conform"]
