"""What stands in for models and feedback in a dry run: texts of full length."""

from __future__ import annotations

from collections.abc import Sequence

from collab.feedback import Outcome
from collab.models import Progress, Request
from collab.models.fakes.echo import EchoModel
from collab.recipe.feedback import ExpertFeedback, FeedbackSpec
from collab.records import Action, Feedback

CHARACTERS_A_TOKEN = 3.5
"""Of text, where no tokenizer is at hand; few rather than many, so that counts err upward."""

MOST_CHARACTERS = 500_000
"""Of an answer that stands in for a model's longest one."""

FEEDBACK_CHARACTERS = 2000
"""Of what a source tells an agent, besides an expert."""


class FullEcho(EchoModel):
    """Says what it was asked again and again, up to the longest answer; remembers all requests."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Request] = []

    async def generate(
        self, requests: Sequence[Request], progress: Progress | None = None
    ) -> list[Action]:
        self.requests += requests
        actions = await super().generate(requests, progress)
        return [
            action.model_copy(update={"text": _lengthened(action.text, request)})
            for request, action in zip(requests, actions, strict=True)
        ]


def _lengthened(text: str, request: Request) -> str:
    wanted = min(int(request.sampling.max_new_tokens * CHARACTERS_A_TOKEN), MOST_CHARACTERS)
    text = f"{text or '-'} "
    return (text * (wanted // len(text) + 1))[:wanted]


class FeedbackStandIn:
    """Feedback without its source."""

    def __init__(self, spec: FeedbackSpec) -> None:
        self.name = spec.source
        length = FEEDBACK_CHARACTERS
        if isinstance(spec, ExpertFeedback):
            length = int(spec.max_new_tokens * CHARACTERS_A_TOKEN)
        self._text = "" if spec.source == "self" else ("feedback " * length)[:length]

    async def give_feedback(self, outcome: Outcome) -> dict[str, Feedback]:
        return {a: Feedback(source=self.name, text=self._text) for a in outcome.agents}

    async def aclose(self) -> None:
        """Holds nothing."""
