"""The record of a team's work: plain typed data that is read from and written to JSON.

An `Episode` is one attempt of a team at a problem. It holds turns. A turn holds decisions (one
agent's observation and its action), the joint artifact, its score, and the feedback for the next
turn. The record holds tokens, and text is derived from them, so a trainer never tokenizes again.
"""

from collab.records.episode import (
    Action,
    Decision,
    Episode,
    Failure,
    Feedback,
    Finding,
    FinishReason,
    Message,
    PartScore,
    Problem,
    Record,
    Sampling,
    Score,
    Style,
    Tests,
    ToolCall,
    ToolSpec,
    Turn,
    Usage,
    WhenSolved,
    failure_of,
)
from collab.records.run import read_episodes
from collab.records.texts import Text

__all__ = [
    "Action",
    "Decision",
    "Episode",
    "Failure",
    "Feedback",
    "Finding",
    "FinishReason",
    "Message",
    "PartScore",
    "Problem",
    "Record",
    "Sampling",
    "Score",
    "Style",
    "Tests",
    "Text",
    "ToolCall",
    "ToolSpec",
    "Turn",
    "Usage",
    "WhenSolved",
    "failure_of",
    "read_episodes",
]
