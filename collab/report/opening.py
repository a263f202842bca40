"""What a report opens with: one sentence, and what was reached, with intervals."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from collab.report.dots import Plot
from collab.report.tables import Form, show
from collab.wording import counted


@dataclass(frozen=True)
class Card:
    """One metric: of training before and after it, of teams side by side."""

    title: str
    plots: list[Plot]
    before: str = ""
    after: str = ""
    most: str = ""
    """The largest value there is, in words."""
    gain: str = ""
    tone: str = ""
    """Whether the gain is surely one, or surely a loss."""


@dataclass(frozen=True)
class Opening:
    sentence: str = ""
    """Empty where nothing was scored."""
    cards: list[Card] = field(default_factory=list)
    note: str = ""

    def __bool__(self) -> bool:
        return bool(self.sentence or self.cards)


def joined(openings: Sequence[Opening]) -> Opening:
    """Several as one."""
    told = [opening for opening in openings if opening]
    return Opening(
        " ".join(o.sentence for o in told if o.sentence),
        [card for opening in told for card in opening.cards],
        " ".join(dict.fromkeys(o.note for o in told if o.note)),
    )


def in_words(value: float, form: Form, most: float | None = None) -> str:
    """A value within a sentence: shares as whole percents, points with their maximum.

    A share is rounded to nothing or all only where it is that.
    """
    if form == "points":
        return show(value, form) + (f" of {show(most, form)}" if most else "")
    whole = int(100 * value + 0.5)
    if whole in (0, 100) and value != whole / 100:
        return show(value, form)
    return f"{whole} %"


def size_of(problems: int, samples: int | None, seeds: int = 1) -> str:
    """How much was played, for parentheses."""
    return ", ".join(_sizes(problems, samples, seeds))


def _sizes(problems: int, samples: int | None, seeds: int) -> Iterator[str]:
    yield counted(problems, "problem")
    if samples:
        yield f"{counted(samples, 'sample')} each"
    if seeds > 1:
        yield f"mean of {seeds} seeds"
