"""Real vLLM servers: two at once, and trainings with a server that dies or is ahead."""

import asyncio
from functools import partial
from pathlib import Path
from threading import Timer
from typing import Any

import httpx
import pytest
from support.trainer_recipes import make_game
from support.vllm_servers.processes import MODEL, VLLMServerProcess
from support.vllm_servers.questions import ask, request

from collab.models.conformance import conform
from collab.models.vllm.engine import VLLMEngine
from collab.models.vllm.own_server import OwnServer
from collab.recipe import Recipe
from collab.recipe.model import VLLMSpec
from collab.records import Episode, read_episodes
from collab.runs.layout import ADAPTER_CONFIG, ADAPTER_WEIGHTS
from collab.trainers import TrainingRun
from collab.trainers.training.events import StepFinished, TrainingProgress

STEPS, GROUP = 3, 4
NOISE = 1e-3
"""Nats per token between two float32 implementations of one model."""


Servers = tuple[OwnServer | VLLMServerProcess, ...]
"""In the fixture, a server as a rank starts it, and one that tests can kill."""


def engine_at(servers: Servers) -> VLLMEngine:
    urls = tuple(server.url for server in servers)
    return VLLMEngine(VLLMSpec(name=MODEL, servers=urls, seeds=True))


def copy(source: Path, target: Path) -> None:
    target.mkdir()
    for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
        (target / name).write_bytes((source / name).read_bytes())


def loaded_adapters(server: OwnServer | VLLMServerProcess, adapter: str) -> list[str]:
    """The adapters on a server whose names start with `adapter`."""
    cards = httpx.get(f"{server.url}/v1/models").json()["data"]
    return [card["id"] for card in cards if card["parent"] and card["id"].startswith(adapter)]


def test_two_servers_share_load_and_versions(servers: Servers, adapters: dict[str, Path]) -> None:
    engine = engine_at(servers)
    try:
        answers: list[str] = []
        for folder in [*adapters.values()]:
            asyncio.run(engine.publish({"one": partial(copy, folder)}, 0))
            held = [loaded_adapters(server, "one@") for server in servers]
            assert held[0] == held[1], "every server holds the same version"
            assert len(held[0]) == 1, "old versions are unloaded"
            batch = [request("Name a colour.", adapter="one", temperature=0.0)] * 4
            texts = {action.text for action in ask(engine, batch)}
            assert len(texts) == 1, "both servers give the same answer"
            answers += texts
        assert answers[0] != answers[1]
    finally:
        asyncio.run(engine.aclose())
    assert not any(loaded_adapters(server, "one@") for server in servers)


def test_server_of_a_rank_reports_its_load(servers: Servers) -> None:
    async def main() -> Any:
        engine = engine_at(servers[:1])
        try:
            return await engine.generate([request("Name a colour.")]), await engine.report()
        finally:
            await engine.aclose()

    [action], report = asyncio.run(main())
    assert action.failure is None
    assert report.metrics["1/preempted"] == 0
    assert "1/waiting" in report.metrics


def test_servers_conform(servers: Servers, adapters: dict[str, Path]) -> None:
    async def sandbox() -> list[Any]:
        folders = [str(folder) for folder in adapters.values()]
        return [verdict async for verdict in conform(engine_at(servers), folders)]

    assert {v.check: v.why for v in asyncio.run(sandbox()) if v.outcome != "ok"} == {}


def recipe_on(servers: Servers, folder: Path, **trainer: Any) -> Recipe:
    """The game with the default model; agents are paid for common words."""
    options = {"steps": STEPS, "group_size": GROUP, "tasks_per_step": 1, "learning_rate": 1e-3}
    data = make_game(Path(MODEL), folder, **options, **trainer).model_dump()
    data["sampling"] |= {"max_new_tokens": 8}
    for part in data["task"]["reward"]["parts"].values():
        part["options"]["phrases"] = ["the", "a word", "I", "is"]
    urls = tuple(server.url for server in servers)
    model = VLLMSpec(name=MODEL, servers=urls, dtype="float32", trainer_device="cpu", seeds=True)
    return Recipe.model_validate(data | {"model": model.model_dump()})


