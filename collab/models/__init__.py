"""Models: one interface and several engines. Each engine is imported when it is opened.

`base` is the interface, `open` finds the engine that a recipe names, and `conformance/` checks that
an engine follows the interface. `local/` runs a model in this process, `vllm/` in others; `hosted/`
calls services, `fakes` need no model. `store/` holds the weights.
"""

from collab.models.base import (
    Call,
    Capabilities,
    Model,
    Progress,
    Request,
)

__all__ = [
    "Call",
    "Capabilities",
    "Model",
    "Progress",
    "Request",
]
