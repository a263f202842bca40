"""How far predictions can be trusted, told by what they were not fitted to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from collab.stats import deviation

DECAY = 0.9
"""What a step's errors count at the next one."""


class HeldOut:
    """R^2 within what is compared, of predictions made before they were fitted to the step.

    A moving average over steps.
    """

    def __init__(self) -> None:
        self._errors = self._spread = 0.0

    @property
    def share(self) -> float:
        """R^2, 0 where it is not above 0, and as long as nothing is known."""
        return max(0.0, 1 - self._errors / self._spread) if self._spread > 0 else 0.0

    def begin(self) -> None:
        """Let earlier steps count for less."""
        self._errors, self._spread = DECAY * self._errors, DECAY * self._spread

    def add(self, predicted: Sequence[float], returns: Sequence[float]) -> None:
        """Note what was predicted of returns that are compared with each other."""
        errors = [value - guess for value, guess in zip(returns, predicted, strict=True)]
        self._errors += len(returns) * deviation(errors) ** 2
        self._spread += len(returns) * deviation(returns) ** 2

    def state(self) -> dict[str, float]:
        """What the next step depends on."""
        return {"errors": self._errors, "spread": self._spread}

    def restore(self, state: Mapping[str, float]) -> None:
        """Go on from what `state` gave."""
        self._errors, self._spread = state["errors"], state["spread"]
