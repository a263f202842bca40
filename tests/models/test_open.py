"""Open an engine from a model's name in a recipe."""

import asyncio
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError
from support.loops import in_loop

from collab.errors import CollabError, ModelError, ModelUnavailable, RecipeError, UnknownName
from collab.models import Call, Capabilities, Model, Request
from collab.models.base import as_model
from collab.models.fakes import EchoModel
from collab.models.local.engine import TransformersEngine
from collab.models.open import ModelPool, log_downloads, open_model
from collab.recipe import Recipe
from collab.recipe.model import ModelSpec
from collab.records import Action, Message, Sampling

SPEC: TypeAdapter[ModelSpec] = TypeAdapter(ModelSpec)

PLUGIN = """
from collab.models.fakes import EchoModel

def loud(spec):
    return EchoModel(f"loud:{spec.name}:{spec.options['volume']}")

def broken(spec):
    return 7

def quick(spec):
    engine = EchoModel()
    engine.batching = "quick"
    return engine

class Lone(EchoModel):
    async def generate(self, requests):
        return []

class Careful(EchoModel):
    def check(self, sampling):
        pass

def lone(spec):
    return Lone()

def careful(spec):
    return Careful()
"""


def spec_of(value: object) -> ModelSpec:
    return SPEC.validate_python(value)


def test_specs_open_the_matching_engine() -> None:
    assert isinstance(open_model(spec_of("echo")), EchoModel)
    engine = open_model(spec_of("smollm2-135m"))
    assert isinstance(engine, TransformersEngine)
    assert isinstance(engine, Model)
    assert engine.batching == "static"
    asyncio.run(engine.aclose())


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("antropic:claude", "did you mean 'anthropic'"),
        ({"engine": "transfomers", "name": "x"}, "did you mean 'transformers'"),
        ("replay", "Field required"),
        ({"engine": "echo", "nmae": "x"}, "did you mean 'name'"),
    ],
)
def test_invalid_specs_are_refused(value: object, words: str) -> None:
    with pytest.raises((ValidationError, UnknownName), match=words):
        spec_of(value)


ADDRESS = "http://user:secret@gpu:8000"


@pytest.mark.parametrize("text", [f"{ADDRESS}#m", f"vllm:{ADDRESS}#m", f"anthropic:{ADDRESS}"])
def test_url_as_a_model_name_is_refused(text: str) -> None:
    with pytest.raises(RecipeError, match="openai:URL#MODEL") as error:
        spec_of(text)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "model",
    [
        f"openai:{ADDRESS}#m",
        {"engine": "openai", "name": "m", "base_url": "user:secret@gpu"},
        {"engine": "anthropic", "base_url": ADDRESS},
        {"engine": "vllm", "name": "m", "servers": [ADDRESS]},
        {"engine": "vllm", "nmae": "m", "servers": [ADDRESS]},
    ],
)
def test_errors_never_show_the_password_of_a_url(model: object) -> None:
    """Applications see pydantic's errors unchanged."""
    with pytest.raises(ValidationError) as error:
        Recipe.model_validate({"model": model})
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "text", ["smolm-135m", "./nothing", "scripted:nothing.yaml", "replay:nothing", "nothing.py:f"]
)
def test_unopenable_model_is_bad_usage(text: str) -> None:
    with pytest.raises(CollabError) as caught:
        open_model(spec_of(text))
    assert caught.value.exit_status == 2


def test_plugin_is_loaded_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(PLUGIN)
    model = open_model(spec_of({"engine": f"{file}:loud", "name": "x", "options": {"volume": 11}}))
    assert model.name == "loud:x:11"
    with pytest.raises(ModelUnavailable, match="returned a int without name, batching, generate;"):
        open_model(spec_of(f"{file}:broken"))
    for name, takes in {"lone": "requests, progress", "careful": "sampling, adapter"}.items():
        with pytest.raises(RecipeError, match=rf":{name}' is called with \({takes}\) but takes"):
            open_model(spec_of(f"{file}:{name}"))
    with pytest.raises(ModelUnavailable, match="has batching 'quick'; it is one of static, contin"):
        open_model(spec_of(f"{file}:quick"))
    failing = r"loud' failed to open: .*mine\.py:\d+: KeyError: 'volume'; collab calls"
    with pytest.raises(ModelUnavailable, match=failing):
        open_model(spec_of(f"{file}:loud"))
    with pytest.raises(RecipeError, match="quiet"):
        open_model(spec_of(f"{file}:quiet"))


