"""The court: the trusted process that tries candidate programs, one after another.

It runs as its own interpreter (`python -I -S`, empty environment) and uses the standard library
only, so that a candidate's process, which is forked from it, holds nothing of the caller.

    caller ── court ──┬── warden ── referee   one a trial: runs the test, compares, reports
                      └── warden ── worker    one a trial: runs the candidate's program

Both are sealed. The wardens are forked before any trial was seen, and hold no test.
Referee and worker speak over two pipes, in frames of plain data (`wire`, `codec`).
"""
