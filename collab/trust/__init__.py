"""Third-party files are code: nothing in them runs until the user approves it."""

from collab.trust.question import NOTHING, Ask, Consent, Item, Question, joined, remember, settle

__all__ = ["NOTHING", "Ask", "Consent", "Item", "Question", "joined", "remember", "settle"]
