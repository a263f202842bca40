"""Speed of the runtime alone: scripted episodes without a model, in agent-turns per second.

    python benchmarks/runtime.py [EPISODES]

On one core, two agents run two turns with the feedback `self` and a reward part in Python. The
record is written to disk. The ratio compares this with a plain loop that only renders the prompts
and takes the same answers.
"""

import asyncio
import json
import os
import sys
import tempfile
import time
from pathlib import Path

import collab
from collab.agents import Template

TEAM = """\
turns: 2
feedback: [self]
agents:
  a: {role: "You are {{ agent }}.", prompt: "Say {{ task.word }}."}
  b: {role: "You are {{ agent }}.", prompt: "Say {{ task.word }}."}
"""
TASK = """\
kind: text
source: {path: words.jsonl}
reward: {parts: {said: {use: "part.py:said"}}}
"""
PART = "def said(context):\n    return float('never' in context.joint.text)\n"
TARGET = 4_000


def make_project(folder: Path, n_episodes: int) -> None:
    for name in ("agents", "tasks"):
        (folder / name).mkdir()
    (folder / "agents" / "pair.yaml").write_text(TEAM)
    (folder / "tasks" / "words.yaml").write_text(TASK)
    (folder / "part.py").write_text(PART)
    with (folder / "tasks" / "words.jsonl").open("w") as rows:
        for number in range(n_episodes):
            rows.write(json.dumps({"task_id": str(number), "word": f"w{number}"}) + "\n")
    answers = [f"answer {number}" for number in range(2 * n_episodes)]
    (folder / "script.json").write_text(json.dumps({"a": answers, "b": answers}))


def run_team(n_episodes: int) -> float:
    team = collab.load("pair", model="scripted:script.json")
    started = time.perf_counter()
    rollout = asyncio.run(team.arun("words", out="run"))
    seconds = time.perf_counter() - started
    assert len(rollout.episodes) == n_episodes
    assert rollout.summary["failed"] == 0
    return seconds


def run_plain(n_episodes: int) -> float:
    template = Template("Say {{ task.word }}.", "benchmark")
    started = time.perf_counter()
    for number in range(n_episodes):
        for _ in range(4):
            template.render(task={"word": f"w{number}"}, agent="a")
    return time.perf_counter() - started


def main(n_episodes: int = 1_000) -> int:
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        make_project(Path(folder), n_episodes)
        run_team(n_episodes)
        Path("run").rename("warm-up")
        seconds, plain = run_team(n_episodes), run_plain(n_episodes)
        os.chdir("/")
    rate = 4 * n_episodes / seconds
    print(f"{n_episodes} episodes x 2 agents x 2 turns: {seconds:.2f} s on one core")
    print(f"{rate:,.0f} agent-turns/s (target {TARGET:,}); {seconds / plain:.1f} x prompts alone")
    return 0 if rate >= TARGET else 1


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
