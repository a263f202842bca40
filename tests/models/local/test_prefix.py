"""Answers with a given prefix, plain-text prompts, and the text streamed during generation."""

import asyncio
from itertools import product
from pathlib import Path

import pytest

from collab.errors import RecipeError
from collab.models import Call, Request
from collab.models.chat import parse_answer, prompt_ids
from collab.models.local.engine import TransformersEngine
from collab.models.local.generation import Row
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


PIECES = ["Hi", " E", "N", "DEN", "D ", "x", "EN", "D", " more", ""]
"""The text of each token."""


class Pieces:
    """A tokenizer with only the methods that a row needs."""

    chat_template = None

    def decode(self, ids: list[int], *, skip_special_tokens: bool) -> str:
        assert skip_special_tokens
        return "".join(PIECES[i] for i in ids)


def streamed_and_answer(
    tokens: list[int], *, stop: tuple[str, ...] = (), prefix: str = "", every: int = 1
) -> tuple[list[str], str]:
    """Return the text streamed every `every` tokens and at the end, and the answer."""
    call = Call(task="t", sample=0, turn=0, round=0, agent="a")
    sampling = Sampling(stop=stop, max_new_tokens=len(tokens))
    row = Row(0, Request(call=call, sampling=sampling, prefix=prefix), [1])
    news = []
    for count, token in enumerate(tokens, start=1):
        row.add(token, 0.0, frozenset({9}), Pieces())
        if count % every == 0 or row.finish_reason:
            news.append(row.new_text(Pieces()))
        if row.finish_reason:
            break
    return news, parse_answer(row.request, row.prompt, row.tokens, Pieces())[0]


@pytest.mark.parametrize("stop", [(), ("END",), ("END", "D x"), ("zz", "more"), ("D", " ")])
def test_streamed_text_matches_the_answer(stop: tuple[str, ...]) -> None:
    responses = [[0, 1, 2, 5], [0, 6, 3, 5], [0, 6, 7, 8], [1, 3, 4, 5], [0, 6], [0, 6, 9]]
    for tokens, prefix, every in product(responses, ["", "Go: "], [1, 2, 3, 99]):
        news, answer = streamed_and_answer(tokens, stop=stop, prefix=prefix, every=every)
        assert "".join(news) == answer, (tokens, prefix, every)


def test_possible_stop_string_is_held_back() -> None:
    assert streamed_and_answer([0, 6, 5, 6, 7], stop=("END",)) == (
        ["Hi", "", "ENx", "", ""],
        "HiENx",
    )


def test_prefix_is_streamed_first() -> None:
    assert streamed_and_answer([0, 5], prefix="Go: ") == (["Go: Hi", "x"], "Go: Hix")
