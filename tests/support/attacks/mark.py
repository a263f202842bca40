"""What attacks leave behind goes by this mark."""

MARK = "judge_attack_mark"
"""In the name or text of everything that an attack tries to leave behind."""
