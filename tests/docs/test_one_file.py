"""Each extension in the table of docs/architecture.md is added by one file."""

import asyncio
import json
import re
from pathlib import Path

import pytest
from support.blocks import DOCS, blocks
from support.trainer_recipes import make_game

import collab
from collab.trainers import TrainingRun

TEAM = 'agents:\n  a: {prompt: "Say a word."}\n  b: {prompt: "Say a word."}\n'
TASK = (
    "kind: text\nsource: {path: ROWS}\n"
    "reward: {parts: {said: {use: contains, options: {phrases: [word]}}}}\n"
)
ENGINE = blocks("engines.md", "python")[0]
MARK = "open('called', 'w').close()"

FILES: dict[str, tuple[str, str, str]] = {
    "a suite": ("tasks/mine.yaml", TASK.replace("ROWS", "../rows.jsonl"), ""),
    "a team": ("agents/mine.yaml", TEAM.replace("a word", "my word"), ""),
    "a reward part": (
        "own.py",
        f"def own(context):\n    {MARK}\n    return 1.0\n",
        "task.reward.parts.own={use: 'own.py:own'}",
    ),
    "a generated suite": (
        "own.py",
        f"def own(random):\n    {MARK}\n    yield {{'prompt': 'Say a word.'}}\n",
        "task.source={generate: 'own.py:own', rows: 1}",
    ),
    "a format of rows": (
        "own.py",
        f"def own(row):\n    {MARK}\n    return row\n",
        "task.source.adapt='own.py:own'",
    ),
    "an environment": (
        "own.py",
        "from collab.environments import Environment, Step\n\nclass Own(Environment):\n"
        "    seats, turns = ('x', 'y'), 1\n"
        "    def reset(self, random):\n        return Step({'x': 'Go.', 'y': 'Go.'})\n"
        f"    def step(self, actions):\n        {MARK}\n        return Step(rewards=1.0)\n"
        "    def render(self):\n        return 'over'\n",
        "task={kind: environment, name: task, environment: 'own.py:Own'}",
    ),
    "a protocol": (
        "own.py",
        f"async def own(turn):\n    {MARK}\n    await turn.act('a')\n    await turn.act('b')\n",
        "team.protocol='own.py:own'",
    ),
    "a harness": (
        "own.py",
        f"async def own(move):\n    {MARK}\n    await move.generate()\n",
        "agents.a.harness='own.py:own'",
    ),
    "a tool": (
        "own.py",
        f"def own():\n    {MARK}\n",
        "agents.a={tools: ['own.py:own'], prompt: '<tool_call>{\"name\": \"own\"}</tool_call>'}",
    ),
    "a parser": (
        "own.py",
        f"def own(response):\n    {MARK}\n    return response\n",
        "agents.a.parser='own.py:own'",
    ),
    "a join": (
        "own.py",
        f"def own(artifacts, problem):\n    {MARK}\n    return 'joined'\n",
        "team.join='own.py:own'",
    ),
    "a feedback source": (
        "own.py",
        f"def own(outcome):\n    {MARK}\n    return 'again'\n",
        "team.feedback=['own.py:own']",
    ),
    "a model engine": (
        "own.py",
        ENGINE.replace("\n    return C", f"\n    {MARK}\n    return C"),
        "",
    ),
}
ALGORITHMS = {
    "an algorithm": f"def own(group):\n    {MARK}\n    return {{}}\n",
    "an algorithm with state": (
        "class own:\n    async def credit(self, groups):\n"
        f"        {MARK}\n        return [{{}} for _ in groups]\n\n"
        "    def state(self):\n        return {}\n\n    def restore(self, state):\n        pass\n"
    ),
}


@pytest.fixture
def project(here: Path) -> Path:
    (here / "agents").mkdir()
    (here / "tasks").mkdir()
    (here / "agents/team.yaml").write_text(TEAM)
    (here / "tasks/task.yaml").write_text(TASK.replace("ROWS", "../rows.jsonl"))
    (here / "rows.jsonl").write_text('{"prompt": "Say a word."}\n')
    return here


def test_every_row_is_tried() -> None:
    text = (DOCS / "architecture.md").read_text()
    rows = re.findall(r"^\| (an? [\w ]+?) \|", text, re.MULTILINE)
    assert set(rows) == {*FILES, *ALGORITHMS}


@pytest.mark.parametrize("extension", list(FILES))
def test_extension_is_one_file(project: Path, extension: str) -> None:
    path, text, setting = FILES[extension]
    (project / path).write_text(text)
    settings = ["team.turns=2", *([setting] if setting else [])]
    task = "mine" if path.startswith("tasks") else "task"
    team = collab.load(
        "mine" if path.startswith("agents") else "team",
        task=task,
        model={"engine": "own.py:counter"} if path == "own.py" and not setting else "echo",
        settings=settings,
    )
    episode = team.run(f"{task}/0").episode
    assert episode.failure is None
    assert (project / "called").exists() == (path == "own.py")
    if extension == "a team":
        assert "my word" in json.dumps([d.observation[0].content for d in episode.decisions("a")])


@pytest.mark.parametrize("extension", list(ALGORITHMS))
def test_algorithm_is_one_file(project: Path, tiny_words: Path, extension: str) -> None:
    (project / "own.py").write_text(ALGORITHMS[extension])
    recipe = make_game(tiny_words, project, algorithm="own.py:own", steps=1, evaluation=None)
    asyncio.run(TrainingRun(recipe, project / "run").run())
    assert (project / "called").exists()
