"""Rules that compare a response with joint actions that were not played.

The responses of a group are joined anew and judged again: nothing is generated for it. `forms` says
where that is right, `table` holds what was judged, and each rule is a file.
"""
