"""Which tasks a run learns from, and when."""
