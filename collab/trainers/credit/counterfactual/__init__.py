"""Rules that compare a response with joint actions that were not played.

The responses of a group are recombined and judged again. Nothing new is generated. `forms` decides
where that is unbiased, `table` holds the scores, and each rule has a file.
"""
