"""One thin file per command; `collab.cli.app` imports only the command that runs."""
