"""Gives credit algorithms read access to the models of a team in training."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from collab.errors import RecipeError
from collab.models.local.batching import pack
from collab.models.local.engine import TransformersEngine
from collab.models.local.multi_lora import unwrap
from collab.recipe import TrainerSpec
from collab.trainers.learner.device_sizes import forward_tokens
from collab.trainers.learner.policy import Policies, acting


class PolicyModels:
    """The `TeamModels` of policies, computed on the learner's thread."""

    def __init__(self, policies: Policies, spec: TrainerSpec, thread: Executor) -> None:
        self._policies, self._spec, self._thread = policies, spec, thread

    def base(self, agent: str) -> FrozenBase:
        """Return the base model of a trained agent, without adapters."""
        policy = self._policies.of(agent)
        if not policy.is_adapter:
            raise RecipeError(
                f"agent '{agent}' has no frozen base for a critic, because policies 'full' trains"
                " it; set trainer.policies to 'adapters', or trainer.algorithm to 'rae' or 'marloo'"
            )
        return FrozenBase(policy.engine, self._spec, self._thread)


class FrozenBase:
    """A `FrozenModel`: an engine's model without any adapter."""

    def __init__(self, engine: TransformersEngine, spec: TrainerSpec, thread: Executor) -> None:
        self._engine, self._spec, self._thread = engine, spec, thread

    @property
    def hidden_size(self) -> int:
        return int(unwrap(self._engine.module).config.get_text_config().hidden_size)

    def encode(self, text: str) -> tuple[int, ...]:
        tokenizer = self._engine.tokenizer
        ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        return tuple(ids) or (int(tokenizer.eos_token_id),)

    async def features(self, sequences: Sequence[Sequence[int]]) -> Tensor:
        """Return the last state at each sequence's last token: float32 on the CPU, [n, hidden]."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._features, sequences)

    @torch.no_grad()
    def _features(self, sequences: Sequence[Sequence[int]]) -> Tensor:
        loaded = self._engine.load()
        features = torch.zeros(len(sequences), self.hidden_size)
        with acting(loaded.module, None) as model:
            budget = forward_tokens(self._spec, loaded.device.type)
            for batch in pack([(len(s), 0) for s in sequences], budget):
                rows = [sequences[number] for number in batch]
                ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True)
                # Padding comes last, and no token attends to later tokens.
                states = model.base_model(
                    input_ids=ids.to(loaded.device), use_cache=False
                ).last_hidden_state  # [batch, time, hidden]
                last = torch.tensor([len(row) - 1 for row in rows], device=states.device)
                at_last = states[torch.arange(len(rows), device=states.device), last]
                features[list(batch)] = at_last.float().cpu()
        return features
