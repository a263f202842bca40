"""Third-party files are code: nothing in them runs until the user approves it.

`approve` asks the user, or raises. `remember` unblocks what was approved, and saves the approval.
`block` and `unblock` refuse and allow a function or server in this process; `keep_digest` limits
the permission to the contents that were approved.
"""

from collab.trust.question import NOTHING, Ask, Consent, Item, Question, approve, joined, remember

__all__ = ["NOTHING", "Ask", "Consent", "Item", "Question", "approve", "joined", "remember"]