class Plain:
    """An engine without a base and with some optional parts."""

    name, batching = "plain", "static"

    def __init__(self) -> None:
        self.checked: list[Any] = []
        self.tokenizer = "words"

    async def generate(self, requests: Sequence[Request], progress: Any = None) -> list[Action]:
        return [Action(text="yes") for _ in requests]

    def check(self, sampling: Sampling, adapter: str | None) -> None:
        self.checked.append((sampling, adapter))

    async def publish(self, adapters: Any, version: int) -> None:
        raise AssertionError("an engine that cannot sleep does not sample for a trainer")


class Beside(Plain):
    async def sleep(self) -> None: ...


@in_loop
async def test_the_parts_that_an_own_engine_lacks_have_defaults() -> None:
    plain, answers = Plain(), dict[int, Action]()
    request = Request(call=Call(task="t/0", sample=0, turn=0, round=0, agent="a"))
    model: Any = as_model(plain)
    assert (model.capabilities, model.tokenizer) == (Capabilities(), "words")
    assert as_model(plain) is model, "agents with the same engine share its batches"
    model.check(Sampling(), "a")
    await model.open_early("a")
    await model.answer_each([request, request], answers.__setitem__)
    model.verify()
    await model.aclose()
    assert plain.checked == [(Sampling(), "a")]
    assert [answers[index].text for index in range(2)] == ["yes", "yes"]
    assert not model.has_own_weights
    assert as_model(Beside()).has_own_weights
    plain.name = "named when loaded"
    assert model.name == plain.name


@in_loop
async def test_equal_specs_share_one_model() -> None:
    async with ModelPool() as pool:
        first = pool.open(spec_of("smollm2-135m"))
        assert pool.open(spec_of({"name": "smollm2-135m"})) is first
        assert pool.open(spec_of({"name": "smollm2-135m", "dtype": "float32"})) is not first


def test_all_models_are_closed_when_one_fails_to_close() -> None:
    closed: list[str] = []

    class Closing(EchoModel):
        async def aclose(self) -> None:
            closed.append(self.name)
            if self.name == "b":
                raise OSError("it will not close")

    async def go() -> None:
        pool = ModelPool()
        pool._models = {name: Closing(name) for name in "abc"}
        await pool.aclose()

    with pytest.raises(OSError, match="will not close"):
        asyncio.run(go())
    assert sorted(closed) == ["a", "b", "c"]


def test_unused_script_answers_are_an_error_after_a_clean_run(tmp_path: Path) -> None:
    file = tmp_path / "answers.yaml"
    file.write_text("[one, two]")

    async def go(trouble: Exception | None) -> None:
        async with ModelPool() as pool:
            call = Call(task="t", sample=0, turn=0, round=0, agent="a")
            request = Request(call=call, messages=(Message(role="user", content="x"),))
            await pool.open(spec_of(f"scripted:{file}")).generate([request])
            if trouble:
                raise trouble

    with pytest.raises(ModelError, match="1 of 2, next 'two'"):
        asyncio.run(go(None))
    with pytest.raises(KeyError):
        asyncio.run(go(KeyError("x")))


def test_opening_imports_nothing_heavy() -> None:
    code = (
        "import sys\n"
        "from collab.models.open import open_model\n"
        "from collab.models.store import ALIASES\n"
        "from collab.recipe.model import TransformersSpec\n"
        "[model.is_cached for model in ALIASES.values()]\n"
        "open_model(TransformersSpec(name='smollm2-135m'))\n"
        "heavy = {'torch', 'transformers', 'anthropic', 'httpx', 'peft', 'numpy'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_each_stage_of_a_download_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    progress = log_downloads("small")
    for stage, done in [("downloading", 0), ("downloading", 4_000_000), ("loading", 0)]:
        progress(stage, done, 98_000_000)
    progress("converting small, once", 0, 0)
    assert caplog.messages == ["small: downloading, 98 MB", "small: converting small, once"]
