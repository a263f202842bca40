"""One thin file a command; `collab.cli.app` imports the one that is asked for."""
