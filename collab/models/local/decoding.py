"""What goes on while a batch is generated: choosing tokens, stopping rows, reporting."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Event
from typing import Any

from torch import Tensor

from collab.models.base import Request
from collab.models.chat import answer
from collab.models.local.multi_lora import BASE
from collab.models.local.sampling import Settings, draw
from collab.records import FinishReason, ToolCall

REPORT_SECONDS = 0.1

Report = Callable[[list[tuple[Request, int, str]]], None]
"""Called with requests, their new tokens so far, and the text that was added."""


class Cancelled(Exception):
    """The caller does not want the answer any more."""


@dataclass
class Row:
    """One response on its way, to the request at `index` of the call."""

    index: int
    request: Request
    prompt: list[int]
    adapter: str = BASE
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    stop_window: int = 0
    """Tokens that surely hold the longest stop string; 0 where there is none."""
    shown: int = 0
    """Tokens whose text was reported."""
    shown_from: int = 0
    held: str = ""
    """Text that is not reported yet, since it may become a stop string."""

    def __post_init__(self) -> None:
        stop = self.request.sampling.stop
        if stop:
            self.stop_window = max(len(text.encode()) for text in stop) + 4

    def add(self, token: int, logprob: float, stop_ids: frozenset[int], tokenizer: Any) -> None:
        """Take one more token and see whether it is the last."""
        self.tokens.append(token)
        self.logprobs.append(logprob)
        if token in stop_ids or self._meets_stop_string(tokenizer):
            self.finish_reason = "stop"
        elif len(self.tokens) >= self.request.sampling.max_new_tokens:
            self.finish_reason = "length"

    def _meets_stop_string(self, tokenizer: Any) -> bool:
        if not self.stop_window:
            return False
        tail = tokenizer.decode(self.tokens[-self.stop_window :], skip_special_tokens=True)
        return any(text in tail for text in self.request.sampling.stop)

    def answer(self, tokenizer: Any) -> tuple[str, tuple[ToolCall, ...]]:
        """The response up to the first stop string, and the calls of tools found in it."""
        return answer(self.request, self.prompt, self.tokens, tokenizer)

    def news(self, tokenizer: Any) -> str:
        """The text of the answer that was added since the last call, its prefix first.

        It waits for whole characters, and for what may become a stop string.
        """
        before = tokenizer.decode(
            self.tokens[self.shown_from : self.shown], skip_special_tokens=True
        )
        now: str = tokenizer.decode(self.tokens[self.shown_from :], skip_special_tokens=True)
        if now.endswith("\ufffd") and self.finish_reason is None:
            return ""
        prefix = "" if self.shown else self.request.prefix
        self.shown_from, self.shown = self.shown, len(self.tokens)
        return prefix + self._let_go(now[len(before) :])

    def _let_go(self, added: str) -> str:
        """What of the text that was held, and of what is added to it, is surely of the answer."""
        stops = self.request.sampling.stop
        text = self.held + added
        ends = [at for stop in stops if (at := text.find(stop)) >= 0]
        if not ends and self.finish_reason is None:
            ends = [len(text) - _begun(text, stop) for stop in stops]
        end = min(ends, default=len(text))
        self.held = text[end:]
        return text[:end]


def _begun(text: str, stop: str) -> int:
    """How many characters of `stop` the end of `text` may be the beginning of."""
    return next(n for n in range(len(stop) - 1, -1, -1) if text.endswith(stop[:n]))


Ended = Callable[[Row], None]
"""Called with a row when it has its last token."""


class Decoder:
    """Draws the tokens of one batch, row by row, and sees which rows have ended."""

    def __init__(
        self,
        rows: Sequence[Row],
        settings: Settings,
        *,
        stop_ids: frozenset[int],
        tokenizer: Any,
        cancelled: Event,
        report: Report | None,
        ended: Ended,
    ) -> None:
        self.rows = list(rows)
        self._settings = settings
        self._stop_ids = stop_ids
        self._tokenizer = tokenizer
        self._cancelled = cancelled
        self._report = report
        self._ended = ended
        self._reported = time.monotonic()
        self._step = 0

    def choose(self, logits: Tensor) -> Tensor:
        """The next token of each row, [rows], from [rows, vocabulary].

        Raises FloatingPointError for a row whose logits are not numbers.
        """
        self.check()
        tokens, logprobs = draw(logits, self._settings, self._step)
        self._step += 1
        live = self.live()
        for index, token, logprob in zip(
            live, tokens[live].tolist(), logprobs[live].tolist(), strict=True
        ):
            if not math.isfinite(logprob):
                raise FloatingPointError
            self.rows[index].add(token, logprob, self._stop_ids, self._tokenizer)
        self.report()
        self._hand([self.rows[index] for index in live if self.rows[index].finish_reason])
        return tokens

    @property
    def wanes(self) -> bool:
        """Whether half of the rows have ended, so that a smaller batch is worth its making."""
        return len(self.live()) * 2 <= len(self.rows)

    def live(self) -> list[int]:
        """The rows that have not ended."""
        return [i for i, row in enumerate(self.rows) if row.finish_reason is None]

    def select(self, keep: Sequence[int]) -> None:
        """Go on with some of the rows only."""
        self.rows = [self.rows[i] for i in keep]
        self._settings = self._settings.select(keep)

    def check(self, *_: Any) -> None:
        """Raise Cancelled when the caller has gone; also a hook before every layer."""
        if self._cancelled.is_set():
            raise Cancelled

    def report(self) -> None:
        """Tell what is new, some times a second."""
        now = time.monotonic()
        if now - self._reported >= REPORT_SECONDS:
            self._reported = now
            self._tell(self.rows)

    def _hand(self, rows: list[Row]) -> None:
        """Tell the last of rows that have ended, and hand them on."""
        self._tell(rows)
        for row in rows:
            self._ended(row)

    def _tell(self, rows: list[Row]) -> None:
        grown = [row for row in rows if len(row.tokens) > row.shown]
        if self._report is not None and grown:
            self._report([(r.request, len(r.tokens), r.news(self._tokenizer)) for r in grown])
