"""The supervisor: the trusted process that tries candidate programs, one after another.

It runs as its own interpreter (`python -P -s -S`, empty environment) and uses the standard library
only, so that a candidate's process, which is forked from it, holds nothing of the caller.

    caller ── supervisor ──┬── zygote ── test_runner   one a trial: runs the test, compares, reports
                      └── zygote ── worker    one a trial: runs the candidate's program

Both are sealed. The zygotes are forked before any trial was seen, and hold no test.
TestRunner and worker speak over two pipes, in frames of plain data (`wire`, `codec`).
"""
