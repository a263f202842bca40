"""The names of metrics, of a run's files and of PEFT's are written down once."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import collab
from collab.runs import layout, metric_names

PACKAGE = Path(collab.__file__).parent


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Line and text of what is written in quotes, docstrings apart."""
    tree = ast.parse(source)
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(text)) if id(node) not in docstrings:
                yield node.lineno, text


def is_metric(text: str) -> bool:
    """Whether a text is the name of a metric, or the begin of one, as in an f-string."""
    own = [value for name, value in vars(metric_names).items() if name.isupper()]
    names = [name for name in own if isinstance(name, str) and "/" in name]
    begins = [name.partition("*")[0] for name in names if "*" in name]
    return text in names or text.startswith(tuple(begins))


def is_file_of_peft(text: str) -> bool:
    return layout.ADAPTER_CONFIG in text or layout.ADAPTER_WEIGHTS in text


def is_file_of_a_run(text: str) -> bool:
    return "." in text[1:] and text in [v for k, v in vars(layout).items() if k.isupper()]


def offences(home: str, is_one: object) -> list[str]:
    assert callable(is_one)
    return [
        f"collab/{path.relative_to(PACKAGE).as_posix()}:{line}: {text!r}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path != PACKAGE / home
        for line, text in texts(path.read_text())
        if is_one(text)
    ]


def test_metrics_are_named_in_one_module() -> None:
    assert offences("runs/metric_names.py", is_metric) == []


def test_files_of_peft_are_named_in_one_module() -> None:
    assert offences("runs/layout.py", is_file_of_peft) == []


def test_files_of_a_run_are_named_in_one_module() -> None:
    assert is_file_of_a_run("state.pt")
    assert offences("runs/layout.py", is_file_of_a_run) == []


@pytest.mark.parametrize("text", ["return/mean", "agent/", "part/syntax", "episodes/dropped"])
def test_what_a_metric_is(text: str) -> None:
    assert is_metric(text)


def test_patterns_name_and_are_matched() -> None:
    assert metric_names.named(metric_names.KL, "aux") == "agent/aux/kl"
    assert metric_names.matched(metric_names.KL, "agent/aux/kl") == "aux"
    assert metric_names.matched(metric_names.KL, "agent/aux/length") is None
    assert metric_names.matched(metric_names.SOLVED, "solved") == ""
    assert metric_names.what_is_best_in("coop@3") == "coop"
    assert metric_names.what_is_best_in("pass@3") == metric_names.what_is_best_in("return") == ""
    assert metric_names.current("agent/aux/strays") == "agent/aux/outside_support"
