"""An agent: its prompts, the parser of its responses, and the join of a team's artifacts."""

from collab.agents.joins import Join, Joint, join_for
from collab.agents.parsers import parser_for
from collab.agents.prompts import Template

__all__ = ["Join", "Joint", "Template", "join_for", "parser_for"]
