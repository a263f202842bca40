"""The files of a run: their names, writing and reading."""
