"""Algorithms that compare a response with joint actions that were not played.

The responses of a group are recombined and scored again. No response is generated. `forms` decides
when that is unbiased, `table` holds the scores, and `algorithms` uses them.
"""
