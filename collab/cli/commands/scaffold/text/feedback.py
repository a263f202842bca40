"""Feedback for the agents between turns."""


def be_brief(outcome):
    """Return one string for all agents, or a dict with a string per agent."""
    words = len(outcome.joint.text.split())
    return f"Your answer has {words} words. Use as few as you can."
