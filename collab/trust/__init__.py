"""Third-party files are code: nothing in them runs until the user approves it.

`approve` asks the user, or raises. `remember` unblocks what was approved, and saves the approval.
`block` and `unblock` refuse and allow a function or server in this process; `keep_digest` limits
the permission to the contents that were approved.
"""

from collab.trust.question import (
    NO_QUESTION,
    Ask,
    Consent,
    Item,
    Question,
    approve,
    join_questions,
    remember,
)

__all__ = [
    "NO_QUESTION",
    "Ask",
    "Consent",
    "Item",
    "Question",
    "approve",
    "join_questions",
    "remember",
]
