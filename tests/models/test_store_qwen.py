"""The real Qwen2.5-Coder-0.5B from the user's cache; downloaded if missing."""

from pathlib import Path

import pytest

from collab.models import store
from collab.models.weights import LoadedModel, load_model
from collab.recipe.model import TransformersSpec

pytestmark = pytest.mark.slow

CHAT = """<|im_start|>system
You are terse.<|im_end|>
<|im_start|>user
Hello<|im_end|>
<|im_start|>assistant
"""


@pytest.fixture(scope="module")
def folder() -> Path:
    return store.resolve("qwen2.5-coder-0.5b")


@pytest.fixture(scope="module")
def weights(folder: Path) -> LoadedModel:
    return load_model(folder, TransformersSpec(name=str(folder), device="cpu"))


def test_model_has_the_listed_size(folder: Path) -> None:
    size = sum(file.stat().st_size for file in folder.iterdir())
    assert size == pytest.approx(store.ALIASES["qwen2.5-coder-0.5b"].converted_size, rel=1e-4)


def test_model_uses_chatml_and_both_stop_tokens(weights: LoadedModel) -> None:
    tokenizer = weights.tokenizer
    messages = [
        {"role": "system", "content": "You are terse."},
        {"role": "user", "content": "Hello"},
    ]
    prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    assert prompt == CHAT
    ends = tokenizer.convert_tokens_to_ids(["<|im_end|>", "<|endoftext|>"])
    assert weights.stop_ids == set(ends) == {151645, 151643}
    assert weights.context == 32768


def test_its_head_is_stored_untied(weights: LoadedModel) -> None:
    module = weights.module
    assert module.config.tie_word_embeddings is False
    assert module.get_output_embeddings().weight is not module.get_input_embeddings().weight


def test_it_writes_code(weights: LoadedModel) -> None:
    import torch

    ask = [{"role": "user", "content": "Write a Python function add(a, b). Answer with code only."}]
    prompt = weights.tokenizer.apply_chat_template(
        ask, add_generation_prompt=True, return_tensors="pt", return_dict=True
    )
    with torch.no_grad():
        tokens = weights.module.generate(**prompt, max_new_tokens=48, do_sample=False)
    answer = weights.tokenizer.decode(tokens[0, prompt["input_ids"].shape[1] :])
    assert "def add(a, b):" in answer
    assert "return a + b" in answer
