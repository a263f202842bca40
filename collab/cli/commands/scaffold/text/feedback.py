"""Feedback for the agents between turns."""


def be_brief(outcome):
    """A text tells all agents; a dict of texts tells each one its own."""
    words = len(outcome.joint.text.split())
    return f"Your answer has {words} words. Use as few as you can."
