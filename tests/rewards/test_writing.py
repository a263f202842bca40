"""The parts of the writing rewards, checked by hand at every knee of every ramp."""

from collections.abc import Callable

import pytest
from support.writing import ONE_OF_EACH, text

from collab.records import Score
from collab.rewards.writing.pairs import categories
from collab.rewards.writing.sentences import jaccard

Score_ = Callable[..., Score]
Values = Callable[..., dict[str, float]]


# Length: both texts are within the bounds, inclusive.


@pytest.mark.parametrize(
    ("name", "first", "second", "expected"),
    [
        ("tldr", 8, 8, 1.0),
        ("tldr", 7, 8, 0.0),
        ("tldr", 256, 256, 1.0),
        ("tldr", 257, 256, 0.0),
        ("arxiv", 127, 128, 0.0),
        ("arxiv", 128, 127, 0.0),
        ("arxiv", 128, 257, 0.0),
    ],
)
def test_length(values: Values, name: str, first: int, second: int, expected: float) -> None:
    found = values(name, text(first, 2000), text(second, 2000))
    assert found["length"] == expected
    if not expected:
        assert found["reward"] == 0.0
        assert found["ratio"] == 0.0


# Ratio: characters of the second text per character of the first, with 100 or 1,000.


@pytest.mark.parametrize(
    ("name", "characters", "expected", "goes_on"),
    [
        ("tldr", 109, 0.0, False),
        ("tldr", 110, 0.0, True),
        ("tldr", 160, 1.0, True),
        ("tldr", 338, 0.9, True),
        ("tldr", 500, 0.0, True),
        ("tldr", 501, 0.0, False),
        ("arxiv", 799, 0.0, False),
        ("arxiv", 800, 0.0, True),
        ("arxiv", 1300, 1.0, True),
        ("arxiv", 1700, 0.75, True),
        ("arxiv", 2000, 0.0, True),
        ("arxiv", 2001, 0.0, False),
    ],
)
def test_ratio(values: Values, name: str, characters: int, expected: float, goes_on: bool) -> None:
    sizes = {"tldr": (10, 100, 22), "arxiv": (130, 1000, 130)}
    first, length, second = sizes[name]
    found = values(name, text(first, length), text(second, characters, stem="v"))
    assert found["ratio"] == pytest.approx(expected)
    assert found["vocabulary"] == (1.0 if goes_on else 0.0)
    assert found["reward"] == pytest.approx(0.5 + expected + (0.5 if goes_on else 0.0))


# Vocabulary: different words of the second text relative to the first; stopwords count.


@pytest.mark.parametrize(
    ("name", "unique", "expected", "goes_on"),
    [
        ("tldr", 129, 0.0, False),
        ("tldr", 130, 0.0, True),
        ("tldr", 199, 69 / 70, True),
        ("tldr", 200, 1.0, True),
        ("tldr", 250, 1.0, True),
        ("arxiv", 49, 0.0, False),
        ("arxiv", 50, 0.0, True),
        ("arxiv", 70, 1.0, True),
        ("arxiv", 150, 0.5, True),
        ("arxiv", 170, 0.0, True),
        ("arxiv", 171, 0.0, False),
    ],
)
def test_vocabulary(values: Values, name: str, unique: int, expected: float, goes_on: bool) -> None:
    texts = {
        "tldr": (text(100, 600), text(255, 1400, unique)),
        "arxiv": (text(190, 1000, 100), text(190, 1400, unique)),
    }
    found = values(name, *texts[name])
    assert (found["length"], found["ratio"]) == (1.0, 1.0)
    assert found["vocabulary"] == pytest.approx(expected)
    assert found["shared_words"] == (1.0 if goes_on else 0.0)
    assert found["reward"] == pytest.approx(1.5 + 0.5 * expected + (0.6 if goes_on else 0.0))


# Shared words: the Jaccard similarity of the sets of content words.


def overlapping(shared: int, union: int, first: int) -> tuple[str, str]:
    """Two texts with `union` different words in total and `shared` words in both."""
    names = [f"w{i:03}" for i in range(union)]
    one, other = names[:first], names[first - shared :]
    return " ".join(one), " ".join(other)


@pytest.mark.parametrize(("shared", "expected"), [(0, 0.0), (1, 1 / 3), (3, 1.0), (4, 1.0)])
def test_shared_words_of_tldr(values: Values, shared: int, expected: float) -> None:
    found = values("tldr", *overlapping(shared, union=100, first=32))
    assert found["vocabulary"] == 1.0
    assert found["shared_words"] == pytest.approx(expected)
    assert found["reward"] == pytest.approx(2.0 + 0.6 * expected)


@pytest.mark.parametrize(
    ("shared", "expected"), [(0, 0.0), (23, 0.5), (45, 45 / 46), (46, 1.0), (60, 1.0)]
)
def test_shared_words_of_arxiv(values: Values, shared: int, expected: float) -> None:
    one, other = overlapping(shared, union=200, first=100)
    fill = " ".join(["w000"] * 28)
    found = values("arxiv", f"{one} {fill}", f"{other} {' '.join(['w199'] * 50)}")
    assert found["vocabulary"] > 0
    assert found["shared_words"] == pytest.approx(expected)


def test_stopwords_are_not_shared_words() -> None:
    assert jaccard("the cat and the dog", "the bird or a fish") == 0.0
    assert jaccard("The cat", "a CAT and a dog") == 0.5
    assert jaccard("the of and", "the of and") == 0.0
    assert jaccard("", "") == 0.0


# Transitions: k of twelve categories.


COHERENCE = (0.0, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95)


@pytest.mark.parametrize("k", range(13))
def test_transitions_by_number_of_categories(values: Values, k: int) -> None:
    first = "zebra apple quux " * 3
    second = "zebra quux waldo fred garply plugh. " * 2 + ", ".join(ONE_OF_EACH[:k])
    found = values("tldr", first, second)
    assert found["shared_words"] == 1.0
    assert found["transitions"] == pytest.approx(COHERENCE[k])


def test_arxiv_looks_for_transitions_in_both_texts(values: Values) -> None:
    first = "therefore moreover " + text(130, 900)
    second = text(130, 1300) + " overall"
    assert values("arxiv", first, second)["transitions"] == pytest.approx(0.5)


def test_whole_words_by_default_and_substrings_as_published() -> None:
    assert categories("some of the asphalt") == set()
    assert categories("some of the asphalt", "substrings") == {"cause and effect", "time"}
    assert categories("So, it was wet.") == {"cause and effect"}
    assert categories("for\n  example, this") == {"example"}
    assert categories("IN OTHER WORDS") == {"explanation"}
    assert categories("To summarise: wet.") == categories("To summarize: wet.") == {"summary"}


@pytest.mark.parametrize(("matching", "expected"), [("words", 0.0), ("substrings", 0.4)])
def test_the_published_form_is_an_option(score: Score_, matching: str, expected: float) -> None:
    part = {"use": "transitions", "options": {"matching": matching}}
    result = score({"parts": {"t": part}}, {"a": "x", "b": "some"}, join="text")
    assert result.reward == pytest.approx(expected)
