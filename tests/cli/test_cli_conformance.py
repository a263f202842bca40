"""`collab models --check`: the conformance suite at the command line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.command_line import Collab
from support.openai_server import OpenAIServer, talk
from support.service import status

SILENT = """\
from collab.models.fakes import EchoModel


class Silent(EchoModel):
    async def generate(self, requests, progress=None):
        return []


def silent(spec):
    return Silent(spec.name)
"""


def test_custom_engine_is_checked(project: Path, collab: Collab) -> None:
    (project / "engine.py").write_text(SILENT)
    result = collab("models", "--check", "engine.py:silent", "--set", "name=mine")
    assert result.status == 1
    assert "1 requests returned 0 actions" in result.out
    assert result.out.endswith("mine does not conform: see the lines marked no\n")


def test_an_engine_that_answers_with_text_is_told_so(project: Path, collab: Collab) -> None:
    (project / "engine.py").write_text(SILENT.replace("return []", "return ['Hello.']"))
    result = collab("models", "--check", "engine.py:silent", "--set", "name=mine")
    assert (result.status, "a request returned a str, not an Action" in result.out) == (1, True)


def test_a_server_is_checked(project: Path, collab: Collab) -> None:
    with OpenAIServer(talk()) as server:
        name = f"openai:{server.base_url}#qwen"
        result = collab("models", "--check", name, "--set", "tokens=true", "--json")
    assert (result.status, result.err) == (0, "")
    report = json.loads(result.out)
    assert report["conforms"]
    assert report["model"] == "openai:qwen"
    outcomes = {check["check"]: check["outcome"] for check in report["checks"]}
    assert outcomes["tokens"] == outcomes["stop"] == outcomes["context"] == "ok"
    assert outcomes["adapters"] == "not applicable"


def test_check_prints_no_secret(
    project: Path, collab: Collab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-never-to-be-seen")
    with OpenAIServer(status(401, "invalid_api_key", "bad key: sk-never-to-be-seen")) as server:
        result = collab("models", "--check", f"openai:{server.base_url}#qwen")
    assert result.status == 1
    assert "check OPENAI_API_KEY" in result.out
    assert "never-to-be-seen" not in result.out + result.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--check", "ecco"), "unknown model 'ecco'"),
        (("--check", "echo", "--set", "nmae=x"), "did you mean 'name'?"),
        (("--adapter", "a"), "need --check"),
        (("--set", "a=b"), "need --check"),
    ],
)
def test_bad_usage(project: Path, collab: Collab, arguments: tuple[str, ...], words: str) -> None:
    result = collab("models", *arguments)
    assert result.status == 2
    assert words in result.err


def test_models_as_json(collab: Collab) -> None:
    report = json.loads(collab("models", "--json").out)
    assert report["aliases"][0]["alias"] == "smollm2-135m"
    coder = report["aliases"][1]
    assert (coder["alias"], coder["license"]) == ("qwen2.5-coder-0.5b", "Apache-2.0")
    assert coder["disk_bytes"] > coder["bytes"] == 491_400_064
    assert {"transformers", "openai", "anthropic"} <= set(report["engines"])


STUBBORN = '''\
import asyncio

from collab.models.fakes import EchoModel


class Stubborn(EchoModel):
    """Cannot be cancelled in a long answer."""

    async def generate(self, requests, progress=None):
        while requests[0].sampling.max_new_tokens == 100:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                pass
        return await super().generate(requests, progress)


def stubborn(spec):
    return Stubborn()
'''


@pytest.mark.slow
def test_engine_that_ignores_cancellation_does_not_block_the_check(project: Path) -> None:
    (project / "engine.py").write_text(STUBBORN)
    command = [sys.executable, "-m", "collab", "models", "--check", "engine.py:stubborn", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (1, "")
    [failed] = [c for c in json.loads(done.stdout)["checks"] if c["outcome"] == "failed"]
    assert failed["check"] == "cancellation"
    assert "had not returned after 2 s" in failed["why"]
