"""Shows episodes on a page: each agent's artifact, the joint artifact, the score and its parts."""

from __future__ import annotations

import json
from collections.abc import Iterator

from collab.cli.screen.page import BAD, BOLD, DIM, GOOD, WARN, Block, Page, Piece
from collab.records import Decision, Episode, Failure, PartScore, Score, ToolCall, Turn
from collab.rewards.declared import earnings_of, measures_of
from collab.rewards.library import language_of
from collab.wording import counted

PART_COLUMNS = ("part", ">points", ">of", "why")


def show_episode(
    page: Page, episode: Episode, *, decisions: bool = False, whole: bool = True
) -> None:
    """Show one episode, turn by turn.

    Args:
        decisions: show each agent's observations and responses, instead of its tool calls only.
        whole: show the episode to its end.
    """
    page.heading(episode.id)
    if decisions:
        page.line((f"seed {episode.seed}, {episode.seconds:.1f} s, {episode.started}", DIM))
    reward: float | None = None
    for turn in episode.turns:
        if decisions or len(episode.turns) > 1:
            page.line()
            page.line((f"turn {turn.index + 1}", BOLD))
        for decision in turn.decisions:
            for block in _decision_blocks(decision) if decisions else _call_blocks(decision):
                page.blocks([block])
        show_artifacts(page, turn)
        if turn.score:
            show_score(page, turn.score, reward)
        show_feedback(page, turn)
        reward = turn.score.reward if turn.score else None
    if whole:
        show_end(page, episode)
    elif episode.failure:
        show_failure(page, episode.failure)
    page.line()


def _call_blocks(decision: Decision) -> Iterator[Block]:
    """Yield each tool call of an agent with its result."""
    for message in decision.observation:
        if call := message.answers:
            yield call_block(decision.agent, call)
            yield Block(f"{call.name} answers {decision.agent}", message.content, "text")


def _decision_blocks(decision: Decision) -> Iterator[Block]:
    """Yield everything that an agent observes, its response and its tool calls."""
    action = decision.action
    place = f"{decision.agent}, round {decision.round + 1}" if decision.round else decision.agent
    for message in decision.observation:
        yield Block(f"{place} observes: {message.role}", message.content, "text")
    title = f"{place} responds: {counted(action.usage.new_tokens, 'token')}, {action.seconds:.1f} s"
    title += f", {action.finish_reason}, {action.model}"
    title += f", adapter {action.adapter}" if action.adapter else ""
    if action.logprobs:
        mean = sum(action.logprobs) / len(action.logprobs)
        title += f", log-prob {mean:.2f} per token, least {min(action.logprobs):.2f}"
    yield Block(title, action.text, "text")
    yield from (call_block(place, call) for call in action.tool_calls if not call.is_text)


def call_block(agent: str, call: ToolCall) -> Block:
    """Format a tool call as a block. If its only argument is code, it is highlighted."""
    title, code = f"{agent} calls {call.name}", call.arguments.get("code")
    if isinstance(code, str) and len(call.arguments) == 1:
        return Block(title, code, "python")
    return Block(title, json.dumps(call.arguments, ensure_ascii=False), "text")


def show_artifacts(page: Page, turn: Turn) -> None:
    """Print each agent's artifact, and the joint artifact."""
    agents = list(dict.fromkeys(decision.agent for decision in turn.decisions))
    page.blocks([_artifact_block(turn, agent) for agent in agents])
    if turn.joint.strip():
        title = "state" if turn.score and turn.score.summary else "joined"
        page.blocks([Block(title, turn.joint, _language(turn))])


def _artifact_block(turn: Turn, agent: str) -> Block:
    actions = [decision.action for decision in turn.decisions if decision.agent == agent]
    tokens = sum(action.usage.new_tokens for action in actions)
    seconds = sum(action.seconds for action in actions)
    title = f"{agent}, {counted(tokens, 'token')}, {seconds:.1f} s"
    if actions[-1].is_truncated:
        title += ", truncated at its limit"
    artifact = turn.artifacts.get(agent, "")
    if artifact.strip() or actions[-1].failure:
        return Block(title, artifact, _language(turn))
    return Block(f"{title}, no artifact", actions[-1].text.strip(), "text")


def _language(turn: Turn) -> str:
    return (language_of(turn.score) if turn.score else None) or "text"