class Seen:
    """The output and files of a training run."""

    def __init__(self, recipe: Recipe, run: Path, see: Any = None) -> None:
        events: list[Any] = []

        def emit(event: Any) -> None:
            events.append(event)
            if see is not None:
                see(event)

        asyncio.run(TrainingRun(recipe, run, emit=emit).run())
        self.steps = [event for event in events if isinstance(event, StepFinished)]
        self.episodes = list(read_episodes(run))

    def check_whole(self) -> None:
        """Check that every step has all of its episodes and no failure."""
        assert [step.step for step in self.steps] == [1, 2, 3]
        assert {step.metrics["episodes/dropped"] for step in self.steps} == {0.0}
        places = [(episode.group, episode.sample) for episode in self.episodes]
        assert sorted(places) == [(n, s) for n in range(STEPS) for s in range(GROUP)]
        assert all(episode.failure is None for episode in self.episodes)

    def check_sampled_by_the_trainers_policies(self) -> None:
        assert max(step.metrics["mismatch"] for step in self.steps) < NOISE
        assert [versions_of(e) for e in self.by_step()] == [{0}, {1}, {2}]

    def by_step(self) -> list[list[Episode]]:
        return [[e for e in self.episodes if e.group == n] for n in range(STEPS)]

    @property
    def tokens(self) -> dict[tuple[int, int, str], tuple[int, ...]]:
        """Return the tokens of each agent in each episode."""
        return {
            (e.group, e.sample, d.agent): d.action.token_ids
            for e in self.episodes
            for turn in e.turns
            for d in turn.decisions
        }


def versions_of(episodes: list[Episode]) -> set[int | None]:
    return {d.action.version for e in episodes for turn in e.turns for d in turn.decisions}


@pytest.fixture(scope="module")
def run_on_one_server(servers: Servers, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    folder = tmp_path_factory.mktemp("one")
    return Seen(recipe_on(servers[:1], folder), folder / "run")


def test_a_recipe_trains_on_one_server(run_on_one_server: Seen) -> None:
    run_on_one_server.check_whole()
    run_on_one_server.check_sampled_by_the_trainers_policies()


def test_two_servers_give_the_first_step_the_same_tokens(
    run_on_one_server: Seen, servers: Servers, tmp_path: Path
) -> None:
    """Each response has its own seed, so on a CPU both servers give the same tokens.

    From the second step on, policies may differ in their last bits, because batches differed.
    """
    found = Seen(recipe_on(servers, tmp_path), tmp_path / "run")
    found.check_whole()
    found.check_sampled_by_the_trainers_policies()
    for place, tokens in found.tokens.items():
        assert place[0] > 0 or tokens == run_on_one_server.tokens[place], place
    for step in found.steps:
        assert min(step.metrics[f"server/{n}/in_flight"] for n in (1, 2)) > 0


def test_step_is_sampled_ahead_on_a_real_server(servers: Servers, tmp_path: Path) -> None:
    found = Seen(recipe_on(servers[:1], tmp_path, max_staleness=1), tmp_path / "run")
    found.check_whole()
    for step, episodes in enumerate(found.by_step()):
        assert versions_of(episodes) <= {max(0, step - 1), step}
    assert found.steps[0].metrics["staleness"] == 0
    assert 0 < max(step.metrics["staleness"] for step in found.steps) <= 1


def test_server_may_restart_between_steps(servers: Servers, tmp_path: Path) -> None:
    """The trainer gives the new process all adapters again."""
    server = servers[1]
    assert isinstance(server, VLLMServerProcess)

    def restart(event: Any) -> None:
        if isinstance(event, StepFinished) and event.step == 1:
            server.kill()
            server.start()

    found = Seen(recipe_on(servers[1:], tmp_path), tmp_path / "run", restart)
    found.check_whole()
    found.check_sampled_by_the_trainers_policies()


def test_training_survives_server_killed_in_second_step(servers: Servers, tmp_path: Path) -> None:
    """Must be the last test, because it kills a server of all tests."""
    survivor, dying = servers
    assert isinstance(dying, VLLMServerProcess)
    before = {*loaded_adapters(survivor, "")}  # left by earlier tests on a busy machine
    killer = Timer(1.0, dying.kill)

    def see(event: Any) -> None:
        if event == TrainingProgress(step=2, phase="sampling", done=0, total=GROUP):
            dying.freeze()  # so it answers no more requests
            killer.start()

    try:
        found = Seen(recipe_on(servers, tmp_path), tmp_path / "run", see)
    finally:
        if killer.is_alive():
            killer.join()
        dying.kill()
    found.check_whole()
    found.check_sampled_by_the_trainers_policies()
    warnings = [(step.step, warning) for step in found.steps for warning in step.warnings]
    [(when, warning)] = [(n, text) for n, text in warnings if "was lost" in text]
    assert when == 2
    assert dying.url in warning
    assert found.steps[2].metrics["server/2/in_flight"] == 0
    assert before.issuperset(loaded_adapters(survivor, "")), "the run has unloaded its adapters"
