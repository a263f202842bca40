"""The mark in everything that attacks leave behind."""

MARK = "judge_attack_mark"
"""Part of the name or text of everything that an attack tries to leave behind."""
