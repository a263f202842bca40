"""Rules of credit that learn from which of two responses is the better, not from how much.

`pairs` chooses them; each rule is a file here.
"""
