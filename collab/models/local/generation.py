"""Generates responses for batch after batch: chooses tokens, ends rows, reports progress."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cached_property, partial
from threading import Event, Lock
from typing import Any

import torch
from torch import Tensor

from collab.errors import ModelError
from collab.models.base import OnAnswer, Request
from collab.models.chat import action_of, check_context, failed_action, prompt_ids
from collab.models.local.adapters import Adapters
from collab.models.local.batching import default_batch_tokens, pack
from collab.models.local.kv_cache import KVCache, plain_cache
from collab.models.local.layers import decoder_layers
from collab.models.local.multi_lora import NO_ADAPTER, unwrap
from collab.models.local.sampling import BatchSettings, draw, settings_of
from collab.models.out_of_memory import is_out_of_memory
from collab.models.weights import LoadedModel
from collab.recipe.model import TransformersSpec
from collab.records import FinishReason
from collab.wording import counted

LOG = logging.getLogger("collab.models")

REPORT_SECONDS = 0.1

ReportBatch = Callable[[list[tuple[Request, int, str]]], None]
"""Called with requests, their new tokens so far, and the text that was added."""


class Cancelled(Exception):
    """The caller no longer wants the answer."""


@dataclass
class Row:
    """One response in progress, for the request at `index` of the call."""

    index: int
    request: Request
    prompt: list[int]
    adapter: str = NO_ADAPTER
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish_reason: FinishReason | None = None
    reported: int = 0
    """Tokens whose text was reported."""
    reported_from: int = 0
    held_text: str = ""
    """Text not yet reported, since it may become a stop string."""

    @cached_property
    def stop_window(self) -> int:
        """Tokens that surely include the longest stop string, or 0 if there is none."""
        return max((len(text.encode()) + 4 for text in self.request.sampling.stop), default=0)

    def add(self, token: int, logprob: float, stop_ids: frozenset[int], tokenizer: Any) -> None:
        """Append a sampled token with its log-probability, and end the row if it is a stop token,
        completes a stop string or reaches the limit.
        """
        self.tokens.append(token)
        self.logprobs.append(logprob)
        if token in stop_ids or self._has_stop_string(tokenizer):
            self.finish_reason = "stop"
        elif len(self.tokens) >= self.request.sampling.max_new_tokens:
            self.finish_reason = "length"

    def _has_stop_string(self, tokenizer: Any) -> bool:
        if not self.stop_window:
            return False
        tail = tokenizer.decode(self.tokens[-self.stop_window :], skip_special_tokens=True)
        return any(text in tail for text in self.request.sampling.stop)

    def new_text(self, tokenizer: Any) -> str:
        """Return the text of the answer added since the last call, beginning with the request's
        prefix.

        Incomplete characters and possible beginnings of a stop string are held back.
        """
        before = tokenizer.decode(
            self.tokens[self.reported_from : self.reported], skip_special_tokens=True
        )
        now: str = tokenizer.decode(self.tokens[self.reported_from :], skip_special_tokens=True)
        if now.endswith("\ufffd") and self.finish_reason is None:
            return ""
        prefix = "" if self.reported else self.request.prefix
        self.reported_from, self.reported = self.reported, len(self.tokens)
        return prefix + self._release_text(now[len(before) :])

    def _release_text(self, added: str) -> str:
        """Return the part of the held and added text that surely belongs to the answer."""
        stops = self.request.sampling.stop
        text = self.held_text + added
        ends = [at for stop in stops if (at := text.find(stop)) >= 0]
        if not ends and self.finish_reason is None:
            ends = [len(text) - _partial_stop_length(text, stop) for stop in stops]
        end = min(ends, default=len(text))
        self.held_text = text[end:]
        return text[:end]


def _partial_stop_length(text: str, stop: str) -> int:
    """Count the characters at the end of `text` that may begin `stop`."""
    return next(n for n in range(len(stop) - 1, -1, -1) if text.endswith(stop[:n]))


OnEnd = Callable[[Row], None]
"""Called with a row when it has its last token."""


class Decoder:
    """Samples the tokens of one batch, row by row, and detects the end of each row."""

    def __init__(
        self,
        rows: Sequence[Row],
        settings: BatchSettings,
        *,
        loaded: LoadedModel,
        cancelled: Event,
        report: ReportBatch | None,
        on_end: OnEnd,
    ) -> None:
        self.rows = list(rows)
        self._settings = settings
        self._loaded = loaded
        self._cancelled = cancelled
        self._report = report
        self._on_end = on_end
        self._last_report = time.monotonic()
        self._step = len(self.rows[0].tokens)

    def choose(self, logits: Tensor) -> Tensor:
        """Return the next token of each row, [rows], sampled from logits [rows, vocabulary].

        Raises:
            FloatingPointError: a row has logits that are not numbers.
        """
        self.check_cancelled()
        tokens, logprobs = draw(logits, self._settings, self._step)
        self._step += 1
        live = self.live_rows()
        for index, token, logprob in zip(
            live, tokens[live].tolist(), logprobs[live].tolist(), strict=True
        ):
            if not math.isfinite(logprob):
                raise FloatingPointError
            self.rows[index].add(token, logprob, self._loaded.stop_ids, self._loaded.tokenizer)
        self.report()
        done = [self.rows[index] for index in live if self.rows[index].finish_reason]
        self._report_rows(done)
        for row in done:
            self._on_end(row)
        return tokens

    def live_rows(self) -> list[int]:
        """Return the indices of the rows that have not ended."""
        return [i for i, row in enumerate(self.rows) if row.finish_reason is None]

    def select(self, keep: Sequence[int]) -> None:
        """Keep the rows with these indices, in this order."""
        self.rows = [self.rows[i] for i in keep]
        self._settings = self._settings.select(keep)

    def check_cancelled(self, *_: Any) -> None:
        """Raise Cancelled if the call was canceled. Registered as a hook before every layer."""
        if self._cancelled.is_set():
            raise Cancelled

    def report(self) -> None:
        """Pass new tokens and text to the caller's `progress`, at most a few times per second."""
        now = time.monotonic()
        if now - self._last_report >= REPORT_SECONDS:
            self._last_report = now
            self._report_rows(self.rows)

    def _report_rows(self, rows: list[Row]) -> None:
        grown = [row for row in rows if len(row.tokens) > row.reported]
        if self._report is not None and grown:
            tokenizer = self._loaded.tokenizer
            self._report([(r.request, len(r.tokens), r.new_text(tokenizer)) for r in grown])


