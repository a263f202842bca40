"""Reward parts that score an answer with another library: reasoning_gym and verifiers."""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from collab.distribution import import_optional
from collab.errors import RewardError
from collab.plugins import check_may_import
from collab.recipe.names import environment_function
from collab.rewards.context import RewardContext, artifact_of

MAX_ANSWER_CHARACTERS = 20_000
"""Longest answer of any kind, in characters."""
MAX_FORMULA_CHARACTERS = 300
MAX_EXPONENTIALS = MAX_BRACKET_POWERS = 3

_ARITHMETIC = re.compile(r"[\d\s+\-*/().]*\Z", re.ASCII)
_ALGEBRA = re.compile(r"[\w\s+\-*/().]*\Z", re.ASCII)
_LIST = re.compile(r"[\w\s\[\]'\",.+-]*\Z", re.ASCII)
_WORDS = re.compile(r"[^\W\d]\w*", re.ASCII)
_FUNCTIONS = frozenset({"sin", "cos", "tan", "exp", "log", "sqrt", "asin", "acos", "atan", "pi"})
_EXPONENT = r"(?:-?\d{1,2}|[a-z]|\(\s*-?\d{1,2}\s*(?:/\s*\d{1,2}\s*)?\))"
_SMALL_POWER = re.compile(rf"(?<!\))\s*\*\*\s*{_EXPONENT}(?![\w(])(?!\s*\*\*)", re.ASCII)
_POWER_OF_BRACKETS = re.compile(r"\)\s*\*\*\s*(?:\d|\(\d/\d\))(?![\w(])(?!\s*\*\*)", re.ASCII)
_BITWISE = re.compile(
    r"(?:<<\s*0x[0-3](?![0-9a-f])|>>|0x[0-9a-f]{1,8}(?![0-9a-f])|[\s()+*-])*\Z", re.ASCII
)
_PYTHON_SYNTAX = re.compile(r"\.\s*[A-Za-z_]|\d[A-Za-z_]|__", re.ASCII)


def refusal_reason(name: str, answer: str) -> str:
    """Return the reason why an answer must not be passed to the set `name`, or "" if it may."""
    if len(answer) > MAX_ANSWER_CHARACTERS:
        return f"the answer has more than {MAX_ANSWER_CHARACTERS:,} characters"
    is_plain = _ANSWER_CHECKS.get(name)
    return (
        "" if is_plain is None or is_plain(answer) else "the answer is not a plain formula or list"
    )


def _is_arithmetic(answer: str) -> bool:
    """Return True for numbers and the four operations."""
    return (
        len(answer) <= MAX_FORMULA_CHARACTERS
        and bool(_ARITHMETIC.match(answer))
        and "**" not in answer
    )


def _is_polynomial(answer: str) -> bool:
    """Return True for numbers, variables of one letter, the four operations and small powers."""
    return _is_algebra(answer, frozenset())


def _is_integral(answer: str) -> bool:
    """Return True for a polynomial, also with functions such as `sin`."""
    return _is_algebra(answer, _FUNCTIONS) and answer.count("exp") <= MAX_EXPONENTIALS


def _is_algebra(
    answer: str, functions: frozenset[str], max_characters: int = MAX_FORMULA_CHARACTERS
) -> bool:
    if len(answer) > max_characters or not _ALGEBRA.match(answer) or _PYTHON_SYNTAX.search(answer):
        return False
    words = _WORDS.findall(answer)
    known = all(word in functions or re.fullmatch("[a-zCXYZ]", word) for word in words)
    brackets = len(_POWER_OF_BRACKETS.findall(answer))
    small = len(_SMALL_POWER.findall(answer)) + brackets == answer.count("**")
    return known and small and brackets <= MAX_BRACKET_POWERS


def _is_list(answer: str) -> bool:
    """Return True for lists of numbers, strings and names, without calls or attribute access."""
    return bool(_LIST.match(answer)) and not {"for", "lambda", "await"} & {*_WORDS.findall(answer)}


_ANSWER_CHECKS = {
    "countdown": _is_arithmetic,
    "puzzle24": _is_arithmetic,
    "polynomial_multiplication": _is_polynomial,
    "simple_integration": _is_integral,
    "intermediate_integration": _is_integral,
    "binary_matrix": _is_list,
    "spiral_matrix": _is_list,
    "string_insertion": _is_list,
    "n_queens": _is_list,
}
"""Sets that evaluate the answer (version 0.1.25), each with a check for the answers that it may
get.
"""


def _is_row_formula(text: str) -> bool:
    return _is_algebra(text, _FUNCTIONS, MAX_ANSWER_CHARACTERS)


def _is_bitwise(text: str) -> bool:
    return bool(_BITWISE.match(text)) and "**" not in text


_FIELD_CHECKS: dict[str, tuple[str, Callable[[str], bool]]] = {
    "number_sorting": ("answer", _is_list),
    "polynomial_multiplication": ("answer", _is_row_formula),
    "simple_integration": ("integrand", _is_row_formula),
    "intermediate_integration": ("integrand", _is_row_formula),
    "bitwise_arithmetic": ("problem", _is_bitwise),
}
"""Sets that evaluate a field of the row (version 0.1.25), which anybody may have written.

Each has the field and a check for the texts that it may have.
"""


