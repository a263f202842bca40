"""The conformance suite: the same checks for every engine, built in or third-party.

    async for verdict in conform(engine, adapters=("runs/a", "runs/b")):
        assert verdict.outcome != "failed", verdict

The suite checks every capability that the engine declares, and skips the checks of all others.
"""

from collab.models.conformance.suite import CheckOutcome, conform

__all__ = ["CheckOutcome", "conform"]
