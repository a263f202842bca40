"""Answer, run the prompt's examples, and repair failures (Self-Debug, arXiv 2304.05128)."""

from __future__ import annotations

from collab.runtime.turn import Turn

REPAIR_TEMPLATE = """\
{% for name, response in others.items() %}Agent {{ name }} answered:
{{ response }}

{% endfor %}{{ feedback }}

Correct the answer and give it in full.
"""


async def repair(
    turn: Turn, *, coder: str | None = None, repairer: str | None = None, rounds: int = 1
) -> None:
    """One agent answers, and another one repairs the answer while the feedback reports errors.

    The turn ends when the team's feedback sources report no error, and the last answer counts. The
    sources see no hidden tests, so these do not decide when the turn ends. A repairer that has
    acted before, such as the coder itself, gets its template `revise` instead of `repair`.

    Args:
        coder: default: the team's first agent.
        repairer: default: the team's last agent; the coder itself in a team of one.
        rounds: maximum number of repairs.
    """
    coder, repairer = coder or turn.agents[0], repairer or turn.agents[-1]
    await turn.act(coder)
    author = coder
    for _ in range(rounds):
        turn.choose(author)  # the feedback is on this agent's program
        items = (await turn.feedback())[repairer]
        if not any(one.severity == "error" for item in items for one in item.findings):
            break
        text = "\n\n".join(item.text for item in items if item.text)
        template = "revise" if turn.acted(repairer) else "repair"
        await turn.act(repairer, template, sees=[author], otherwise=REPAIR_TEMPLATE, feedback=text)
        author = repairer
    turn.choose(author)
