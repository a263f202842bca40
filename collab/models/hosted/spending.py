"""Keeps a hosted model within what it may spend."""

from __future__ import annotations

from collab.errors import BudgetExceeded

MILLION = 1_000_000


class Spending:
    """US dollars spent, and set aside for requests that are under way."""

    def __init__(
        self,
        input_price: float | None,
        output_price: float | None,
        limit: float | None,
        *,
        cache_read: float = 1.0,
        cache_write: float = 1.0,
    ) -> None:
        """Prices are for a million tokens; those of cached prompt tokens relative to others."""
        self.priced = input_price is not None or output_price is not None
        self._input_price = input_price or 0.0
        self._output_price = output_price or 0.0
        self._limit = limit
        self._cache_read = cache_read
        self._cache_write = cache_write
        self._spent = 0.0
        self._reserved = 0.0

    def cost(self, prompt: int, new: int, *, read: int = 0, written: int = 0) -> float:
        """The price of uncached `prompt`, `new`, cache-`read` and cache-`written` tokens."""
        whole_price = prompt + self._cache_read * read + self._cache_write * written
        return (whole_price * self._input_price + new * self._output_price) / MILLION

    def reserve(self, model: str, prompt: int, new: int) -> float:
        """Set the most that a request can cost aside; raises BudgetExceeded if it is too much."""
        amount = max(self.cost(prompt, new), self.cost(0, new, written=prompt))
        if self._limit is not None and self._spent + self._reserved + amount > self._limit:
            raise BudgetExceeded(
                f"{model} may spend ${self._limit:g}: ${self._spent:.4f} is spent, "
                f"${self._reserved:.4f} is promised, and this request may cost ${amount:.4f}; "
                "raise cost_limit, or lower sampling.max_new_tokens"
            )
        self._reserved += amount
        return amount

    def settle(self, reserved: float, cost: float) -> None:
        """Replace what was set aside by what it was in the end."""
        self._reserved -= reserved
        self._spent += cost
