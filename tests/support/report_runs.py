"""Folders of made-up runs for reports: two agents write a program over two turns."""

import base64
import gzip
import json
import random
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from collab.records import (
    Action,
    Decision,
    Episode,
    Feedback,
    Message,
    PartScore,
    Score,
    Tests,
    Turn,
    Usage,
)
from collab.report import DEFAULT_MAX_EPISODES
from collab.report.report import write_report
from collab.trainers.training.events import HeldOut, Mode

RECIPE = """\
name: pair
description: Two agents write a program.
team:
  name: coding
  protocol: parallel
  turns: 2
  join: python
  feedback: [{{source: static}}]
  agents: {{aux: {{parser: python}}, main: {{parser: python}}}}
task: {{name: numbers}}
seed: {seed}
"""
TRAINER = """\
trainer:
  algorithm: magrpo
  group_size: 4
  tasks_per_step: 1
  learning_rate: {rate}
  evaluation: {{tasks: test}}
"""


def make_episode(
    number: int,
    *,
    task: str = "numbers/0",
    group: int = 0,
    sample: int = 0,
    skill: float = 0.5,
    text: str = "",
    words: int = 0,
) -> Episode:
    """An episode with a better second turn; `words` of padding make it longer."""
    chance = random.Random(number)
    turns = tuple(_turn(n, chance, skill + 0.2 * n, text, words) for n in range(2))
    return Episode(
        id=f"{task}#{sample}",
        task=task,
        team="coding",
        group=group,
        sample=sample,
        seed=number,
        turns=turns,
        started=f"2026-01-01T10:{number // 60 % 60:02}:{number % 60:02}.000+00:00",
        seconds=2.0,
    )


def _turn(index: int, chance: random.Random, skill: float, text: str, words: int) -> Turn:
    constant = chance.randrange(100)
    padding = "".join(f"# {chance.getrandbits(64):x}\n" for _ in range(words))
    aux = f"def aux(n):\n    return n + {constant}\n{padding}"
    main = f"def solve(n):\n    return aux(n * {index + 2})\n"
    held = sum(chance.random() < skill for _ in range(5))
    score = Score(
        reward=1.0 + held / 5,
        maximum=2.0,
        solved=held == 5,
        tests=Tests(passed=held, total=5),
        parts=(
            PartScore(name="syntax", level="syntax", value=1.0, weight=1.0, reason="it parses"),
            PartScore(
                name="tests", level="tests", value=held / 5, weight=1.0, reason=f"{held} of 5 hold"
            ),
        ),
        failures=() if held == 5 else ("line 3: assert solve(1) == 3: expected 3, got 4",),
        flags=("worker_died",) if chance.random() < 0.05 else (),
        isolation="sealed",
    )
    decisions = tuple(
        Decision(
            agent=agent,
            observation=(
                Message(role="system", content="You write Python."),
                Message(role="user", content=f"Write {agent}, turn {index}."),
            ),
            action=Action(
                text=f"{text}```python\n{program}```",
                token_ids=tuple(range(40)),
                logprobs=tuple(-chance.random() for _ in range(40)),
                finish_reason="length" if chance.random() < 0.1 else "stop",
                model="tiny",
                usage=Usage(prompt_tokens=80, new_tokens=40),
                seconds=0.5,
            ),
        )
        for agent, program in (("aux", aux), ("main", main))
    )
    feedback = Feedback(source="static", text=f"{held} of 5 examples hold.")
    return Turn(
        index=index,
        decisions=decisions,
        artifacts={"aux": aux, "main": main},
        joint=f"{aux}\n\n{main}",
        score=score,
        feedback={"aux": (feedback,), "main": (feedback,)} if index == 0 else {},
    )


