"""The sections of a trainer, each with settings of its own."""
