"""What is looked at before, or instead of, a run: the plan, the machine, an engine."""
