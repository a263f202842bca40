"""Episodes as data: problems, messages, actions, turns and scores."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from itertools import chain
from math import fsum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from collab.errors import CollabError
from collab.records.former import FormerArtifacts, former_keys
from collab.records.texts import MAX_REASON_CHARACTERS, Reason, Text
from collab.stats import mean


class Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", ser_json_inf_nan="strings")


class Problem(Record):
    """One problem of a suite. Agents and feedback see `public` only, and rewards see both."""

    address: Text
    public: dict[str, Any]
    hidden: dict[str, Any] = {}


Style = Literal["chat", "completion"]
"""Format of a model's messages: its chat template, or plain text to continue."""


class ToolSpec(Record):
    """A tool, as described to a model."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}
    """JSON Schema of the object that holds its arguments."""


MAX_ARGUMENT_LEVELS = 100
"""Deepest nesting of a tool call's arguments. Readers of JSON take about twice as much."""


class ToolCall(Record):
    """A model's request to call a tool."""

    name: str
    arguments: dict[str, Any] = {}
    id: str = ""
    """Id of the call at the service, or "" if a model wrote the call as text."""

    @property
    def is_text(self) -> bool:
        """True if a model wrote the call in its response, which therefore shows it already."""
        return not self.id

    @field_validator("arguments")
    @classmethod
    def _can_be_recorded(cls, arguments: dict[str, Any]) -> dict[str, Any]:
        if _is_deeper(arguments, MAX_ARGUMENT_LEVELS):
            raise ValueError(
                f"they are nested deeper than the limit of {MAX_ARGUMENT_LEVELS} levels"
            )
        try:
            json.dumps(arguments, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("they contain half of a surrogate pair") from None
        return arguments


def _is_deeper(value: Any, levels: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value
    is_nested = isinstance(value, dict | list)
    return is_nested and (not levels or any(_is_deeper(item, levels - 1) for item in inner))


class Message(Record):
    """One message of an agent's history."""

    role: Literal["system", "user", "assistant", "tool"]
    content: Text
    tool_calls: tuple[ToolCall, ...] = ()
    """Tool calls in an assistant's message. If they were written as text, `content` holds them."""
    answers: ToolCall | None = None
    """The call that a tool's message answers."""


class Failure(Record):
    """A failure of collab, of user code or of a service, as data. It is never a score."""

    boundary: str
    """The boundary that was crossed, as in `collab.errors`, e.g. `model` or `reward`."""
    type: str
    message: Reason
    traceback: Text | None = None
    """Traceback of a foreign exception, such as one of a user's function, if it was the reason."""
    summary: Text | None = None
    """Reason without text of users, models or services, for logs."""


def failure_of(error: CollabError) -> Failure:
    """Return an error as a `Failure` for the record."""
    return Failure(
        boundary=error.boundary,
        type=type(error).__name__,
        message=_make_encodable(str(error)),
        traceback=error.trace and _make_encodable(error.trace)[-MAX_REASON_CHARACTERS:],
        summary=error.summary and _make_encodable(error.summary),
    )


def _make_encodable(text: str) -> str:
    return text.encode(errors="replace").decode()


class Finding(Record):
    """One remark on an artifact, in the shape that every feedback tool shares."""

    source: Text
    code: Text
    severity: Literal["error", "warning", "info"]
    message: Reason
    line: int | None = None
    """Line, from 1, in the agent's own artifact, or in `file`."""
    file: Text | None = None
    """File of the line, for a program of several files."""
    column: int | None = None
    fix: Text | None = None
    url: Text | None = None


class Feedback(Record):
    """The feedback of one source to one agent after a turn."""

    source: Text
    text: Text
    findings: tuple[Finding, ...] = ()
    usage: Usage | None = None
    """Tokens and cost of a model's answer, recorded once, in a feedback without text for the first
    agent."""


FinishReason = Literal["stop", "length", "failed"]


class Sampling(Record):
    """Sampling settings of a model. `temperature` 0 is greedy."""

    temperature: float = Field(default=1.0, ge=0.0, le=5.0)
    top_p: float = Field(default=1.0, gt=0.0, le=1.0)
    top_k: int = Field(default=0, ge=0)
    """Keep the k likeliest tokens. A value of 0 keeps all."""
    max_new_tokens: int = Field(default=256, ge=1)
    stop: tuple[str, ...] = ()
    """The response ends before the first of these strings."""

    @property
    def limits_tokens(self) -> bool:
        """True if some tokens cannot be drawn, because `top_p` or `top_k` excludes them."""
        return self.top_p < 1 or self.top_k > 0


class Usage(Record):
    """Tokens and cost of one response."""

    prompt_tokens: int = 0
    new_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens that a service read from its cache."""
    cost: float | None = None
    """Cost in US dollars, or None if the engine has no price."""

    def __add__(self, other: Usage) -> Usage:
        costs = [cost for cost in (self.cost, other.cost) if cost is not None]
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            new_tokens=self.new_tokens + other.new_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cost=sum(costs) if costs else None,
        )


class Action(Record):
    """One agent's whole response: the action a_i,t."""

    text: Text
    token_ids: tuple[int, ...] = ()
    """The sampled tokens, including the end-of-turn token if it was sampled."""
    logprobs: tuple[float, ...] = ()
    """Log-probability of each of `token_ids` under the sampling distribution, in nats; at
    temperature 0, under that of temperature 1."""
    prompt_ids: tuple[int, ...] = ()
    finish_reason: FinishReason = "stop"
    tool_calls: tuple[ToolCall, ...] = ()
    """Tool calls in the response, if the agent has tools."""
    model: str = ""
    adapter: str | None = None
    version: int | None = Field(default=None, exclude_if=lambda value: value is None)
    """Number of training steps that the sampling adapter had learned from, if a trainer updates
    it."""
    usage: Usage = Field(default=Usage(), validate_default=True)
    seconds: float = 0.0
    """Wall time from the dispatch of the request to its answer, including the rest of its batch."""
    failure: Failure | None = None

    @field_validator("usage")
    @classmethod
    def _count_tokens(cls, usage: Usage, info: ValidationInfo) -> Usage:
        """Count the tokens in the record, if the engine counted none."""
        listed = 0 if usage.new_tokens else len(info.data.get("token_ids", ()))
        return usage + Usage(new_tokens=listed) if listed else usage

    @property
    def new_tokens(self) -> int:
        """The number of tokens: those in the record, otherwise those that the engine counted."""
        return len(self.token_ids) or self.usage.new_tokens

    @property
    def is_uncounted(self) -> bool:
        """True for a text of which the engine reported no number of tokens."""
        return bool(self.text) and not self.new_tokens

    @property
    def is_truncated(self) -> bool:
        return self.finish_reason == "length"

    @property
    def message(self) -> Message:
        """The response as the agent's history holds it."""
        return Message(role="assistant", content=self.text, tool_calls=self.tool_calls)


class Decision(Record):
    """One action of one agent: its new observation and its response."""

    agent: str
    round: int = 0
    """Position within the turn. Agents of one round act at the same time."""
    step: int = 0
    """Position within the agent's move, above 0 after a tool has answered."""
    saw: tuple[str, ...] = ()
    """Agents whose answers of this turn the agent saw."""
    observation: tuple[Message, ...]
    """The messages added to the agent's history. The first observation includes the agent's
    role."""
    action: Action

    _former_keys = former_keys({"given": None})  # only `further` episodes have copied responses


class Turn(Record, FormerArtifacts):
    """One turn of an episode: decisions, artifacts, score and feedback."""

    index: int = Field(ge=0)
    decisions: tuple[Decision, ...]
    artifacts: dict[str, Text] = {}
    """Artifact that each agent's parser extracted from its last response of the turn."""
    joined: tuple[str, ...] | None = None
    """Agents whose artifacts were joined, or None in records in which all were."""
    joint: Text = ""
    """The joint artifact, e.g. the joined program."""
    score: Score | None = None
    feedback: dict[str, tuple[Feedback, ...]] = {}
    failures: tuple[Failure, ...] = ()
    """Failures that the episode survived, e.g. of an optional feedback source."""
    seconds: float = 0.0

    @property
    def contributions(self) -> dict[str, str]:
        """The artifacts, by agent, that make the joint artifact."""
        names = self.artifacts if self.joined is None else self.joined
        return {name: self.artifacts[name] for name in names}

    _former_keys = former_keys({"artefacts": "artifacts"})


class Tests(Record):
    """Number of hidden tests, and of those that passed."""

    passed: int
    total: int

    @property
    def fraction(self) -> float:
        return self.passed / self.total if self.total else 0.0


class PartScore(Record):
    """One named part of a joint reward. `points` = `weight` x `value`."""

    model_config = ConfigDict(allow_inf_nan=False)

    name: str
    level: str
    value: float
    weight: float
    reason: Reason
    applies: bool = True
    """False if the part does not apply to this team. It then does not count towards the maximum
    either."""

    @property
    def points(self) -> float:
        return self.weight * self.value if self.applies else 0.0


class Score(Record):
    """The joint reward of one turn, with all its parts."""

    model_config = ConfigDict(allow_inf_nan=False)

    reward: float
    maximum: float
    """Largest reward possible for this team. An environment has the whole game's largest reward at
    its last turn, and 0 at earlier turns."""
    by_agent: dict[str, float] = {}
    """Each agent's reward if agents earn different ones, as in a game that one of them wins. The
    joint reward is then their mean."""
    solved: bool | None = None
    """True if the task is solved, or None if its reward does not define this."""
    summary: Reason = ""
    """Description of the events in the environment, in one line for people."""
    tests: Tests | None = None
    parts: tuple[PartScore, ...] = ()
    flags: tuple[str, ...] = ()
    """Limits that the program reached, and signs of attacks on the sandbox, e.g. `worker_died`."""
    failures: tuple[Reason, ...] = ()
    """The first failed tests, for people. Agents never see this."""
    isolation: str | None = None
    """Isolation of the program: `sealed` or `unsafe`."""
    seconds: float = 0.0

    _former_keys = former_keys({"passed": "solved", "told": "summary", "schemes": None})


WhenSolved = Literal["absorb", "stop", "continue"]
"""Treatment of the turns after the one that solves the task: `TeamSpec.when_solved`."""


Further = Literal["", "solo", "continuation"]
"""Purpose of an episode outside the comparison: `solo` runs without some agents, and
`continuation` measures the value of a state in another episode."""


class Episode(Record):
    """One attempt of a team at a problem."""

    id: str
    task: str
    """Address of the problem."""
    team: str
    group: int = 0
    """Number of the group. Episodes of one problem that are compared with each other share it."""
    sample: int = 0
    """Position within the group, 0..G-1."""
    seed: int = 0
    turns: tuple[Turn, ...] = ()
    horizon: int | None = Field(default=None, le=100_000)
    """H, the turns that the team could have taken, or None in records without it."""
    when_solved: WhenSolved = "absorb"
    """Treatment of turns that were skipped because the task was solved."""
    further: Further = ""
    """Purpose of an episode that training ignores. Its return is not the team's."""
    failure: Failure | None = None
    """Reason why the episode could not be finished. Its rewards must not be used."""
    started: str = ""
    seconds: float = 0.0

    @property
    def answer(self) -> str:
        """The last turn's joint answer, or "" if there was no turn."""
        return self.turns[-1].joint if self.turns else ""

    @property
    def score(self) -> Score | None:
        """The last turn's score, or None if the episode failed."""
        return self.turns[-1].score if self.turns and not self.failure else None

    @property
    def reward(self) -> float | None:
        """The last turn's joint reward."""
        return self.score.reward if self.score else None

    @property
    def solved(self) -> bool:
        return bool(self.score and self.score.solved)

    @property
    def solved_by_turn(self) -> tuple[bool, ...]:
        """For each turn, True if the task was solved after it, or () if the rewards do not define
        `solved`, or the episode failed.

        A turn that was skipped because the task was solved earlier counts as solved.
        """
        known = tuple(t.score.solved for t in self.turns if t.score and t.score.solved is not None)
        if self.failure or len(known) < len(self.turns):
            return ()
        return known + (True,) * self.unplayed

    @property
    def unplayed(self) -> int:
        """Number of turns left when the task was solved."""
        if self.horizon is None or not self.solved:
            return 0
        return max(0, self.horizon - self.turns[-1].index - 1)

    @property
    def absorbed(self) -> int:
        """Number of skipped turns that count like the last completed one."""
        return self.unplayed if self.when_solved == "absorb" else 0

    @property
    def rewards(self) -> tuple[float, ...]:
        """The joint reward of every turn that counts, or () unless all completed turns have one, or
        if the episode failed.

        By default, a solved task is an absorbing state: its reward also counts for the turns that
        were skipped, so an early solution loses nothing.
        """
        played = tuple(turn.score.reward for turn in self.turns if turn.score)
        if self.failure or not played or len(played) < len(self.turns):
            return ()
        return played + played[-1:] * self.absorbed

    @property
    def joint_return(self) -> float | None:
        """R_0, the undiscounted sum of `rewards`, or None if there are none."""
        return fsum(self.rewards) if self.rewards else None

    def return_of(self, agent: str) -> float:
        """Return the agent's sum of rewards over the completed turns, undiscounted."""
        scores = [turn.score for turn in self.turns if turn.score]
        return fsum(score.by_agent.get(agent, score.reward) for score in scores)

    @property
    def largest_return(self) -> float | None:
        """The largest return possible for this team, or None if there is no score."""
        largest = [turn.score.maximum for turn in self.turns if turn.score]
        if not largest:
            return None
        left = 0 if self.horizon is None else max(0, self.horizon - len(largest))
        return fsum(largest) + left * largest[-1]

    def decisions(self, agent: str | None = None) -> list[Decision]:
        """Return all decisions in order, or only those of `agent`."""
        return [d for turn in self.turns for d in turn.decisions if agent in (None, d.agent)]

    @property
    def tokens_in_sequence(self) -> int:
        """New tokens that must be generated one after another.

        Per round, those of the agent with the most count, and per turn, those of the feedback
        source with the most.
        """
        total = 0
        for turn in self.turns:
            together: dict[int, Counter[str]] = defaultdict(Counter)
            for decision in turn.decisions:
                together[decision.round][decision.agent] += decision.action.usage.new_tokens
            for item in chain.from_iterable(turn.feedback.values()):
                if item.usage is not None:  # sources answer together, after all rounds
                    together[-1][item.source] += item.usage.new_tokens
            total += sum(max(numbers.values()) for numbers in together.values())
        return total

    @property
    def outcome(self) -> Literal["failed", "done", "solved", "not solved"]:
        """The outcome in words; `done` if the reward does not define `solved`."""
        if self.failure:
            return "failed"
        if self.score is None or self.score.solved is None:
            return "done"
        return "solved" if self.solved else "not solved"


def solved_flags(episodes: Sequence[Episode]) -> list[bool]:
    """Return whether each episode solved its task, without those whose reward does not say."""
    return [e.solved for e in episodes if e.outcome in ("solved", "not solved")]


def solved_by_turn(
    episodes: Sequence[Episode], turns: int | None = None
) -> Iterator[tuple[int, float]]:
    """Yield each turn, counted from 1, and the share of episodes that were solved after it.

    `turns` is their number, by default that of the longest episode. A game that ended earlier
    counts by its end. Yield nothing for one turn, and for rewards that do not define `solved`.
    """
    known = [solved for episode in episodes if (solved := episode.solved_by_turn)]
    turns = max(map(len, known), default=0) if turns is None else turns
    for turn in range(turns if turns > 1 and known else 0):
        yield turn + 1, mean([solved[min(turn, len(solved) - 1)] for solved in known])