WAIT_SECONDS = 0.1
"""Seconds between checks whether a call that waits for the processor is still wanted."""

_PROCESSOR_LOCK = Lock()

OpenCache = Callable[[Any, Sequence[str]], AbstractContextManager[KVCache]]
"""Prepares the rows of a batch for reading, from the model and each row's adapter."""


class Generation:
    """Answers the calls of an engine with its loaded model, one after the other.

    When a batch runs out of memory, the limit `batch_tokens` of the spec is lowered.
    """

    def __init__(self, loaded: LoadedModel, spec: TransformersSpec) -> None:
        self.loaded, self.adapters = loaded, Adapters(loaded, spec.name)
        self._model, self._batch_tokens = spec.name, spec.batch_tokens
        self._open_cache: OpenCache = plain_cache
        if spec.fast:
            from collab.models.local.fast.accelerated import accelerated_cache

            self._open_cache = accelerated_cache

    def answer(
        self,
        requests: Sequence[Request],
        answered: OnAnswer,
        started: float,
        cancelled: Event,
        report: ReportBatch | None,
    ) -> None:
        """Call `answered` with each request's action as soon as its row ends.

        `started` is the time at which the batch was dispatched.
        """
        rows: list[Row] = []
        for index, request in enumerate(requests):
            try:
                rows.append(self._make_row(index, request))
            except ModelError as error:
                answered(index, failed_action(request, error, self._model, started))

        def on_end(row: Row) -> None:
            action = action_of(
                row.request,
                row.prompt,
                row.tokens,
                row.logprobs,
                row.finish_reason or "length",
                tokenizer=self.loaded.tokenizer,
                model=self._model,
                started=started,
            )
            answered(row.index, action)

        decoder_of = partial(
            Decoder, loaded=self.loaded, cancelled=cancelled, report=report, on_end=on_end
        )
        batches = self._batches(rows)
        while batches:
            batch = batches.pop(0)
            if not self._run_batch(batch, decoder_of):
                left = [row for row in batch if row.finish_reason is None]
                batches = [part for rows in (left, *batches) for part in self._batches(rows)]

    def _batches(self, rows: Sequence[Row]) -> list[list[Row]]:
        sizes = [_row_size(row) for row in rows]
        budget = self._batch_tokens
        if budget is None:
            narrowest = min(map(sum, sizes), default=1)
            budget = default_batch_tokens(self.loaded.module, self.loaded.device, narrowest)
        return [[rows[i] for i in batch] for batch in pack(sizes, budget)]

    def _make_row(self, index: int, request: Request) -> Row:
        """Tokenize a request, or raise ModelError if it cannot be answered."""
        adapter = self.adapters.name_of(request.adapter) if request.adapter else NO_ADAPTER
        prompt = prompt_ids(request, self.loaded.tokenizer, self._model)
        new = request.sampling.max_new_tokens
        check_context(len(prompt), new, self.loaded.context, self._model)
        return Row(index=index, request=request, prompt=prompt, adapter=adapter)

    def _run_batch(self, rows: list[Row], decoder_of: Callable[..., Decoder]) -> bool:
        """Generate until every one of `rows` has ended, or return False if memory runs out.

        Rows that have tokens have equally many.

        Raises:
            ModelError: a single row does not fit into memory, or logits are not numbers.
        """
        rows = sorted(rows, key=_prompt_of)  # side by side, those of a prompt attend fastest
        loaded = self.loaded
        settings = settings_of(
            [row.request.sampling for row in rows],
            [row.request.seed for row in rows],
            loaded.module.config.get_text_config().vocab_size,
            loaded.device,
        )
        decoder = decoder_of(rows, settings)
        try:
            with _processor_turn(loaded.device, decoder), _sampling_state(loaded.module, decoder):
                self._decode(decoder)
        except FloatingPointError as error:
            dtype = str(loaded.module.dtype).removeprefix("torch.")
            raise ModelError(
                f"model {self._model!r} produced NaN or infinite logits in {dtype}; set"
                " model.dtype=float32, or check its weights for NaN"
            ) from error
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            problem = (
                f"model {self._model!r} ran out of memory on {loaded.device} in a batch of"
                f" {counted(len(rows), 'row')} of up to"
                f" {max(len(r.prompt) + len(r.tokens) for r in rows):,} tokens"
            )
            if len(rows) == 1:
                raise ModelError(
                    f"{problem}; lower sampling.max_new_tokens, shorten the prompt, or use a"
                    " smaller model"
                ) from error
            prompts, new = zip(*map(_row_size, rows), strict=True)
            self._batch_tokens = len(rows) * (max(prompts) + max(new)) // 2
            LOG.warning(
                "%s; collab continues with model.batch_tokens=%d", problem, self._batch_tokens
            )
            return False
        return True

    def _decode(self, decoder: Decoder) -> None:
        """Draw one token per row at a time, until all have ended."""
        module, rows = self.loaded.module, decoder.rows
        first, places = _group_prompts(rows)
        adapters = [rows[index].adapter for index in first]
        with self._open_cache(module, adapters) as cache, torch.inference_mode():
            logits = cache.read(*self._pad_prompts([rows[index] for index in first]))
            if len(first) < len(rows):
                cache.select(places)
                logits = logits[places]
            for drawn in zip(*(row.tokens for row in rows), strict=True):  # before memory ran out
                logits = cache.extend(torch.tensor(drawn, device=logits.device))
            while True:
                tokens = decoder.choose(logits)
                live = decoder.live_rows()
                if not live:
                    break
                if len(live) <= len(decoder.rows) * cache.shrink_at:
                    tokens = tokens[live]
                    cache.select(live)
                    decoder.select(live)
                logits = cache.extend(tokens)

    def _pad_prompts(self, rows: list[Row]) -> tuple[Tensor, Tensor]:
        """Return left-padded prompts and their attention mask, both [rows, time]."""
        width = max(len(row.prompt) for row in rows)
        pad, device = self.loaded.pad_id, self.loaded.device
        padding = [width - len(row.prompt) for row in rows]
        ids = [[pad] * n + row.prompt for n, row in zip(padding, rows, strict=True)]
        mask = [[0] * n + [1] * (width - n) for n in padding]
        return torch.tensor(ids, device=device), torch.tensor(mask, device=device)


