"""The parts of the reward: each gives a number from 0 to 1."""


def right(context):
    """Whether the team's answer holds what it should."""
    return float(context.field("answer").lower() in context.joint.text.lower())


def short(context):
    """1 for one word, less for more."""
    return 1 / max(1, len(context.joint.text.split()))
