"""Ways in which a helper's value is used that are easy to miss."""

import pytest

from collab.analysis import helper_use

USED = {
    "key of an item": "def main(ws):\n d = {}\n for w in ws:\n  d[aux(w)] = w\n return d",
    "key of a count": "def main(ws):\n d = {}\n for w in ws:\n  d[aux(w)] += 1\n return d",
    "key of a list": "def main(ws, d):\n for w in ws:\n  k = aux(w)\n  d[k].append(w)\n return d",
    "second of a pair": "def main(x):\n a, b = x, aux(x)\n return b",
}
IGNORED = {
    "first of a pair": "def main(x):\n a, b = x, aux(x)\n return a",
    "key of what is dropped": "def main(x):\n d = {}\n d[aux(x)] = x\n return x",
}
WORKED_ON = {
    "method": "def main(x):\n y = aux(x)\n y.reverse()\n return y",
    "item": "def main(x):\n y = aux(x)\n y[0] = 1\n return y",
    "deleted": "def main(x):\n y = aux(x)\n del y[0]\n return y",
    "attribute": "def main(x):\n y = aux(x)\n y.name = x\n return y",
}


@pytest.mark.parametrize("source", USED.values(), ids=USED)
def test_used(source: str) -> None:
    assert helper_use(source, "main", "aux").used


@pytest.mark.parametrize("source", IGNORED.values(), ids=IGNORED)
def test_ignored(source: str) -> None:
    use = helper_use(source, "main", "aux")
    assert use.called
    assert not use.used


@pytest.mark.parametrize("source", WORKED_ON.values(), ids=WORKED_ON)
def test_value_modified_in_place_is_not_a_wrapper(source: str) -> None:
    assert not helper_use(source, "main", "aux").wrapper
