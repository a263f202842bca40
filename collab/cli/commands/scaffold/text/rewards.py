"""The parts of the reward. Each returns a number from 0 to 1."""


def right(context):
    """1 if the team's answer contains the expected answer, otherwise 0."""
    return float(context.field("answer").lower() in context.answer.lower())


def short(context):
    """1 for one word, and less for every further word."""
    return 1 / max(1, len(context.answer.split()))