def _row_size(row: Row) -> tuple[int, int]:
    return len(row.prompt), row.request.sampling.max_new_tokens


def _group_prompts(rows: Sequence[Row]) -> tuple[list[int], list[int]]:
    """Return the first row of every prompt, and the position among these of each row's prompt."""
    keys = [_prompt_of(row) for row in rows]
    numbers = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    places = [numbers[key] for key in keys]
    return [places.index(number) for number in range(len(numbers))], places


def _prompt_of(row: Row) -> tuple[str, tuple[int, ...]]:
    return row.adapter, tuple(row.prompt)


@contextmanager
def _sampling_state(module: Any, decoder: Decoder) -> Iterator[None]:
    """Put the model into sampling state, and restore it afterwards.

    A hook before each layer notices cancellation.
    """
    base = unwrap(module)
    training = module.training
    with ExitStack() as stack:
        for layer in decoder_layers(base):
            stack.callback(layer.register_forward_pre_hook(decoder.check_cancelled).remove)
        if training:
            stack.callback(module.train)
            module.eval()
        yield


@contextmanager
def _processor_turn(device: torch.device, decoder: Decoder) -> Iterator[None]:
    """Run one model at a time on a CPU, because torch's threads use all cores for each."""
    if device.type != "cpu":
        yield
        return
    while not _PROCESSOR_LOCK.acquire(timeout=WAIT_SECONDS):
        decoder.check_cancelled()
    try:
        yield
    finally:
        _PROCESSOR_LOCK.release()
