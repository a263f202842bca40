"""A local server with vLLM's endpoints that answers with a real model in transformers."""

import asyncio
import threading
from itertools import count
from pathlib import Path
from typing import Any

from support.local_server import Handler
from support.vllm_servers.server import VLLMServer, send

from collab.models import Call, Request
from collab.models.local.engine import TransformersEngine
from collab.recipe.model import TransformersSpec
from collab.records import Action, Sampling


class VLLMTwin(VLLMServer):
    """Samples like vLLM: from the base model, or from the adapter in the given folder."""

    def __init__(self, model: Path, port: int = 0) -> None:
        super().__init__(port)
        spec = TransformersSpec(name=str(model), dtype="float32", device="cpu")
        self._engine = TransformersEngine(spec)
        self._draws = count()

    def shut(self) -> None:
        super().shut()
        closing = threading.Thread(target=lambda: asyncio.run(self._engine.aclose()))
        closing.start()
        closing.join()

    def answer(self, handler: Handler, body: dict[str, Any]) -> None:
        folder = self.loaded.get(body["model"])
        request = Request(
            call=Call(task="t/0", sample=0, turn=0, round=0, agent="a"),
            prompt_ids=tuple(body["prompt"]),
            sampling=Sampling(
                temperature=body["temperature"],
                top_p=body["top_p"],
                top_k=max(body["top_k"], 0),
                max_new_tokens=body["max_tokens"],
                stop=tuple(body["stop"]),
            ),
            adapter=str(folder) if folder else None,
            seed=body.get("seed", next(self._draws)),
        )
        [action] = asyncio.run(self._engine.generate([request]))
        send(handler, 200, {"choices": [_choice(action)]})


def _choice(action: Action) -> dict[str, Any]:
    assert action.failure is None, action.failure
    return {
        "text": action.text,
        "token_ids": list(action.token_ids),
        "logprobs": {"token_logprobs": list(action.logprobs)},
        "finish_reason": action.finish_reason,
    }
