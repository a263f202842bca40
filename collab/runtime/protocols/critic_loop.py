"""Propose, criticize, revise, until the critic accepts (Self-Refine, arXiv 2303.17651)."""

from __future__ import annotations

import re

from collab.errors import RecipeError
from collab.runtime.turn import Turn

CRITICIZE_TEMPLATE = """\
{% for name, response in others.items() %}Agent {{ name }} now answers:
{{ response }}

{% endfor %}Say what is still wrong with it.
If nothing is, answer with the single word {{ accept }}.
"""
REVISE_TEMPLATE = """\
{% for name, response in others.items() %}Agent {{ name }} says of your answer:
{{ response }}

{% endfor %}Revise your answer and give it in full.
"""


async def critic_loop(
    turn: Turn,
    *,
    proposer: str | None = None,
    critic: str | None = None,
    revisions: int = 2,
    accept: str = "ACCEPT",
) -> None:
    """One agent proposes, and another one criticizes. The last proposal counts.

    Args:
        proposer: default: the team's first agent.
        critic: default: the team's last agent.
        revisions: maximum number of revisions by the proposer.
        accept: the loop ends when the critic's answer begins with this word.

    Raises:
        RecipeError: the proposer is the critic.
    """
    proposer, critic = proposer or turn.agents[0], critic or turn.agents[-1]
    if proposer == critic:
        raise RecipeError(
            f"protocol 'critic_loop' needs 2 different agents, got '{proposer}' twice"
        )
    await turn.act(proposer)
    for _ in range(revisions):
        template = "criticize" if turn.acted(critic) else "prompt"
        verdict = await turn.act(
            critic, template, sees=[proposer], otherwise=CRITICIZE_TEMPLATE, accept=accept
        )
        if re.match(rf"\s*{re.escape(accept)}(?!\w)", verdict):
            break
        await turn.act(proposer, "answer_critic", sees=[critic], otherwise=REVISE_TEMPLATE)
    turn.choose(proposer)
