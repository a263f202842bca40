"""The conformance suite: the same checks for every engine, built in or a third party's.

    async for verdict in conform(engine, adapters=("runs/a", "runs/b")):
        assert verdict.outcome != "failed", verdict

What an engine declares as `capabilities` is demanded of it; what it does not is passed over.
"""

from collab.models.conformance.suite import Verdict, conform

__all__ = ["Verdict", "conform"]
