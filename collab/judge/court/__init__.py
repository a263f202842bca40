"""The court: the trusted process that tries candidate programs, one after another.

It runs as its own interpreter (`python -I -S`, empty environment) and uses the standard library
only, so that a candidate's process, which is forked from it, holds nothing of the caller.

    caller ── court ──┬── referee      trusted: runs the test, compares, reports each assert
                      └── warden       forked before any trial was seen; holds no test
                            └── worker   one a trial, sealed: runs the candidate's program

Referee and worker speak over two pipes, in frames of plain data (`wire`, `codec`).
"""