def _check_row(name: str, row: Mapping[str, Any], address: str) -> None:
    """Raise RewardError if the set `name` would run a field of the row as Python."""
    if name in _FIELD_CHECKS:
        field, is_plain = _FIELD_CHECKS[name]
        value = row.get(field)
        if not (isinstance(value, str) and is_plain(value)):
            raise RewardError(
                f"{address}: reasoning_gym would run the field '{field}' of this row as Python, and"
                f" it is not a plain formula or list: {value!r:.80}; take the rows of"
                f" --task reasoning_gym/{name}"
            )


_ANSWER_TAG = re.compile(r"<answer>(.*?)</answer>", re.DOTALL)


def score_answer(context: RewardContext, *, agent: str = "") -> tuple[float, str]:
    """The score of the answer, from 0 to 1, by the problem's set of reasoning-gym.

    The answer is the last `<answer>...</answer>`, otherwise the whole text.

    Args:
        agent: the agent whose artifact is scored, or "" for the joint artifact.
    """
    text = artifact_of(context, agent)
    tagged = _ANSWER_TAG.findall(text)
    answer = (tagged[-1] if tagged else text).strip()
    name = context.field("set")
    if reason := refusal_reason(name, answer):
        return 0.0, reason
    hidden = context.problem.hidden
    metadata = hidden.get("metadata")
    row = {**(metadata if isinstance(metadata, Mapping) else {}), "answer": hidden.get("answer")}
    _check_row(name, row, context.problem.address)
    entry = {
        "question": context.field("prompt"),
        "answer": hidden.get("answer"),
        "metadata": metadata,
    }
    scorer = _scorer(name)
    try:
        value = float(scorer(answer, entry))
    except Exception as error:  # any exception of a set for an unexpected answer
        return 0.0, f"the answer cannot be read: {type(error).__name__}"
    value = min(1.0, max(0.0, value)) if math.isfinite(value) else 0.0
    return value, f"reasoning_gym gives {value:.2f}"


@cache
def _scorer(name: str) -> Callable[[str, dict[str, Any]], float]:
    """Return the scoring function of a reasoning-gym set."""
    user = f"the suite reasoning_gym/{name}"
    gym = import_optional("reasoning_gym", user, "reasoning-gym", RewardError)
    scorer: Callable[[str, dict[str, Any]], float] = gym.get_score_answer_fn(name)
    return scorer


def environment_score(
    context: RewardContext, *, minimum: float = 0.0, maximum: float | None = None, agent: str = ""
) -> tuple[float, str]:
    """The sum of the rewards of the problem's environment, as a share of the maximum.

    Args:
        minimum: the sum of rewards that counts as 0.
        maximum: the sum that counts as 1; None: the sum of all positive weights.
        agent: the agent whose artifact is scored, or "" for the joint artifact.

    Raises:
        RewardError: the package is not installed, or the sum is not between `minimum` and
            `maximum`.
        Untrusted: the environment comes from a third-party recipe and is not approved.
    """
    text = artifact_of(context, agent)
    hidden = context.problem.hidden
    task = _load_task(context.field("environment"), hidden.get("options") or {}, hidden["data"])
    largest = maximum if maximum is not None else _largest_reward(task)
    trace = _make_trace(task, context.field("prompt"), text)
    asyncio.run(task.score(trace))
    rewards = {name: reward for name, reward in trace.rewards.items() if reward is not None}
    total = math.fsum(reward.value for reward in rewards.values())
    if not (math.isfinite(total) and minimum <= total <= largest and minimum < largest):
        raise RewardError(
            f"the environment gives {total:g}, which is not between {minimum:g} and {largest:g};"
            " set task.reward.parts.NAME.options.minimum and maximum to its real range"
        )
    scores = ", ".join(f"{name} {reward.score:g}" for name, reward in rewards.items())
    return (total - minimum) / (largest - minimum), f"{total:g} of {largest:g}: {scores}"


def _load_task(environment: str, options: dict[str, Any], data: dict[str, Any]) -> Any:
    """Return the task from which a row was made."""
    check_may_import(environment_function(environment))
    vf = import_optional(
        "verifiers.v1", f"the suite verifiers/{environment}", "verifiers", RewardError
    )
    config = vf.taskset_config_type(environment).model_validate({**options, "id": environment})
    kind = vf.task_type(environment)
    return kind(kind.data_type().model_validate(data), config.task)


def _largest_reward(task: Any) -> float:
    weights = [getattr(reward, "_vf_weight", 1.0) for reward in task.hooks("reward")]
    return math.fsum(weight for weight in weights if weight > 0)


def _make_trace(task: Any, prompt: str, text: str) -> Any:
    """Build the record of one question and its answer in the form of verifiers."""
    from verifiers import v1 as vf  # type: ignore[import-not-found,import-untyped,unused-ignore]
    from verifiers.v1.state import (  # type: ignore[import-not-found,import-untyped,unused-ignore]
        state_cls,
    )

    question = vf.MessageNode(message=vf.UserMessage(content=prompt))
    answered = vf.MessageNode(parent=0, message=vf.AssistantMessage(content=text), sampled=True)
    return vf.Trace(
        task=vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash),
        state=state_cls(type(task))(),
        agent=vf.AgentInfo(config=vf.AgentConfig()),
        nodes=[question, answered],
        is_completed=True,
        ok=True,
    )
