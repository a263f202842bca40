"""`collab view`: a local server that shows only the runs of a folder."""

import http.client
import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import pytest
from support.browser import HOSTILE
from support.report_runs import data_of, make_episode, make_run, make_training

from collab.runs.about import this_process
from collab.view.server import Pages, UnknownRun


def ask(server: str, path: str, method: str = "GET", **headers: str) -> tuple[int, Any, str]:
    """Return status, headers and body; the path is sent unchanged."""
    address = urlsplit(server)
    connection = http.client.HTTPConnection(str(address.hostname), address.port, timeout=30)
    connection.request(method, path, headers=headers)
    response = connection.getresponse()
    body = response.read().decode()
    connection.close()
    return response.status, response.headers, body


def test_runs_are_listed_with_their_results(server: str) -> None:
    status, _, body = ask(server, "/runs")
    rows = {row["name"]: row for row in json.loads(body)}
    assert status == 200
    assert set(rows) == {"seed-0", "seed-1", "played", "hostile", "group/inner"}
    played = rows["played"]
    assert (played["team"], played["kind"], played["status"]) == ("coding", "run", "done")
    assert (played["mean_return"], played["largest_return"], played["solved"]) == (2.5, 4.0, 1 / 3)
    assert rows["seed-0"]["kind"] == "training"
    assert rows["seed-0"]["solved"] == 0.75


def test_run_page_uses_the_report(server: str) -> None:
    status, _, page = ask(server, "/report?run=seed-0")
    assert status == 200
    assert "Solved, held out" in page
    assert len(data_of(page)["episodes"]) == 68
    assert 'data-at="/stamp?run=seed-0"' in page


def test_several_runs_are_compared(server: str) -> None:
    _, _, page = ask(server, "/report?run=seed-0&run=seed-1")
    assert [run["name"] for run in data_of(page)["runs"]] == ["seed-0", "seed-1"]
    assert "mean of 2 seeds" in page


@pytest.mark.parametrize("path", ["/", "/runs", "/report?run=played", "/stamp?run=played"])
def test_other_host_names_are_refused(server: str, path: str) -> None:
    """A foreign host name that resolves to this machine gives no access."""
    for host in ("evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil"):
        assert ask(server, path, host=host)[0] == 400, host


def test_local_host_names_are_answered(server: str) -> None:
    port = urlsplit(server).port
    assert urlsplit(server).hostname == "127.0.0.1"
    assert [
        ask(server, "/runs", host=f"{name}:{port}")[0] for name in ("localhost", "127.0.0.1")
    ] == [200, 200]


@pytest.mark.parametrize(
    "name",
    ["..", ".", "", "/etc", "../outside", "group/../../outside", "played/..",
     "played/episodes.jsonl", "%2e%2e/outside", "played\x00", "seed-0/../../outside"],
)  # fmt: skip
def test_nothing_outside_the_folder_is_read(server: str, runs: Path, name: str) -> None:
    outside = runs.parent / "outside"
    if not outside.exists():
        make_run(outside, [make_episode(1, text="a secret")])
    for path in ("/report", "/stamp"):
        status, _, body = ask(server, f"{path}?run={quote(name)}")
        assert status == 404
        assert "a secret" not in body
        assert str(runs.parent) not in body
    assert ask(server, f"/{quote(name)}/outside/run.json")[0] in (400, 404)


def test_only_get_is_answered_and_framing_is_forbidden(server: str) -> None:
    assert ask(server, "/runs", "POST")[0] == 405
    assert ask(server, "/nothing")[0] == 404
    _, headers, _ = ask(server, "/report?run=played")
    assert headers["content-security-policy"] == "frame-ancestors 'none'"
    assert headers["cache-control"] == "no-store"
    assert "access-control-allow-origin" not in headers


def test_texts_of_a_run_are_never_markup(server: str) -> None:
    for path in ("/", "/report?run=hostile", f"/report?run={quote(HOSTILE)}"):
        _, _, page = ask(server, path)
        assert page.count("<script") == (2 if 'id="data"' in page else 1)
        assert "<img" not in page


def test_links_out_of_the_folder_are_not_followed(tmp_path: Path) -> None:
    make_run(tmp_path / "outside" / "run", [make_episode(1)])
    root = tmp_path / "runs"
    run = make_run(root / "run", [make_episode(1)])
    (root / "link").symlink_to(tmp_path / "outside" / "run")
    (root / "group").symlink_to(tmp_path / "outside")
    folders = Pages([root])
    assert [row["name"] for row in folders.rows()] == ["run"]
    (run / "recipe.yaml").unlink()
    (run / "recipe.yaml").symlink_to(tmp_path / "outside" / "run" / "recipe.yaml")
    with pytest.raises(UnknownRun, match=r"run: recipe\.yaml is a link to a place outside runs/"):
        folders.find(["run"])


def test_links_in_a_circle_hide_no_run(tmp_path: Path) -> None:
    (make_run(tmp_path / "runs" / "run", [make_episode(1)]) / "notes").symlink_to("notes")
    assert "numbers/0" in Pages([tmp_path / "runs"]).rows()[0]["task"]
    assert Pages([tmp_path / "runs"]).report(["run"])


def test_running_run_is_updated(tmp_path: Path) -> None:
    run = make_training(tmp_path / "runs" / "run", steps=4)
    about = json.loads((run / "run.json").read_text())
    at_work = {**about, "status": "running", "process": this_process()}
    (run / "run.json").write_text(json.dumps(at_work))
    pages = Pages([tmp_path / "runs"])
    first = pages.stamp(["run"])
    assert first["working"] is True
    assert pages.stamp(["run"]) == first
    page = pages.report(["run"])
    assert pages.report(["run"]) is page, "an unchanged report is not rebuilt"
    with (run / "metrics.jsonl").open("a") as stream:
        stream.write('{"type": "step.finished", "step": 5, "return/mean": 3.9}\n')
    assert pages.stamp(["run"])["stamp"] != first["stamp"]
    curves = {panel["title"]: panel for panel in data_of(pages.report(["run"]))["panels"]}
    assert curves["Joint return in training"]["series"][0]["x"][-1] == 5
    (run / "run.json").write_text(json.dumps({**about, "status": "done"}))
    assert pages.stamp(["run"])["working"] is False


def test_teams_of_an_evaluation_open_together(tmp_path: Path) -> None:
    for name in ("a", "b"):
        make_run(tmp_path / "first" / name, [make_episode(1)])
    (tmp_path / "first" / "eval.json").write_text("{}")
    folders = Pages([tmp_path])
    assert {row["evaluation"] for row in folders.rows()} == {"first"}
    assert folders.find(["first"]) == [tmp_path.resolve() / "first"]


def test_folder_with_an_undecodable_name_is_shown(tmp_path: Path) -> None:
    make_run(tmp_path / "runs" / "good", [make_episode(0, task="n/0", group=0)])
    odd = make_run(tmp_path / "runs" / "odd", [make_episode(0, task="n/0", group=0)])
    odd = odd.rename(odd.with_name(os.fsdecode(b"odd\xff")))
    pages = Pages([tmp_path / "runs"])
    names = [row["name"] for row in json.loads(json.dumps(pages.rows()).encode())]
    assert sorted(names) == ["good", "odd\\udcff"]
    for name in names:
        assert name.encode()
        assert pages.report([name]).encode()
    (odd / os.fsdecode(b"link\xff")).symlink_to("/etc/passwd")
    with pytest.raises(UnknownRun, match="a place outside runs") as error:
        pages.report(["odd\\udcff"])
    assert pages.message("No such run", str(error.value)).encode()
