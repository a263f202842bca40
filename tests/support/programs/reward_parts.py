"""Right and wrong reward parts in a user's file."""

from collections.abc import Callable
from typing import Any

PARTS = """\
import asyncio, math, time
from collab.rewards import Part

def one(context): return 1
def zero(context): return 0, "nothing"
def half(context, scale: float = 1.0): return 0.5 * scale, "half"
def yes(context): return True
def absent(context): return Part(0.0, "no meaning here", applies=False)
def team(context): return len(context.agents) / 4, ",".join(context.agents)
def helper_part(context, helper: str): return 1.0, context.artifacts[helper]
def barely(context): return Part(0.0, "at the end of a ramp", passes=True)
def stops(context): return Part(0.5, "half, and no further", passes=False)
def negative(context): return -0.1
def big(context): return 1.5
def nan(context): return math.nan
def text(context): return "1"
def nothing(context): return None
def pair(context): return 1.0, 2.0
def numpy_true(context):
    import numpy
    return numpy.float64(0.7) > 0.5
def raises(context): raise ValueError("no such thing")
def exits(context): raise SystemExit(3)
def blocks(context): time.sleep(1)
async def sleeps(context): await asyncio.sleep(60)
async def blocks_async(context): time.sleep(1)
async def judged(context):
    verdict = await context.verdict()
    again = await context.verdict()
    return verdict.tests.fraction, str(verdict is again)
async def swallows(context):
    try:
        await context.verdict()
    except Exception:
        return 1.0
async def other_program(context):
    other = "def sum_of_squares(x): return 5"
    verdict = await context.verdict(other)
    return verdict.tests.fraction
"""


Use = Callable[..., dict[str, Any]]
GOOD = "def sum_of_squares(xs): return sum(x * x for x in xs)"
