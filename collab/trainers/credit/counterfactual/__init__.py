"""Algorithms that compare a response in combinations with others of its group.

Each combination of a group's responses is scored. No response is generated. `forms` decides
when that is unbiased, `table` holds the scores, and `algorithms` uses them.
"""
