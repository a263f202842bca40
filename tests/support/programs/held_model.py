"""A model that answers once and then waits until the file `hold` is removed."""

HELD = '''\
"""A model that answers the first problem, and the others when the file `hold` is gone."""

import asyncio
from pathlib import Path

from collab.records import Action, Usage


class Held:
    name, batching = "held", "continuous"

    async def generate(self, requests, progress=None):
        task = requests[0].call.task
        while not task.endswith("/0") and Path("hold").exists():
            await asyncio.sleep(0.02)
        text = f"Say w{task[-1]}."
        return [Action(text=text, usage=Usage(new_tokens=3)) for _ in requests]

    async def aclose(self):
        pass


def held(spec):
    return Held()
'''
