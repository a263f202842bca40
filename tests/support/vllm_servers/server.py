"""A local server with vLLM's endpoints that answers with the adapter and seed of the request.

Its tokens are those of the tiny model's tokenizer: one per ASCII character.
"""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from support.local_server import Handler, LocalServer

END = 96
LOGPROB = -1.5

Behavior = Callable[[Handler], None]
"""Handles a request instead of an answer."""


class VLLMServer(LocalServer):
    """Answers with `NAME:SEED`; NAME is the content of `name` in the adapter's folder.

    `loaded` holds the adapters by name, `forgotten` the unloaded ones. `bodies` records requests,
    without probes. `trouble` holds behaviors for the next completions, `reluctance` for the next
    adapters to load.
    """

    def __init__(self, port: int = 0, *, raw: bool = False, lora: bool = True) -> None:
        super().__init__(port)
        self.loaded: dict[str, Path] = {}
        self.forgotten: list[str] = []
        self.bodies: list[dict[str, Any]] = []
        self.keys: set[str | None] = set()
        self.trouble: list[Behavior] = []
        self.reluctance: list[Behavior] = []
        self.seconds = 0.0
        self.load: dict[str, float] | None = None
        """Reported load by vLLM's metric names; None if the server reports nothing."""
        self._raw, self._lora = raw, lora
        self._lock = threading.Lock()

    def get(self, handler: Handler) -> None:
        if handler.path == "/metrics" and self.load is not None:
            lines = [f'{name}{{engine="0",model_name="base"}} {n}' for name, n in self.load.items()]
            page = "# HELP vllm:x What it is.\n" + "".join(f"{line}\n" for line in lines)
            return handler.send(200, page.encode(), content_type="text/plain")
        card = {"id": "base", "max_model_len": 150, "parent": None}
        cards = [card, *({"id": name, "parent": "base"} for name in self.loaded)]
        body = {"/v1/models": {"object": "list", "data": cards}, "/health": {}}.get(handler.path)
        return send(handler, 404 if body is None else 200, body)

    def post(self, handler: Handler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["content-length"])))
        self.keys.add(handler.headers.get("authorization"))
        with self._lock:
            match handler.path:
                case "/v1/load_lora_adapter" if self._lora:
                    if self.reluctance:
                        return self.reluctance.pop(0)(handler)
                    return self._load(handler, body)
                case "/v1/unload_lora_adapter" if self._lora:
                    self.forgotten.append(body["lora_name"])
                    known = self.loaded.pop(body["lora_name"], None)
                    return send(handler, 200 if known else 404, {})
        if handler.path == "/v1/completions":
            return self._complete(handler, body)
        return send(handler, 404, _error("Not Found"))

    def _load(self, handler: Handler, body: dict[str, Any]) -> None:
        name, folder = body["lora_name"], Path(body["lora_path"])
        if name in self.loaded:
            return send(handler, 400, _error(f"'{name}' has already been loaded."))
        if not (folder / "adapter_config.json").is_file():
            return send(handler, 404, _error(f"no adapter at {folder}"))
        rank = json.loads((folder / "adapter_config.json").read_text())["r"]
        if rank > 16:
            message = f"LoRA rank {rank} is greater than max_lora_rank 16."
            return send(handler, 500, _error(message))
        self.loaded[name] = folder
        return send(handler, 200, {})

    def _complete(self, handler: Handler, body: dict[str, Any]) -> None:
        if body["temperature"] > 2:
            return send(handler, 400, _error("temperature must be in [0, 2]"))
        if "return_token_ids" not in body:
            heat = 1.0 if self._raw else body["temperature"]
            logprobs = {"token_logprobs": [-2.0], "top_logprobs": [{"a": -1.0, "b": -2.0 * heat}]}
            logprobs["top_logprobs"][0]["a"] /= heat  # type: ignore[index]
            return send(handler, 200, {"choices": [{"text": "b", "logprobs": logprobs}]})
        self.bodies.append(body)
        self.closing.wait(self.seconds)
        if self.trouble:
            return self.trouble.pop(0)(handler)
        if body["model"] != "base" and body["model"] not in self.loaded:
            return send(handler, 404, _error(f"The model `{body['model']}` does not exist."))
        return self.answer(handler, body)

    def answer(self, handler: Handler, body: dict[str, Any]) -> None:
        name = self._name_of(body["model"])
        choice = _choice([*encode(f"{name}:{body.get('seed')}"), END], body["max_tokens"])
        if body["stream"]:
            return _stream(handler, choice)
        return send(handler, 200, {"choices": [choice], "usage": {"prompt_tokens": 1}})

    def _name_of(self, model: str) -> str:
        path = self.loaded.get(model, Path()) / "name"
        return path.read_text() if path.is_file() else "base"


def encode(text: str) -> list[int]:
    return [ord(character) - 33 for character in text]


def save_adapter(folder: Path, name: str, *, rank: int = 4, **config: Any) -> None:
    """Write an adapter's files, with only the parts that the tests need."""
    folder.mkdir(parents=True, exist_ok=True)
    config_data = {"peft_type": "LORA", "r": rank, "lora_alpha": 8, "bias": "none", **config}
    (folder / "adapter_config.json").write_text(json.dumps(config_data))
    module = "base_model.model.model.layers.0.mlp.up_proj"
    save_header(folder, [f"{module}.lora_A.weight", f"{module}.lora_B.weight"])
    (folder / "name").write_text(name)


def save_header(folder: Path, tensors: list[str]) -> None:
    """Write a safetensors file that names `tensors` and holds no numbers."""
    entry = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
    header = json.dumps(dict.fromkeys(tensors, entry)).encode()
    path = folder / "adapter_model.safetensors"
    path.write_bytes(len(header).to_bytes(8, "little") + header)


def status(code: int, message: str = "trouble") -> Behavior:
    return lambda handler: send(handler, code, _error(message))


def malformed(text: str = "<html>") -> Behavior:
    return lambda handler: handler.send(200, text.encode(), content_type="application/json")


def cut() -> Behavior:
    return lambda handler: handler.connection.shutdown(2)


def _choice(tokens: list[int], most: int) -> dict[str, Any]:
    generated = tokens[:most]
    text = "".join(chr(token + 33) for token in generated if token < 94)
    reason = "stop" if generated[-1] == END else "length"
    logprobs = {"token_logprobs": [LOGPROB] * len(generated)}
    return {"text": text, "token_ids": generated, "logprobs": logprobs, "finish_reason": reason}


def _stream(handler: Handler, choice: dict[str, Any]) -> None:
    """Send one event per token, and the end of the stream."""
    handler.begin_stream()
    tokens = choice["token_ids"]
    for number, token in enumerate(tokens):
        piece = _choice([token], 1)
        last = number == len(tokens) - 1
        handler.event(
            {"choices": [piece | {"finish_reason": choice["finish_reason"] * last or None}]}
        )
    handler.event({"choices": [], "usage": {"prompt_tokens": 1}})
    handler.event("[DONE]")


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "Error", "code": 1}}


def send(handler: Handler, code: int, body: Any) -> None:
    handler.send(code, json.dumps(body).encode(), content_type="application/json")
