"""The text streamed during generation equals the answer."""

from itertools import product

import pytest

from collab.models import Call, Request
from collab.models.chat import parse_answer
from collab.models.local.generation import Row
from collab.records import Sampling

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
