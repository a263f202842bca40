"""The supervisor: the trusted process that tries candidate programs, one after another.

It runs in a separate interpreter (`python -P -s -S`, empty environment) and uses only the standard
library. A candidate's process is forked from it, and therefore contains nothing of the caller.

    caller ── supervisor ──┬── zygote ── test runner   one per trial: runs the test, reports
                      └── zygote ── worker    one per trial: runs the candidate's program

Both are sealed. The zygotes are forked before the first trial, and contain no test. Test runner and
worker communicate over two pipes, in frames of plain data (`wire`, `codec`).
"""