def make_run(folder: Path, episodes: Sequence[Episode], *, seed: int = 0, **about: Any) -> Path:
    """Write a run's folder."""
    folder.mkdir(parents=True)
    (folder / "recipe.yaml").write_text(RECIPE.format(seed=seed))
    data = {
        "run": folder.name,
        "team": "coding",
        "agents": ["aux", "main"],
        "models": {"aux": "tiny", "main": "tiny"},
        "tasks": sorted({episode.task for episode in episodes}),
        "samples": 1,
        "turns": 2,
        "seed": seed,
        "isolation": "sealed",
        "versions": {"python": "3.11", "collab": "0.1.0"},
        "command": ["collab", "run", "pair"],
        "status": "done",
        **about,
    }
    (folder / "run.json").write_text(json.dumps(data))
    lines = [episode.model_dump_json() + "\n" for episode in episodes]
    (folder / "episodes.jsonl").write_text("".join(lines))
    return folder


def make_training(folder: Path, *, seed: int = 0, rate: float = 1e-4, steps: int = 8) -> Path:
    """Write a training run's folder: the return rises, and four tasks repeat."""
    chance = random.Random(seed)
    episodes = [
        make_episode(
            1000 * seed + 4 * step + sample,
            task=f"numbers/{step % 4}",
            group=step,
            sample=sample,
            skill=step / steps,
        )
        for step in range(steps)
        for sample in range(4)
    ]
    make_run(folder, episodes, seed=seed, steps=steps)
    text = RECIPE.format(seed=seed) + TRAINER.format(rate=rate)
    (folder / "training.yaml").write_text(text)
    rows = [_evaluation(0, 0.5, chance)]
    rows += [_step(step + 1, steps, chance) for step in range(steps)]
    rows.append(_evaluation(steps, 1.5, chance))
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def add_held_out(folder: Path, *, tasks: int = 6, samples: int = 2, steps: int = 8) -> Path:
    """Add the episodes of both evaluations: `samples` and a greedy one per task."""
    plays: list[tuple[Mode, int]] = [*(("sampled", n) for n in range(samples)), ("greedy", 0)]
    found = [
        HeldOut(
            step=step,
            mode=mode,
            episode=make_episode(
                10_000 + number,
                task=f"numbers/{8 + task}",
                group=task,
                sample=sample,
                skill=step / steps,
            ),
        )
        for step in (0, steps)
        for task in range(tasks)
        for number, (mode, sample) in enumerate(plays, start=100 * step + 10 * task)
    ]
    (folder / "evaluation.jsonl").write_text("".join(h.model_dump_json() + "\n" for h in found))
    return folder


def _step(step: int, steps: int, chance: random.Random) -> dict[str, Any]:
    gain = step / steps
    row = {"type": "step.finished", "step": step, "return/mean": 2 + 2 * gain, "return/std": 0.5}
    row |= {"reward/turn_1": 1 + gain, "reward/turn_2": 1 + gain, "points/tests": gain}
    row |= {"groups/dead": 0.0}
    row |= {"time/sampling": 0.7, "time/update": 0.3, "episodes/flagged": 0.0}
    for agent in ("aux", "main"):
        row |= {f"agent/{agent}/length": 40 + 10 * chance.random()}
        row |= {f"gradient_norm/{agent}": chance.random()}
    return row


def _evaluation(step: int, level: float, chance: random.Random) -> dict[str, Any]:
    def results() -> dict[str, Any]:
        return {
            f"numbers/{task}": {"joint_return": level + chance.random(), "solved": level / 2}
            for task in range(8, 14)
        }

    return {
        "type": "evaluation.finished",
        "step": step,
        "sampled": results(),
        "greedy": results(),
        "failed": 0,
        "seconds": 1.0,
    }


def page_of(*runs: Path, out: Path, most: int = DEFAULT_MAX_EPISODES) -> str:
    """The HTML of a report about runs."""
    write_report(runs, out, max_episodes=most)
    return out.read_text(encoding="utf-8")


def data_of(page: str) -> dict[str, Any]:
    """The data for a page's script."""
    [packed] = re.findall(r'id="data">([^<]*)<', page)
    data: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed)))
    return data
