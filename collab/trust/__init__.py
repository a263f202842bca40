"""What comes from elsewhere is code: nothing of it runs before the user's yes."""

from collab.trust.question import NOTHING, Ask, Consent, Item, Question, joined, remember, settle

__all__ = ["NOTHING", "Ask", "Consent", "Item", "Question", "joined", "remember", "settle"]
