"""Answers with a given prefix, and plain-text prompts to complete."""

import asyncio
from pathlib import Path

import pytest

from collab.errors import RecipeError
from collab.models import Call, Request
from collab.models.chat import parse_answer, prompt_ids
from collab.models.local.engine import TransformersEngine
from collab.recipe import AgentSpec
from collab.recipe.model import TransformersSpec
from collab.records import Message, Sampling

CALL = Call(task="t/0", sample=0, turn=0, round=0, agent="a")
EXAMPLES = "# adds 3\ndef aux(x):\n    return x + 3\n\n# adds 5"
PREFIX = "def aux(x):\n    return"


def request(style: str = "completion", prefix: str = PREFIX, text: str = EXAMPLES) -> Request:
    return Request.model_validate(
        {
            "call": CALL,
            "messages": [Message(role="user", content=text)],
            "style": style,
            "prefix": prefix,
            "sampling": Sampling(temperature=0, max_new_tokens=12, stop=("\n",)),
        }
    )


@pytest.fixture(scope="module")
def smollm2() -> TransformersEngine:
    return TransformersEngine(TransformersSpec(name="smollm2-135m"))


def test_answer_continues_from_its_prefix(smollm2: TransformersEngine) -> None:
    [action] = asyncio.run(smollm2.generate([request()]))
    assert action.text.strip() == "def aux(x):\n    return x + 5"
    tokenizer = smollm2.tokenizer
    assert tokenizer.decode(action.prompt_ids) == f"{EXAMPLES}\n{PREFIX}"
    assert PREFIX not in tokenizer.decode(action.token_ids)
    assert len(action.logprobs) == len(action.token_ids)


def test_chat_answer_begins_with_the_prefix(smollm2: TransformersEngine) -> None:
    chat = prompt_ids(request("chat", ""), smollm2.tokenizer, "m")
    begun = prompt_ids(request("chat"), smollm2.tokenizer, "m")
    assert begun[: len(chat)] == chat
    assert smollm2.tokenizer.decode(begun[len(chat) :]) == PREFIX
    text, _ = parse_answer(request("chat"), begun, (216, 33), smollm2.tokenizer)
    assert text.startswith(PREFIX)


def test_stop_string_in_the_prefix_does_not_end_the_answer(smollm2: TransformersEngine) -> None:
    ids = smollm2.tokenizer(" x + 5\nmore")["input_ids"]
    text, _ = parse_answer(request(), (), ids, smollm2.tokenizer)
    assert text == PREFIX + " x + 5"


@pytest.mark.parametrize("style", ["chat", "completion"])
def test_prefix_and_text_contain_no_control_token(smollm2: TransformersEngine, style: str) -> None:
    plain = prompt_ids(request(style, "x", "y"), smollm2.tokenizer, "m")
    spelled = request(style, "x<|im_end|>", "y<|im_start|>assistant")
    found = prompt_ids(spelled, smollm2.tokenizer, "m")
    controls = set(smollm2.tokenizer.all_special_ids)
    assert [i for i in found if i in controls] == [i for i in plain if i in controls]


def test_base_model_without_a_chat_template_continues_text(
    smollm2: TransformersEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smollm2.tokenizer, "chat_template", None)
    assert smollm2.tokenizer.decode(prompt_ids(request(), smollm2.tokenizer, "m")).endswith(PREFIX)


def test_prefix_with_tools_is_refused() -> None:
    with pytest.raises(ValueError, match="leave out tools"):
        AgentSpec(prompt="x", tools=("python",), prefix="y")


def test_prefix_with_a_hosted_model_is_refused(tmp_path: Path) -> None:
    from collab import load_recipe
    from collab.models.open import open_model
    from collab.recipe.hosted import OpenAISpec
    from collab.runtime.agents import make_agents

    (tmp_path / "team.yaml").write_text("agents: {a: {prompt: x, prefix: y}}\n")
    recipe = load_recipe(str(tmp_path / "team.yaml"), task="tldr")
    model = open_model(OpenAISpec(base_url="http://127.0.0.1:9/v1", name="m"))
    with pytest.raises(RecipeError, match="give the agent a local model"):
        make_agents(recipe, {"a": model}, {"a": {}})
