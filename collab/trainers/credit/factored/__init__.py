"""Rules of credit that learn each agent's part of the return from the returns of the team.

Each rule is a file here; `reading` is what the parts are read from, `parts` and `mixer` are the
networks that join them.
"""
