"""An agent: its prompts, the parser of its responses, and the join of a team's artefacts."""

from collab.agents.joins import Joint, join_for
from collab.agents.parsers import parser_for
from collab.agents.prompts import Template

__all__ = ["Joint", "Template", "join_for", "parser_for"]
