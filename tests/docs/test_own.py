"""The programs in docs/protocols.md, docs/own_algorithm.md and docs/suites.md run."""

import doctest
import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
import yaml
from support.algorithm_runs import check_resume, saved_in
from support.blocks import blocks

import collab
from collab.recipe import TrainerSpec, library, load_task
from collab.recipe.feedback import SOURCES
from collab.recipe.model import ENGINES
from collab.records import Episode
from collab.rewards.library import BUILT_IN as parts
from collab.runtime.protocols import BUILT_IN as protocols
from collab.tasks import open_suite
from collab.tasks.formats import BUILT_IN as formats
from collab.trainers.credit import BUILT_IN as algorithms
from collab.trainers.credit import algorithm_for

TASK = {
    "kind": "text",
    "source": {"path": "mine.jsonl"},
    "reward": {"parts": {"said": {"use": "contains", "options": {"phrases": ["x"]}}}},
}


@pytest.fixture
def folder(here: Path) -> Path:
    protocol, harness = blocks("protocols.md", "python")
    (here / "moderated.py").write_text(protocol)
    (here / "harness.py").write_text(harness)
    (here / "credit.py").write_text("\n".join(blocks("own_algorithm.md", "python")))
    for room in ("agents", "tasks"):
        (here / room).mkdir()
    (here / "agents/moderated.yaml").write_text(blocks("protocols.md", "yaml")[1])
    (here / "tasks/mine.yaml").write_text(json.dumps(TASK))
    (here / "tasks/mine.jsonl").write_text('{"prompt": "Say x or y."}\n')
    return here


def play(folder: Path, answers: dict[str, list[str]], *settings: str) -> Episode:
    (folder / "script.yaml").write_text(json.dumps(answers))
    team = collab.load(
        "moderated", task="mine", model="scripted:script.yaml", settings=list(settings)
    )
    episode = team.run("mine/0").episode
    assert episode.failure is None
    return episode


def test_moderated_debate_ends_on_agreement(folder: Path) -> None:
    assert len(blocks("protocols.md", "python")[0].splitlines()) == 10
    answers = {"ann": ["x", "y"], "bob": ["y", "y"], "moderator": ["Why x?", "AGREED", "It is y."]}
    [turn] = play(folder, answers).turns
    assert [(d.agent, d.saw) for d in turn.decisions] == [
        ("ann", ()),
        ("bob", ()),
        ("moderator", ("ann", "bob")),
        ("ann", ("bob", "moderator")),
        ("bob", ("ann", "moderator")),
        ("moderator", ("ann", "bob")),
        ("moderator", ("ann", "bob")),
    ]
    assert turn.decisions[3].observation[-1].content.startswith("The moderator: Why x?")
    assert turn.joint.strip() == "It is y."


def test_the_harness_asks_more_than_once(folder: Path) -> None:
    answers = {"ann": ["hm", "x"], "bob": ["x"], "moderator": ["AGREED", "x"]}
    harness = "agents.ann.harness={use: 'harness.py:think', options: {times: 1}}"
    decisions = play(folder, answers, harness).decisions("ann")
    assert [(d.step, d.action.text) for d in decisions] == [(0, "hm"), (1, "x")]


@pytest.mark.parametrize(("number", "needs_group"), [(0, True), (1, False)])
@pytest.mark.usefixtures("folder")
def test_algorithms_of_the_page_say_whether_they_compare(number: int, needs_group: bool) -> None:
    section = yaml.safe_load(blocks("own_algorithm.md", "yaml")[number])["trainer"]
    spec = TrainerSpec.model_validate(section)
    assert algorithm_for(spec.algorithm).compares is needs_group


@pytest.mark.slow
@pytest.mark.parametrize("number", [0, 1])
def test_algorithms_of_the_page_train_and_resume(
    folder: Path, tiny_words: Path, number: int
) -> None:
    algorithm = yaml.safe_load(blocks("own_algorithm.md", "yaml")[number])["trainer"]["algorithm"]
    check_resume(algorithm, tiny_words, folder)
    averages = saved_in(folder / "whole")["algorithm"].get("averages", {})
    assert set(averages) == ({"a", "b"} if number else set())


def published_suites() -> list[str]:
    """Return the suites whose rows have a published format."""
    files = library.components("task")
    return [name for name, path in files if re.search(r"\b(hub|adapt):", path.read_text())]


@pytest.mark.parametrize(
    ("page", "names"),
    [
        ("algorithms.md", algorithms),
        ("credit.md", algorithms),
        ("protocols.md", protocols),
        ("rewards.md", parts),
        ("engines.md", ENGINES.keys() - {"transformers"}),
        ("feedback.md", SOURCES),
        ("suites.md", formats),
        ("suites.md", published_suites()),
    ],
)
def test_tables_of_the_page_list_every_name(page: str, names: Iterable[str]) -> None:
    text = (Path(__file__).parents[2] / "docs" / page).read_text()
    cells = "".join(re.findall(r"^\| (`.*?) \|", text, re.MULTILINE))
    missing = [name for name in names if not re.search(rf"`{name}[`:]", cells)]
    assert missing == [], f"remedy: a row for each in docs/{page}"


def test_description_of_the_key_names_every_protocol() -> None:
    schema = json.loads((Path(__file__).parents[2] / "docs/schema/team.json").read_text())
    text = schema["properties"]["protocol"]["description"]
    assert [name for name in protocols if f"`{name}`" not in text] == []


def test_page_lists_every_trainer_with_a_result() -> None:
    from collab.trainers.results import RESULTS

    page = (Path(__file__).parents[2] / "docs" / "algorithms.md").read_text()
    table = page.partition("| result on a real model |\n")[2].partition("\n\n")[0]
    rows = [row.strip("| ").split(" | ") for row in table.splitlines()[1:]]
    results = {row[0].strip("`"): row[-1] for row in rows if row[-1] != "-"}
    assert set(results) == set(RESULTS)
    assert [name for name, result in RESULTS.items() if result not in results[name]] == []


def test_doctest_of_the_page_passes() -> None:
    page = Path(__file__).parents[2] / "docs" / "own_algorithm.md"
    failed, tried = doctest.testfile(str(page), module_relative=False)
    assert (failed, tried > 5) == (0, True)


def test_format_and_generator_of_the_page_make_rows(here: Path) -> None:
    Path("quiz.jsonl").write_text('{"q": "1 + 1 =", "a": "2"}\n')
    programs, suites = blocks("suites.md", "python")[-2:], blocks("suites.md", "yaml")[-2:]
    for file, program in zip(("formats.py", "sums.py"), programs, strict=True):
        Path(file).write_text(program)
    rows = []
    for name, suite in zip("ab", suites, strict=True):
        Path(f"{name}.yaml").write_text(suite)
        rows.append(open_suite(load_task(f"{name}.yaml")).select(""))
    assert [len(some) for some in rows] == [1, 50]
    assert all("=" in row.public["prompt"] for some in rows for row in some)
    assert rows[1] == open_suite(load_task("b.yaml")).select("")