def show_score(
    page: Page, score: Score, previous: float | None = None, *, parts: bool = True
) -> None:
    """Show the verdict, the change from the previous turn, and every part of the joint reward."""
    change = "" if previous is None else f" ({score.reward - previous:+.2f} from the turn before)"
    page.line(*verdict(score), f", reward {format_points(score.reward, score.maximum)}{change}")
    if score.summary:
        page.line((f"  {score.summary}", DIM))
    if score.by_agent:
        page.line((f"  {', '.join(earnings_of(score))}", DIM))
    for failure in score.failures:
        page.line((f"  {failure}", DIM))
    if score.flags:
        page.line((f"  flags: {', '.join(score.flags)}", WARN))
    if score.isolation:
        style = WARN if score.isolation == "unsafe" else DIM
        page.line((f"  scored in {score.seconds:.2f} s, isolation {score.isolation}", style))
    if parts and score.parts:
        page.table(PART_COLUMNS, [_part_row(part) for part in score.parts])


def verdict(score: Score) -> list[Piece]:
    """Return whether the task is solved, and what else the score measured, as styled text."""
    measured = "".join(f", {text}" for text in measures_of(score))
    if score.solved is None:
        return ["scored" + measured]
    solved = ("solved", f"bold {GOOD}") if score.solved else ("not solved", f"bold {BAD}")
    return [solved, measured]


def styled_outcome(episode: Episode) -> tuple[str, str]:
    """Return the outcome of an episode in a word or two, and its style."""
    styles = {"failed": BAD, "done": "", "solved": GOOD, "not solved": BAD}
    return episode.outcome, styles[episode.outcome]


def _part_row(part: PartScore) -> list[Piece]:
    if not part.applies:
        return [(part.name, DIM), ("-", DIM), ("-", DIM), (part.reason, DIM)]
    style = BAD if part.points < 0 else GOOD if part.points > 0 else ""
    points = part.points or 0.0  # not -0.0
    if not part.weight:
        return [part.name, (f"{part.value:.0%}", DIM), ("-", DIM), (part.reason, DIM)]
    of = (f"{part.weight:.2f}", DIM)
    return [part.name, (f"{points:.2f}", style), of, (part.reason, DIM)]


def show_feedback(page: Page, turn: Turn) -> None:
    """Show the feedback for each agent's next turn."""
    texts = {agent: [item for item in items if item.text] for agent, items in turn.feedback.items()}
    page.blocks(
        [
            Block(
                f"feedback for {agent} ({', '.join(item.source for item in items)})",
                "\n\n".join(item.text for item in items),
                "text",
            )
            for agent, items in texts.items()
            if items
        ]
    )
    for failure in turn.failures:
        page.line(
            (f"continued without it: {failure.type} ({failure.boundary}): {failure.message}", WARN)
        )


def show_end(page: Page, episode: Episode) -> None:
    """Show the failure of the episode, or the return of several turns."""
    if episode.failure:
        show_failure(page, episode.failure)
    elif (episode.horizon or len(episode.turns)) > 1 and episode.joint_return is not None:
        text = f"return {format_points(episode.joint_return, episode.largest_return)}"
        if episode.unplayed:
            rest = (
                "its reward counts for the rest" if episode.absorbed else "the rest counts nothing"
            )
            text += f": {describe_early_end(episode)}, {rest}"
        page.line(text)


def describe_early_end(episode: Episode) -> str:
    """Return the turn in which an episode ended early, or "" if it did not."""
    if not episode.unplayed:
        return ""
    return f"solved in turn {episode.turns[-1].index + 1} of {episode.horizon}"


def format_points(value: float, largest: float | None) -> str:
    """Format a reward with its maximum, e.g. `0.50 of 2.00`, or alone if `largest` is None or 0."""
    return f"{value:.2f} of {largest:.2f}" if largest else f"{value:.2f}"


def show_failure(page: Page, failure: Failure) -> None:
    """Print the type and the message of a failure."""
    page.line(
        ("failed", f"bold {BAD}"), f": {failure.type} ({failure.boundary}): {failure.message}"
    )


def show_episode_line(page: Page, episode: Episode, width: int) -> None:
    """Show one episode in one line. `width` is the length of the longest id."""
    tokens = sum(d.action.usage.new_tokens for d in episode.decisions())
    word, style = styled_outcome(episode)
    start = f"  {episode.id:<{width}}  {tokens:>6} tokens {episode.seconds:>6.1f} s"
    if failure := episode.failure:
        why = f"{failure.type}: {failure.message}".partition("\n")[0]
        page.line((f"{word:<10}", style), f"{start}  ", (why, DIM))
        return
    flags = ", ".join(episode.score.flags) if episode.score else ""
    page.line(
        (f"{word:<10}", style),
        f"{start}{_score_text(episode)}",
        (f"  {describe_early_end(episode)}" if episode.unplayed else "", DIM),
        (f"  {flags}" if flags else "", WARN),
    )


def _score_text(episode: Episode) -> str:
    score = episode.score
    if score is None or episode.joint_return is None:
        return ""
    measured = "".join(f"  {text:>14}" for text in measures_of(score))
    return f"  return {format_points(episode.joint_return, episode.largest_return)}{measured}"
