"""Runs a team on a model that echoes, to see its prompts and find mistakes.

Every prompt is rendered as in a real turn, with others' answers and feedback filled in. A plan
therefore needs no knowledge of the protocol.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from jinja2 import UndefinedError

from collab.agents import Template, join_for
from collab.errors import (
    AgentError,
    ContextOverflow,
    EnvironmentFailed,
    ModelError,
    RecipeError,
)
from collab.feedback import Outcome, Source, check_sources
from collab.models import Progress, Request
from collab.models.fakes import EchoModel
from collab.models.lengths import check_adapter, check_fits
from collab.models.tool_text import plain_messages
from collab.recipe import BudgetSpec, Recipe, library, read_recipe
from collab.recipe.feedback import ExpertFeedbackSpec, FeedbackSpec
from collab.recipe.hosted import MCPServer
from collab.recipe.model import TransformersSpec
from collab.recipe.team import DEFAULT_DISCUSS, TeamSpec
from collab.records import Action, Feedback, Problem
from collab.runs.layout import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from collab.runtime.acting import RolloutContext
from collab.runtime.agents import RunningAgent, make_agents
from collab.runtime.episode import EpisodeRun, Start
from collab.runtime.game import game_maker
from collab.runtime.harness import respond
from collab.runtime.harness.tools import MAX_CALLS
from collab.runtime.protocols import protocol_for
from collab.runtime.rehearsal import (
    ERROR_FEEDBACK,
    RehearsedGame,
    RehearsedTurn,
    rehearse_team,
    warn_truncated_games,
)
from collab.runtime.waiting import wait_for
from collab.sandbox import Sandbox
from collab.tools import disabled_tools, open_tools
from collab.wording import counted

CHARACTERS_PER_TOKEN = 3.5
"""Number of characters per token if no tokenizer is available. The estimate is low, so counts tend
to be too high.
"""

MAX_ANSWER_CHARACTERS = 500_000
"""Maximum number of characters in an answer that stands for a model's longest one."""

FEEDBACK_CHARACTERS = 2000
"""Assumed length of one agent's feedback from a source other than the expert, in characters."""


class FullEcho(EchoModel):
    """Repeats its prompt, up to the length of the longest answer, and records all requests."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[Request] = []

    async def generate(
        self, requests: Sequence[Request], progress: Progress | None = None
    ) -> list[Action]:
        self.requests += requests
        actions = await super().generate(requests, progress)
        return [
            action.model_copy(update={"text": _repeat_to_limit(action.text, request)})
            for request, action in zip(requests, actions, strict=True)
        ]


def _repeat_to_limit(text: str, request: Request) -> str:
    wanted = min(int(request.sampling.max_new_tokens * CHARACTERS_PER_TOKEN), MAX_ANSWER_CHARACTERS)
    text = f"{text or '-'} "
    return (text * (wanted // len(text) + 1))[:wanted]


class FeedbackStandIn(Source):
    """Returns placeholder feedback in place of a source."""

    def __init__(self, spec: FeedbackSpec) -> None:
        self.name = spec.source
        length = FEEDBACK_CHARACTERS
        if isinstance(spec, ExpertFeedbackSpec):
            length = int(spec.max_new_tokens * CHARACTERS_PER_TOKEN)
        self._text = "" if spec.source == "self" else ("feedback " * length)[:length]

    async def give_feedback(self, outcome: Outcome) -> dict[str, Feedback]:
        feedback = ERROR_FEEDBACK.model_copy(update={"source": self.name, "text": self._text})
        return dict.fromkeys(outcome.agents, feedback)


MAX_PROBLEMS = 64
"""Maximum number of the longest problems to run, and also of problems with different fields."""
MAX_TOTAL_TURNS = 6400
"""Maximum number of turns to run for the longest problems, and also for those with different
fields. With long episodes, fewer problems are run."""


@dataclass(frozen=True)
class PromptCheck:
    """The requests of a check, and its warnings."""

    requests: tuple[Request, ...]
    """Requests in the order of problems and turns. Answers in them have full length."""
    turn: RehearsedTurn
    """A turn in which every answer was empty."""
    warnings: tuple[str, ...] = ()


def check_prompts(recipe: Recipe, problems: Sequence[Problem]) -> PromptCheck:
    """Run the team on its longest problems with models that echo.

    The first problem with each set of fields is also run. Of either, at most 64 are run, and fewer
    if the team has more than 100 turns. No program is run.

    Raises:
        RecipeError: a template or protocol fails or does not end, a feedback source does not
            support a problem, an adapter is missing, or no problem fits into a model's context.
    """
    turn = rehearse_team(recipe)
    _check_adapters(recipe)
    for problem in problems if recipe.team.turns > 1 or turn.asks_feedback else ():
        check_sources(recipe.team.feedback, problem)
    most = min(MAX_PROBLEMS, MAX_TOTAL_TURNS // recipe.team.turns)
    chosen = [problems[number] for number in _choose_problems(problems, most)]
    requests, unread = wait_for(_run_problems(recipe, chosen, problems))
    short = warn_truncated_games(game_maker(recipe), chosen, recipe.team.turns)
    warnings = [
        *unread,
        *short,
        *_warn_unused_feedback(recipe.team, turn),
        *_warn_uncounted_tools(recipe),
    ]
    warnings += _warn_overlong_prompts(recipe, requests, len(problems))
    return PromptCheck(tuple(requests), turn, tuple(warnings))


def is_first_prompt(request: Request) -> bool:
    """Return True if a request has no agent's answer yet, so that all samples share it."""
    call = request.call
    return call.turn == call.round == call.step == 0


