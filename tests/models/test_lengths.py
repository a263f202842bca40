"""Requests that are too long for a model, found without loading its weights."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from collab.errors import ContextOverflow
from collab.models.base import Call, Request
from collab.models.lengths import check_fits
from collab.recipe.model import TransformersSpec
from collab.records import Message, Sampling

CONTEXT = 1500
"""More than `TEMPLATE_BYTES`, so a short request passes by its bytes alone."""


@pytest.fixture
def spec(tiny: Path, tmp_path: Path) -> TransformersSpec:
    folder = Path(shutil.copytree(tiny, tmp_path / "model"))
    config = json.loads((folder / "config.json").read_text())
    config["max_position_embeddings"] = CONTEXT
    (folder / "config.json").write_text(json.dumps(config))
    return TransformersSpec(name=str(folder))


def request(**fields: Any) -> Request:
    call = Call(task="words/0", sample=0, turn=0, round=0, agent="a")
    return Request(call=call, sampling=Sampling(max_new_tokens=10), **fields)


HELLO = (Message(role="user", content="hello"),)


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt_ids": (1,) * CONTEXT},
        {"prompt_ids": (1,) * CONTEXT, "messages": HELLO},
        {"messages": HELLO, "prefix": "yes " * CONTEXT},
        {"messages": HELLO, "prefix": "yes " * CONTEXT, "style": "completion"},
        {"messages": (Message(role="user", content=""),) * CONTEXT},
    ],
)
def test_too_long_request_is_refused(spec: TransformersSpec, fields: dict[str, Any]) -> None:
    with pytest.raises(ContextOverflow):
        check_fits(request(**fields), spec)


@pytest.mark.parametrize("prefix", ["", "yes"])
def test_a_short_request_passes_without_the_tokenizer(spec: TransformersSpec, prefix: str) -> None:
    (Path(spec.name) / "tokenizer.json").unlink()
    check_fits(request(messages=HELLO, prefix=prefix), spec)


def test_given_tokens_are_counted_without_the_messages(spec: TransformersSpec) -> None:
    long = (Message(role="user", content="hello " * CONTEXT),)
    check_fits(request(prompt_ids=(1,) * (CONTEXT - 10), messages=long), spec)
