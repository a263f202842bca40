"""One call of the transformers engine, on its thread: requests in, actions out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from threading import Event
from typing import Any

import torch
from jinja2 import TemplateError
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessorList, StoppingCriteriaList

from collab.errors import ContextOverflow, ModelError
from collab.models.adapters import BASE, Adapters
from collab.models.base import Request
from collab.models.batches import pack
from collab.models.decoding import Cancelled, Decoder, Report, Row
from collab.models.sampling import settings_of
from collab.models.weights import Weights
from collab.records import Action, Usage, failure_of


class Generation:
    """Answers the requests of one call; `model` names the model in actions and messages."""

    def __init__(
        self,
        weights: Weights,
        adapters: Adapters,
        *,
        model: str,
        batch_tokens: int,
        cancelled: Event,
        report: Report | None,
    ) -> None:
        self._weights = weights
        self._adapters = adapters
        self._model = model
        self._batch_tokens = batch_tokens
        self._cancelled = cancelled
        self._report = report

    def answer(self, requests: Sequence[Request], started: float) -> list[Action]:
        """An action for each request, in order; `started` is when they were dispatched."""
        answers: dict[int, Action] = {}
        rows: dict[int, Row] = {}
        for index, request in enumerate(requests):
            try:
                rows[index] = self._row(request)
            except ModelError as error:
                answers[index] = self._failed(request, error, started)
        indices = list(rows)
        sizes = [(len(r.prompt), r.request.sampling.max_new_tokens) for r in rows.values()]
        for batch in pack(sizes, self._batch_tokens):
            members = [indices[i] for i in batch]
            self._run([rows[index] for index in members])
            for index in members:
                answers[index] = self._action(rows[index], started)
        return [answers[index] for index in range(len(requests))]

    def _row(self, request: Request) -> Row:
        """Tokenise; raises ModelError for a request that cannot be answered."""
        adapter = self._adapters.name_of(request.adapter) if request.adapter else BASE
        prompt = prompt_ids(request, self._weights, self._model)
        new, context = request.sampling.max_new_tokens, self._weights.context
        if len(prompt) + new > context:
            room = context - len(prompt)
            remedy = f"set sampling.max_new_tokens to {room} or less, or " if room > 0 else ""
            raise ContextOverflow(
                f"a prompt of {len(prompt)} tokens and max_new_tokens {new} exceed the context of "
                f"{self._model!r}, {context} tokens; {remedy}shorten the prompt"
            )
        return Row(request=request, prompt=prompt, adapter=adapter)

    def _run(self, rows: list[Row]) -> None:
        """Generate until every one of `rows` has ended."""
        weights = self._weights
        settings = settings_of(
            [row.request.sampling for row in rows],
            [row.request.seed for row in rows],
            weights.module.config.get_text_config().vocab_size,
            weights.device,
        )
        decoder = Decoder(
            rows,
            settings,
            stop_ids=weights.stop_ids,
            tokenizer=weights.tokenizer,
            cancelled=self._cancelled,
            report=self._report,
        )
        input_ids, attention_mask = self._pad(rows)
        cache: Any = None
        try:
            with _inference(weights.module, decoder), torch.no_grad():
                while True:
                    input_ids, cache = self._generate(decoder, input_ids, attention_mask, cache)
                    live = decoder.live()
                    if not live:
                        break
                    keep = torch.tensor(live, device=weights.device)
                    input_ids = input_ids[keep]
                    attention_mask = _lengthen(attention_mask[keep], input_ids.shape[1])
                    cache.batch_select_indices(keep)
                    decoder.select(live)
        except torch.OutOfMemoryError as error:
            raise ModelError(
                f"model {self._model!r} ran out of memory on {weights.device} in a batch of "
                f"{len(rows)} x {input_ids.shape[1]} tokens and more; "
                f"lower batch_tokens, now {self._batch_tokens}"
            ) from error
        decoder.report(last=True)

    def _generate(
        self, decoder: Decoder, input_ids: Tensor, attention_mask: Tensor, cache: Any
    ) -> tuple[Tensor, Any]:
        """One call of transformers; returns [rows, time] and the key-value cache."""
        weights = self._weights
        options: dict[str, Any] = {}
        if hasattr(weights.module, "peft_config"):
            options["adapter_names"] = [row.adapter for row in decoder.rows]
        if cache is not None:
            options["past_key_values"] = cache
        left = max(row.request.sampling.max_new_tokens - len(row.tokens) for row in decoder.rows)
        output = weights.module.generate(
            input_ids=input_ids,
            attention_mask=attention_mask,
            logits_processor=LogitsProcessorList([decoder.choose]),
            stopping_criteria=StoppingCriteriaList([decoder.stop]),
            max_new_tokens=left,
            do_sample=False,
            pad_token_id=weights.pad_id,
            return_dict_in_generate=True,
            **options,
        )
        return output.sequences, output.past_key_values

    def _pad(self, rows: list[Row]) -> tuple[Tensor, Tensor]:
        """Left-padded prompts and their attention mask, both [rows, time]."""
        width = max(len(row.prompt) for row in rows)
        pad, device = self._weights.pad_id, self._weights.device
        padding = [width - len(row.prompt) for row in rows]
        ids = [[pad] * n + row.prompt for n, row in zip(padding, rows, strict=True)]
        mask = [[0] * n + [1] * (width - n) for n in padding]
        return torch.tensor(ids, device=device), torch.tensor(mask, device=device)

    def _action(self, row: Row, started: float) -> Action:
        return Action(
            text=row.text(self._weights.tokenizer),
            token_ids=tuple(row.tokens),
            logprobs=tuple(row.logprobs),
            prompt_ids=tuple(row.prompt),
            finish_reason=row.finish_reason or "length",
            model=self._model,
            adapter=row.request.adapter,
            usage=Usage(prompt_tokens=len(row.prompt), new_tokens=len(row.tokens)),
            seconds=time.monotonic() - started,
        )

    def _failed(self, request: Request, error: ModelError, started: float) -> Action:
        return Action(
            text="",
            finish_reason="failed",
            model=self._model,
            adapter=request.adapter,
            seconds=time.monotonic() - started,
            failure=failure_of(error),
        )


def prompt_ids(request: Request, weights: Weights, model: str) -> list[int]:
    """The request's tokens as the model sees them; raises ModelError where there are none."""
    if request.prompt_ids:
        return list(request.prompt_ids)
    if not request.messages:
        raise ModelError("a request has neither messages nor prompt_ids")
    if not weights.tokenizer.chat_template:
        raise ModelError(
            f"model {model!r} has no chat template, so it cannot read messages; take its "
            "instruction-tuned variant, or give prompt_ids"
        )
    messages = [{"role": m.role, "content": m.content} for m in request.messages]
    try:
        ids: list[int] = weights.tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, return_dict=False
        )
    except TemplateError as error:
        raise ModelError(f"the chat template of {model!r} refuses the messages: {error}") from error
    return ids


def _lengthen(mask: Tensor, width: int) -> Tensor:
    """Add ones for generated tokens: [rows, time] to [rows, width]."""
    return torch.nn.functional.pad(mask, (0, width - mask.shape[1]), value=1)


@contextmanager
def _inference(module: Any, decoder: Decoder) -> Iterator[None]:
    """Bring the model into the state for sampling, and back.

    A hub's generation settings (e.g. a repetition penalty) would change the distribution behind
    the log-probabilities, so they are set aside. A hook before each layer notices cancellation.
    """
    base = module.get_base_model() if hasattr(module, "get_base_model") else module
    holders = [base] if base is module else [module, base]
    kept, training = base.generation_config, module.training
    layers = max((m for m in base.modules() if isinstance(m, torch.nn.ModuleList)), key=len)
    with ExitStack() as stack:
        for layer in layers:
            stack.callback(layer.register_forward_pre_hook(decoder.check).remove)
        for holder in holders:
            stack.callback(setattr, holder, "generation_config", kept)
            holder.generation_config = GenerationConfig()
        stack.callback(module.train, training)
        module.eval()
        yield


__all__ = ["Cancelled", "Generation", "prompt_ids"]
