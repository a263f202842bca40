"""Sharing a trained team: adapters, merged weights, the folder for the hub, and loading."""

import errno
import json
import os
import shlex
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from safetensors.torch import load_file
from support.hub_server import HubServer, read_datasets_from
from support.trainer_recipes import make_game
from typer.testing import CliRunner

from collab.cli.app import app
from collab.errors import ModelUnavailable, RecipeError, RecordError, Untrusted
from collab.recipe import load_recipe
from collab.recipe.packing import RecipePacker
from collab.recipe.writing import write_recipe
from collab.runs.about import write_about
from collab.sharing.export import export_adapters, export_merged
from collab.sharing.push import model_card, places_outside, push, stage

pytestmark = pytest.mark.filterwarnings("ignore:.is_gradient_checkpointing:FutureWarning")
"""PEFT calls a deprecated function of transformers."""
IDS = torch.tensor([[1, 2, 3, 4, 5]])


@pytest.fixture(scope="module")
def adapters(tiny_words: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two adapters that change the base model's answers."""
    from peft import LoraConfig, get_peft_model
    from transformers import AutoModelForCausalLM

    folder = tmp_path_factory.mktemp("adapters")
    for seed, agent in enumerate("ab"):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_pretrained(tiny_words, dtype=torch.float32)
        config = LoraConfig(r=2, target_modules="all-linear", init_lora_weights=False)
        get_peft_model(model, config).save_pretrained(folder / agent)
    return folder


@pytest.fixture
def run(tiny_words: Path, adapters: Path, here: Path) -> Path:
    """A run folder of a team of two agents with one adapter each."""
    folder = here / "run"
    shutil.copytree(adapters, folder / "adapters")
    recipe = make_game(tiny_words, here)
    recipe = recipe.with_agents({a: {"adapter": f"adapters/{a}"} for a in "ab"})
    write_recipe(folder / "recipe.yaml", recipe, RecipePacker(folder))
    (folder / "training.yaml").write_text("trainer: {name: magrpo, steps: 5}\n")
    (folder / "run.json").write_text(json.dumps({"team": "pair", "status": "done"}))
    rows = [
        {"type": "evaluation.finished", "step": step, "sampled": {
            f"game/{n}": {"joint_return": float(step > 0), "solved": None, "maximum": 4.0}
            for n in range(8, 12)
        }}
        for step in (0, 5)
    ]  # fmt: skip
    (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    (folder / "episodes.jsonl").write_text("")
    return folder


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(IDS).logits
    return found


def test_exported_adapters_name_their_base_and_load_in_peft(run: Path, tiny_words: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    out = Path("adapters-out")
    assert export_adapters(run, out) == {"a": str(tiny_words), "b": str(tiny_words)}
    for agent in "ab":
        config = json.loads((out / agent / "adapter_config.json").read_text())
        assert config["base_model_name_or_path"] == str(tiny_words)
        found = []
        for place in (out / agent, run / "adapters" / agent):
            model = AutoModelForCausalLM.from_pretrained(config["base_model_name_or_path"])
            found.append(logits(PeftModel.from_pretrained(model, str(place))))
        assert torch.equal(*found)
    for taken, how in ((out, "is not empty"), (out / agent / "adapter_config.json", "is a file")):
        with pytest.raises(RecordError, match=f"{how}; choose another folder"):
            export_adapters(run, taken)


def test_half_export_rounds_to_bfloat16(run: Path) -> None:
    export_adapters(run, Path("whole"))
    export_adapters(run, Path("half"), half=True)
    name = "a/adapter_model.safetensors"
    full, half = load_file(f"whole/{name}"), load_file(f"half/{name}")
    assert {weight.dtype for weight in half.values()} == {torch.bfloat16}
    assert all(torch.equal(half[key], full[key].bfloat16()) for key in full)


@pytest.mark.parametrize("export", [export_merged, partial(export_adapters, half=True)])
def test_exported_weights_are_as_readable_as_other_files(run: Path, export: Any) -> None:
    export(run, Path("out"))
    assert len({path.stat().st_mode for path in Path("out/a").iterdir()}) == 1


def test_merged_model_matches_the_base_with_its_adapter(run: Path, tiny_words: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    export_merged(run, Path("merged"))
    plain = logits(AutoModelForCausalLM.from_pretrained(tiny_words, dtype=torch.float32))
    for agent in "ab":
        model = AutoModelForCausalLM.from_pretrained(tiny_words, dtype=torch.float32)
        adapted = logits(PeftModel.from_pretrained(model, str(run / "adapters" / agent)))
        merged = AutoModelForCausalLM.from_pretrained(f"merged/{agent}")
        assert merged.dtype == torch.float32
        torch.testing.assert_close(logits(merged), adapted, atol=1e-5, rtol=0)
        assert not torch.allclose(adapted, plain, atol=1e-3), "the adapter changes the output"


def test_team_without_adapters_is_not_exported(run: Path) -> None:
    text = (run / "recipe.yaml").read_text()
    (run / "recipe.yaml").write_text(text.replace("adapter:", "# adapter:"))
    with pytest.raises(RecordError, match=r"no agent of .* has an adapter"):
        export_adapters(run, Path("out"))
    Path("file").touch()
    for place in ("nowhere", "file", "adapters"):
        with pytest.raises(RecordError, match=rf"no {place}/recipe\.yaml; specify"):
            export_merged(Path(place), Path("out"))


@pytest.mark.parametrize("export", [export_adapters, export_merged])
@pytest.mark.parametrize(
    ("harm", "message"),
    [
        ("gone", "it has no adapter_model.safetensors"),
        ("a pickle", "it has no adapter_model.safetensors"),
        ({"peft_type": "PROMPT_TUNING"}, "its type is 'PROMPT_TUNING', but only LORA"),
        ({"rank_pattern": {"(.*)*x": 2}}, "its rank_pattern contains"),
    ],
)
def test_harmful_adapter_is_not_exported(run: Path, harm: Any, message: str, export: Any) -> None:
    folder = run / "adapters" / "b"
    weights, config = folder / "adapter_model.safetensors", folder / "adapter_config.json"
    if harm == "gone":
        weights.unlink()
    elif harm == "a pickle":
        weights.rename(folder / "adapter_model.bin")
    else:
        config.write_text(json.dumps({**json.loads(config.read_text()), **harm}))
    with pytest.raises(RecordError, match=rf"adapter .*/b cannot be exported: .*{message}"):
        export(run, Path("out"))
    assert not Path("out").exists()


def with_adapter_at(run: Path, place: Path) -> None:
    """Move the adapter of `a` out of the run folder and update its recipe."""
    shutil.move(run / "adapters" / "a", place)
    text = (run / "recipe.yaml").read_text()
    assert "adapter: adapters/a" in text
    (run / "recipe.yaml").write_text(text.replace("adapter: adapters/a", f"adapter: {place}"))


@pytest.mark.parametrize("export", [export_adapters, export_merged])
@pytest.mark.parametrize("how", ["absolute", "relative", "folder link", "file link"])
def test_weights_outside_a_foreign_folder_are_not_exported(
    run: Path, tmp_path: Path, how: str, export: Any
) -> None:
    outside, inside = tmp_path / "outside", run / "adapters" / "a"
    name = "adapter_model.safetensors"
    if how == "file link":
        (inside / name).rename(outside)
        (inside / name).symlink_to(outside)
    elif how == "folder link":
        inside.rename(outside)
        inside.symlink_to(outside)
    else:
        with_adapter_at(run, outside if how == "absolute" else Path("../outside"))
        if not outside.exists():
            shutil.move(Path("../outside"), outside)
    with pytest.raises(RecordError, match=r"outside.*; (copy the adapter to|put the file itself)"):
        export(run, Path("out"))
    assert not Path("out").exists()


def test_own_run_may_use_an_adapter_outside_its_folder(run: Path, tmp_path: Path) -> None:
    with_adapter_at(run, tmp_path / "elsewhere")
    write_recipe(Path("own/recipe.yaml"), load_recipe("run"), RecipePacker(Path("own")))
    Path("own/run.json").write_text("{}")
    assert set(export_adapters(Path("own"), Path("out"))) == {"a", "b"}


def test_unwritable_folder_is_an_error(run: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RecordError, match="file/out cannot be written: Not a directory"):
        export_adapters(run, tmp_path / "file" / "out")


def test_an_adapter_without_its_configuration_is_not_exported(run: Path) -> None:
    (run / "adapters/a/adapter_config.json").unlink()
    with pytest.raises(RecordError, match=r"adapters/a, which is not in this folder; copy"):
        export_adapters(run, Path("out"))


def test_invalid_weights_are_not_exported(run: Path) -> None:
    (run / "adapters/b/adapter_model.safetensors").write_bytes(b"pickle")
    exports: list[Callable[[Path, Path], object]]
    exports = [export_merged, partial(export_adapters, half=True)]
    for number, export in enumerate(exports):
        with pytest.raises(RecordError, match=r"adapter .*/b cannot be exported"):
            export(run, Path(f"out{number}"))
        assert not Path(f"out{number}").exists()


def test_damaged_base_is_named_instead_of_the_adapter(run: Path, tiny_words: Path) -> None:
    base = Path("base").absolute()
    shutil.copytree(tiny_words, base)
    (base / "model.safetensors").write_bytes(b"short")
    recipe = run / "recipe.yaml"
    recipe.write_text(recipe.read_text().replace(str(tiny_words), str(base)))
    with pytest.raises(ModelUnavailable, match=rf"^model '{base}' cannot be loaded from {base}: "):
        export_merged(run, Path("out"))


def test_model_card_describes_the_team_and_its_results(run: Path) -> None:
    notes = stage(run, Path("staged"), repository="me/pair", license="apache-2.0")
    card = Path("staged/README.md").read_text()
    assert "license: apache-2.0" in card
    assert "library_name: peft" in card
    assert "| a | " in card
    assert "| return | 0.00 [" in card
    assert "+1.00 [" in card
    assert "collab run hub:me/pair --task game/0" in card
    assert "By the trainer `magrpo`" in card
    assert sorted(path.name for path in Path("staged").iterdir()) == [
        "README.md",
        "adapters",
        "data",
        "recipe.yaml",
    ]
    assert any("model.name names" in note for note in notes), "the model is a local folder"


def test_model_card_names_functions_by_their_place_in_the_folder(run: Path) -> None:
    text = (run / "recipe.yaml").read_text().replace("use: contains", "use: functions/r.py:paid")
    text = text.replace("protocol: parallel", "protocol: functions/p.py:turns")
    text = text.replace("\n    b:\n", "\n    b:\n      model: {engine: functions/m.py:made}\n")
    (run / "recipe.yaml").write_text(text)
    (run / "functions").mkdir()
    (run / "functions" / "r.py").write_text("def paid(context, **_): return 1.0\n")
    (run / "functions" / "p.py").write_text("async def turns(turn): ...\n")
    (run / "functions" / "m.py").write_text("def made(spec): ...\n")
    for folder in (Path("run"), run):
        card = model_card(folder, repository="me/pair", license=None)
        assert "| `functions/r.py:paid` |" in card
        assert "(functions/p.py:turns, 1 turn)" in card
        assert "| b | functions/m.py:made |" in card


def test_model_card_shows_no_results_from_before_the_end_of_training(run: Path) -> None:
    first = (run / "metrics.jsonl").read_text().splitlines()[0]
    (run / "metrics.jsonl").write_text(f"{first}\n")
    stage(run, Path("staged"), repository="me/pair", license="apache-2.0")
    assert "## Results" not in Path("staged/README.md").read_text()


class FakeHub:
    def __init__(self) -> None:
        self.made: list[tuple[str, bool]] = []
        self.files: list[str] = []

    def create_repo(self, repo_id: str, *, private: bool, exist_ok: bool) -> None:
        assert exist_ok
        self.made.append((repo_id, private))

    def upload_folder(self, *, repo_id: str, folder_path: Path, commit_message: str) -> None:
        assert commit_message
        self.files = sorted(p.name for p in Path(folder_path).rglob("*") if p.is_file())
        if repo_id == "me/shut":
            raise OSError("403 Forbidden")


def test_team_is_pushed_to_the_hub(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hub = FakeHub()
    monkeypatch.setattr("huggingface_hub.HfApi", lambda: hub)
    stage(run, Path("staged"), repository="me/pair", license=None)
    assert push(Path("staged"), "me/pair", private=True) == "hub:me/pair"
    assert hub.made == [("me/pair", True)]
    assert "adapter_model.safetensors" in hub.files
    assert "episodes.jsonl" not in hub.files
    with pytest.raises(RecordError, match="403 Forbidden; log in"):
        push(Path("staged"), "me/shut", private=True)
    result = CliRunner().invoke(app, ["push", "run", "--to", "nobody"])
    assert "'nobody' is not a repository name; write OWNER/NAME" in result.output


def test_full_disk_is_an_error_with_the_folder(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(shutil, "copyfile", fill)
    remedy = "free some space on its disk"
    with pytest.raises(RecordError, match=f"staged cannot be written: No space left.*; {remedy}"):
        stage(run, Path("staged"), repository="me/pair", license=None)
    with pytest.raises(RecordError, match=f"out cannot be written: No space left on .*; {remedy}"):
        export_adapters(run, Path("out"))
    assert not Path("staged").exists()
    assert not Path("out").exists()


def test_pipe_in_a_run_is_named(run: Path) -> None:
    (run / "functions").mkdir(exist_ok=True)
    os.mkfifo(run / "functions" / "pipe")
    with pytest.raises(RecordError, match=r"cannot be written: `.*pipe` is a named pipe"):
        stage(run, Path("staged"), repository="me/pair", license=None)


def test_running_run_is_neither_exported_nor_pushed(run: Path) -> None:
    write_about(run, {"team": "pair", "status": "running"})
    for hand_on in (partial(stage, repository="me/pair", license=None), export_adapters):
        with pytest.raises(RecordError, match="is still being written; wait until it ends"):
            hand_on(run, Path("out"))
        assert not Path("out").exists()


def test_names_of_files_outside_the_folder_are_noted(run: Path, tmp_path: Path) -> None:
    (tmp_path / "private").touch()
    for name, noted in (("../private", True), ("data/../recipe.yaml", False), ("x/" * 999, False)):
        recipe = yaml.safe_load((run / "recipe.yaml").read_text())
        recipe["description"] = name
        notes = [key for key, _ in places_outside(recipe, run)]
        assert ("description" in notes) == noted


def add_parser_function(run: Path) -> None:
    """Give an agent of the team a custom parser in a file of its folder."""
    (run / "functions").mkdir()
    (run / "functions" / "mine.py").write_text("def parse(response):\n    return response\n")
    text = (run / "recipe.yaml").read_text()
    text = text.replace("parser: text", "parser: functions/mine.py:parse", 1)
    (run / "recipe.yaml").write_text(text)


def test_a_link_out_of_the_folder_is_not_sent(run: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("key")
    (run / "data").mkdir(exist_ok=True)
    (run / "data" / "more.jsonl").symlink_to(secret)
    with pytest.raises(RecordError, match=r"more.jsonl is a link to .*secret.txt, outside"):
        stage(run, tmp_path / "sent", repository="me/pair", license=None)
    assert not (tmp_path / "sent").exists()


def test_a_file_of_holes_is_not_sent(run: Path, tmp_path: Path) -> None:
    (run / "data").mkdir(exist_ok=True)
    with (run / "data" / "more.jsonl").open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(RecordError, match=r"more.jsonl cannot be read: only 0 of its 1,000,000"):
        stage(run, tmp_path / "sent", repository="me/pair", license=None)
    assert not (tmp_path / "sent").exists()


def test_only_the_files_of_an_adapter_are_sent(run: Path) -> None:
    sent = ["README.md", "adapter_config.json", "adapter_model.safetensors"]
    for name in ("adapter_model.bin", "adapter_model.pt", "optimizer.pt", "more/x.bin"):
        (run / "adapters" / "a" / name).parent.mkdir(exist_ok=True)
        (run / "adapters" / "a" / name).write_bytes(b"pickle")
    (run / "adapters" / "x.bin").write_bytes(b"pickle")
    stage(run, Path("staged"), repository="me/pair", license=None)
    staged = sorted(path for path in Path("staged/adapters").rglob("*") if path.is_file())
    assert staged == [Path("staged/adapters", agent, name) for agent in "ab" for name in sent]


def test_a_record_that_is_a_link_out_of_the_folder_is_not_sent(run: Path, tmp_path: Path) -> None:
    (run / "training.yaml").rename(tmp_path / "training.yaml")
    (run / "training.yaml").symlink_to(tmp_path / "training.yaml")
    with pytest.raises(RecordError, match=r"training.yaml is a link to .*, outside"):
        stage(run, tmp_path / "sent", repository="me/pair", license=None)


def test_team_from_the_hub_needs_approval_and_then_runs(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_parser_function(run)
    stage(run, Path("staged"), repository="me/pair", license=None)
    with HubServer("me/pair", Path("staged")) as server:
        read_datasets_from(server.url, tmp_path / "cache", monkeypatch)
        monkeypatch.setattr("huggingface_hub.hf_api.constants.ENDPOINT", server.url)
        monkeypatch.setattr("huggingface_hub.HfApi", _at(server.url))
        with pytest.raises(Untrusted, match=r"mine\.py"):
            load_recipe("hub:me/pair")
        recipe = load_recipe("hub:me/pair", trust=True)
        assert (Path(str(recipe.team.agents["a"].adapter)) / "adapter_model.safetensors").is_file()
        assert load_recipe("hub:me/pair").team.name == "pair", "the approval is remembered"
        with pytest.raises(RecipeError, match="is not on the hub, or you have no access"):
            load_recipe("hub:me/other")
        requests_before = len(server.requests)
        words = ["eval", "hub:me/pair", "-m", "echo", "--task", "game/8", "--trust", "--json"]
        assert CliRunner().invoke(app, words).exit_code == 0
        assert not any("/resolve/" in path for path in server.requests[requests_before:]), (
            "the download is cached"
        )
    assert load_recipe("hub:me/pair").team.name == "pair", "it loads without the network"
    with pytest.raises(RecipeError, match="write hub:OWNER/NAME"):
        load_recipe("hub:pair")


def _at(url: str) -> Any:
    from huggingface_hub import HfApi

    return lambda: HfApi(endpoint=url)


def test_push_and_export_commands(run: Path) -> None:
    result = CliRunner().invoke(app, ["push", "run", "--to", "me/pair", "--dry-run"])
    assert result.exit_code == 0, result.output
    assert "push/me-pair: these files would be uploaded to me/pair" in result.output
    assert "the card has no license" in result.stderr
    result = CliRunner().invoke(app, ["export", "run", "--adapters", "out"])
    assert "--enable-lora --lora-modules a=out/a b=out/b" in result.output
    assert CliRunner().invoke(app, ["export", "run"]).exit_code == 2


def test_the_command_for_vllm_quotes_folders_with_spaces(run: Path) -> None:
    result = CliRunner().invoke(app, ["export", "run", "--adapters", "my adapters"])
    command = shlex.split(result.output.splitlines()[-1])
    assert command[-2:] == ["a=my adapters/a", "b=my adapters/b"]


def test_export_hint_raises_the_vllm_rank_limit(run: Path) -> None:
    config = run / "adapters/a/adapter_config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), "r": 24}))
    result = CliRunner().invoke(app, ["export", "run", "--adapters", "out"])
    assert "--enable-lora --max-lora-rank 32 --lora-modules a=out/a b=out/b" in result.output
