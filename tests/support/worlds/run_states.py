"""The final state of a training run, for comparison bit by bit."""

import json
from pathlib import Path
from typing import Any

import torch

from collab.records import read_episodes
from collab.trainers.training.events import HeldOut


def state_of(run: Path) -> dict[str, Any]:
    """The results of a run, except times."""
    newest = sorted((run / "checkpoints").glob("step-*"))[-1]
    saved = torch.load(newest / "state.pt", weights_only=True)
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {
        "checkpoint": newest.name,
        "adapters": {
            p.parent.name: p.read_bytes() for p in newest.glob("policies/*/*.safetensors")
        },
        "team": {p.parent.name: p.read_bytes() for p in run.glob("adapters/*/*.safetensors")},
        "state": flat(saved),
        "rows": [{k: v for k, v in row.items() if not timed(k)} for row in rows],
        "episodes": [
            e.model_dump_json(exclude={"started": True, "seconds": True, "turns": True})
            + "".join(d.action.text for t in e.turns for d in t.decisions)
            for e in read_episodes(run)
        ],
        "held out": held_out_of(run),
    }


def held_out_of(run: Path) -> list[Any]:
    """Held-out results without times, in a fixed order."""
    lines = (run / "evaluation.jsonl").read_text().splitlines()
    played = [HeldOut.model_validate_json(line) for line in lines]
    return sorted(
        (
            (p.step, p.mode, p.episode.id, p.episode.seed, p.episode.joint_return),
            [(d.action.token_ids, d.action.logprobs) for t in p.episode.turns for d in t.decisions],
        )
        for p in played
    )


def timed(key: str) -> bool:
    """Return True if a metric depends on the speed of the machine."""
    return key in ("seconds", "tokens_per_second", "memory_gb") or key.startswith(
        ("time/", "server/")
    )


def flat(value: Any) -> Any:
    """Convert tensors to bytes for comparison bit by bit."""
    if isinstance(value, torch.Tensor):
        return (str(value.dtype), tuple(value.shape), value.contiguous().numpy().tobytes())
    if isinstance(value, dict):
        return {key: flat(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [flat(item) for item in value]
    return value