def max_episode_usage(recipe: Recipe, requests: Sequence[Request]) -> tuple[int, int]:
    """Return the maximum numbers of responses and of new tokens in an episode."""
    responses, tokens = Counter[str](), Counter[str]()
    for request in requests:
        calls = max_move_responses(recipe, request.call.agent)
        responses[request.call.task] += calls
        tokens[request.call.task] += calls * request.sampling.max_new_tokens
    return max(responses.values(), default=0), max(tokens.values(), default=0)


def max_move_responses(recipe: Recipe, agent: str) -> int:
    """Return the maximum number of responses in a move. A user's own harness counts as one."""
    harness = recipe.team.agents[agent].harness
    return int(harness.options.get("calls", MAX_CALLS)) + 1 if harness.use == "tools" else 1


def count_characters(request: Request) -> int:
    """Return the number of characters in a request's messages and tool descriptions."""
    return sum(len(message.content) for message in plain_messages(request))


async def _run_problems(
    recipe: Recipe, chosen: Sequence[Problem], problems: Sequence[Problem]
) -> tuple[list[Request], list[str]]:
    """Return the requests of the `chosen` problems, and a warning for each unused template."""
    recipe = recipe.model_copy(update={"budget": BudgetSpec()})
    model, seen = FullEcho(), _Observed()
    tools = disabled_tools(await open_tools(recipe.team, Sandbox(recipe.sandbox)))
    agents = make_agents(recipe, dict.fromkeys(recipe.team.agents, model), tools)
    context = RolloutContext(
        recipe=recipe,
        agents={name: _watch_agent(agent, seen) for name, agent in agents.items()},
        protocol=protocol_for(recipe.team.protocol),
        join=join_for("text"),
        scorer=None,
        sources=[FeedbackStandIn(spec) for spec in recipe.team.feedback],
        make_game=game_maker(recipe, RehearsedGame),
    )
    tried, failed = [*chosen], dict[str, AgentError]()
    for problem in tried:
        episode = await EpisodeRun(context, Start(problem), seed=0).run()
        if seen.errors:
            error = seen.errors[0]
            if not isinstance(error.__cause__, UndefinedError):  # others may have taken long
                raise RecipeError(f"{error}; the problem: {problem.address}") from error
            if not failed:  # the others are tried as well, to count the failures
                tried += problems[: 1000 // recipe.team.turns]
            failed[problem.address] = error
            seen.errors.clear()
        elif episode.failure and episode.failure.type in _REPORTED_FAILURES:
            raise RecipeError(episode.failure.message)
        # Other failures come from a protocol that cannot work with an echo.
        seen.cut_short |= episode.failure is not None
    for error in failed.values():
        where = f"{_format_tasks(failed)} of {len({one.address for one in tried})} tried"
        raise RecipeError(f"{error}; this prompt fails for {where}") from error
    return model.requests, [] if seen.cut_short else _warn_unused_templates(recipe, seen)


_REPORTED_FAILURES = (RecipeError.__name__, EnvironmentFailed.__name__)
"""Failures that the echo cannot cause."""


@dataclass
class _Observed:
    """Errors and templates seen while the team ran."""

    errors: list[AgentError] = field(default_factory=list)
    """Errors in templates."""
    rendered: set[str] = field(default_factory=set)
    """Places of templates that were used."""
    cut_short: bool = False


@dataclass(frozen=True)
class _WatchedTemplate:
    template: Template
    seen: _Observed

    def render(self, **fields: Any) -> str:
        self.seen.rendered.add(self.template.place)
        try:
            text: str = self.template.render(**fields)
        except AgentError as error:
            self.seen.errors.append(error)
            raise
        return text


def _watch_agent(agent: RunningAgent, seen: _Observed) -> RunningAgent:
    """Return the agent with its templates, but without the user's functions."""
    templates: dict[str, Any] = {
        name: _WatchedTemplate(template, seen) for name, template in agent.templates.items()
    }
    role: Any = _WatchedTemplate(agent.role, seen)
    return replace(agent, role=role, templates=templates, harness=respond, parse=str)


def _choose_problems(problems: Sequence[Problem], most: int) -> list[int]:
    """Return the first problem with each set of fields and the longest, at most `most` of each."""

    def length(number: int) -> int:
        return sum(len(str(value)) for value in problems[number].public.values())

    numbers = sorted(range(len(problems)), key=length, reverse=True)[:most]
    fields = {frozenset(problems[n].public): n for n in reversed(range(len(problems)))}
    return sorted({*numbers, *sorted(fields.values())[:most]})


def _check_adapters(recipe: Recipe) -> None:
    for name, agent in recipe.team.agents.items():
        if agent.adapter is None or not isinstance(recipe.model_of(name), TransformersSpec):
            continue
        folder = Path(agent.adapter).expanduser()
        for file in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
            if not (folder / file).is_file():
                raise RecipeError(
                    f"agent '{name}': adapter {agent.adapter} cannot be read: it has no {file};"
                    f" use a folder with an adapter in PEFT's format, {ADAPTER_CONFIG} and"
                    f" {ADAPTER_WEIGHTS}"
                )
        check_adapter(folder, recipe.model_of(name))


def _warn_unused_templates(recipe: Recipe, seen: _Observed) -> list[str]:
    """Warn of the user's templates that the protocol never uses. `revise` may need more turns."""
    places = [
        f"team.agents.{name}.{key}"
        for name, agent in recipe.team.agents.items()
        for key in (
            *(["discuss"] if agent.discuss != DEFAULT_DISCUSS else []),
            *(f"templates.{key}" for key in agent.templates),
        )
    ]
    return [
        f"{place} is not used: protocol '{recipe.team.protocol.use}' does not use it;"
        " leave it out, or choose a protocol that does"
        for place in places
        if place not in seen.rendered
    ]


def _warn_unused_feedback(team: TeamSpec, turn: RehearsedTurn) -> list[str]:
    """Warn of the user's feedback if no turn follows. Shipped teams may have such feedback."""
    shipped = library.library_root() / library.FOLDERS["team"] / f"{team.name}.yaml"
    if team.turns > 1 or turn.asks_feedback or not team.feedback:
        return []
    if shipped.is_file() and read_recipe(str(shipped))[0].team.feedback == team.feedback:
        return []
    return ["team.feedback is never used: team.turns is 1; set team.turns=2, or leave it out"]


def _warn_uncounted_tools(recipe: Recipe) -> list[str]:
    """Warn of MCP tools, whose descriptions the check does not count."""
    return [
        f"agent '{name}': the prompt tokens of {tool}'s tools are not counted, because it is"
        " not started yet"
        for name, agent in recipe.team.agents.items()
        for tool in agent.tools
        if isinstance(tool, MCPServer)
    ]


def _warn_overlong_prompts(recipe: Recipe, requests: Sequence[Request], problems: int) -> list[str]:
    """Warn of prompts that do not fit or that a model cannot read, per agent. Refuse a recipe in
    which an agent can answer no first prompt."""
    certain: dict[str, dict[str, str]] = {}
    possible: dict[str, dict[str, str]] = {}
    longest: dict[tuple[str, str, bool], Request] = {}
    for request in requests:
        key = (request.call.agent, request.call.task, is_first_prompt(request))
        longest[key] = max(
            longest.get(key, request),
            request,
            key=lambda one: len(one.prefix) + sum(len(m.content) for m in one.messages),
        )
    for request in longest.values():
        call = request.call
        try:
            check_fits(request, recipe.model_of(call.agent))
        except ModelError as error:
            if is_first_prompt(request):
                certain.setdefault(call.agent, {}).setdefault(call.task, str(error))
            elif isinstance(error, ContextOverflow):  # other errors may be due to the echo
                possible.setdefault(call.agent, {}).setdefault(call.task, str(error))
    for agent, tasks in certain.items():
        if len(tasks) == problems:
            raise RecipeError(f"agent '{agent}': {next(iter(tasks.values()))}")
    warnings = [
        f"agent '{agent}': {_format_tasks(tasks)} cannot be run: {next(iter(tasks.values()))}"
        for agent, tasks in certain.items()
    ]
    return warnings + [
        f"agent '{agent}': {_format_tasks(tasks)} might not fit if answers reach max_new_tokens:"
        f" {next(iter(tasks.values()))}"
        for agent, tasks in possible.items()
    ]


def _format_tasks(tasks: Iterable[str]) -> str:
    names = list(tasks)
    shown = ", ".join(names[:3]) + ", ..." * (len(names) > 3)
    return f"{counted(len(names), 'problem')} ({shown})"
