"""Pages with one or two checks: links, settings, tables and examples match the code."""

import inspect
import re
from pathlib import Path

import pytest
import yaml
from support.blocks import DOCS, blocks, run_here, shell

from collab.models.fakes import ScriptedAnswer
from collab.models.vllm.server import START_HINT
from collab.recipe import Recipe, load_recipe
from collab.recipe.trainer import EvaluationSpec
from collab.rewards.library import MEASURES
from collab.runs import metric_names
from collab.runtime.protocols import BUILT_IN
from collab.trainers import make_plan
from collab.trainers.training.check import check_recipe
from collab.trainers.training.plan.cards import CARDS


def page(name: str) -> str:
    return (DOCS / name).read_text()


def rows_of(name: str, first: str) -> list[str]:
    """Return what `first` captures in the first cell of each row of a page's tables."""
    return re.findall(rf"^\| {first}", page(name), re.MULTILINE)


def test_readme_links_to_every_page() -> None:
    linked = set(re.findall(r"\]\(docs/(\w+\.md)\)", (DOCS.parent / "README.md").read_text()))
    assert linked == {page.name for page in DOCS.glob("*.md")}


def test_evaluation_settings_of_the_page_are_valid() -> None:
    [data] = [yaml.safe_load(text) for text in blocks("held_out.md", "yaml")]
    settings = [f"trainer.{key}={value}" for key, value in data["trainer"].items()]
    recipe = load_recipe("pocket", task="pocket-code", trainer="magrpo", settings=settings[1:])
    spec = check_recipe(recipe)
    assert spec.tasks == "train"
    assert spec.evaluation == EvaluationSpec.model_validate(data["trainer"]["evaluation"])
    assert rows_of("held_out.md", r"`(\w+)` \|") == list(EvaluationSpec.model_fields)


@pytest.mark.parametrize("name", BUILT_IN)
def test_page_names_the_templates_of_every_protocol(name: str) -> None:
    section = page("protocols.md").partition("## Templates by protocol")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if re.match(rf"\|.*`{name}`.*\|.*\|", line)]
    assert len(rows) == 1, f"remedy: one row for {name} in docs/protocols.md, Templates by protocol"
    source = inspect.getsource(inspect.getmodule(BUILT_IN[name]) or BUILT_IN[name])
    templates = re.findall(r'"(discuss|rebut|criticize|answer_critic)"', source)
    assert all(f"{template}`" in rows[0] for template in ["prompt", *templates])


def test_server_command_of_the_page_has_the_required_options() -> None:
    """The options include a seed; without one, every server samples the same numbers."""
    [command] = re.findall(r"```sh\n(VLLM_.* vllm serve .*?)```", page("engines.md"), re.DOTALL)
    flags = re.compile(r"--[a-z-]+")
    assert "--seed" in flags.findall(START_HINT)
    assert flags.findall(command) == flags.findall(START_HINT)


def test_page_lists_every_metric() -> None:
    constants = vars(metric_names).items()
    names = {value for name, value in constants if name.isupper() and name[0] != "_"}
    names |= {measure.metric for measure in MEASURES if measure.metric}
    listed = re.findall(r"`(.*?)`", "".join(rows_of("metrics.md", r"(`.*?) \|")))
    assert {*listed} == names - {metric_names.AGENT}  # the prefix of an agent's metrics


@pytest.mark.slow
def test_pytest_example_of_the_page_passes(tmp_path: Path) -> None:
    (tmp_path / "answers.yaml").write_text(blocks("fakes.md", "yaml")[0])
    (tmp_path / "test_team.py").write_text(blocks("fakes.md", "python")[0])
    shell("python -m pytest -q -p no:cacheprovider test_team.py", tmp_path)


@pytest.mark.slow
def test_commands_of_the_page_run(tmp_path: Path) -> None:
    run_here(blocks("fakes.md", "sh")[0], tmp_path)


def test_page_lists_every_key_of_an_answer() -> None:
    assert {*rows_of("fakes.md", r"`(\w+)` \|")} >= set(ScriptedAnswer.model_fields)


def pocket(**changes: object) -> Recipe:
    data = load_recipe("pocket", task="pocket-levels", trainer="magrpo").model_dump(mode="json")
    return Recipe.model_validate({**data, **changes})


def test_each_agent_has_its_own_sampling_limits() -> None:
    agents = yaml.safe_load(blocks("teams.md", "yaml")[1])["agents"]
    team = {"agents": agents, "sampling": {"temperature": 0.5, "max_new_tokens": 100}}
    recipe = pocket(team=team)
    aux, main = recipe.sampling_of("aux"), recipe.sampling_of("main")
    assert (aux.max_new_tokens, aux.stop, aux.temperature) == (24, ("\n",), 0.5)
    assert (main.max_new_tokens, main.stop, main.temperature) == (48, (), 0.8)


def test_trainers_of_the_page_can_train() -> None:
    snippets = [yaml.safe_load(text) for text in blocks("small_models.md", "yaml")]
    trainers = [snippet["trainer"] for snippet in snippets if "trainer" in snippet]
    assert {key for trainer in trainers for key in trainer} >= {"learn_from"}
    for trainer in trainers:
        assert check_recipe(pocket(trainer=trainer)) is not None


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["0.5B", "1.5B", "7B"])
def test_table_matches_plan(shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS.parent / "benchmarks"))
    from gpu_parts.shapes import save_description

    save_description(shape, tmp_path)
    recipe = load_recipe("coding", task="humaneval", defaults={"trainer": "magrpo"})
    data = recipe.model_dump()
    data["model"] = {"engine": "transformers", "name": str(tmp_path)}
    data["trainer"] |= {"tasks_per_step": 16, "group_size": 8, "steps": 10}
    data["sampling"]["max_new_tokens"] = 512
    cards = ("rtx4090", "l40s", "h100", "h200")
    [row] = rows_of("gpu.md", rf"{re.escape(shape)} \|(.*)\|")
    for cell, name in zip(row.split("|"), cards, strict=True):
        found = make_plan(Recipe.model_validate(data), CARDS[name]).on_card
        assert found is not None
        assert found.fits
        assert cell.strip().startswith(f"{found.micro_batch_tokens:,}"), name
        assert ("computed twice" in cell) == found.gradient_checkpointing, name
