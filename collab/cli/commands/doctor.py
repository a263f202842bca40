"""`collab doctor`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collab.cli.checks.findings import Finding
    from collab.cli.screen.page import Piece


def command(
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Check this machine: packages, devices, engines, isolation, data.

    Every layer of the sandbox is attacked to see whether it holds. Keys are
    never shown, only whether they are set. Exit status 1 when the main job,
    collab run coding --task humaneval/12, cannot work here.

    [bold]Examples[/]
      collab doctor
      collab doctor --json
    """
    from json import dumps

    from collab.cli.checks.machine import examine
    from collab.cli.screen.terminal import open_page

    page = None if json else open_page()
    findings: list[Finding] = []
    for group, found in examine():
        if page:
            page.line((group, "bold"))
        for finding in found:
            findings.append(finding)
            if page:
                page.entry(*_entry(finding))
    works = all(finding.fine for finding in findings if finding.needed)
    if page is None:
        print(dumps({"works": works, "checks": [asdict(finding) for finding in findings]}))
    elif works:
        page.line(("the main job can run", "bold green"), ": collab run coding --task humaneval/12")
    else:
        page.line(("the main job cannot run here", "bold red"), ": see the lines marked no")
    raise typer.Exit(0 if works else 1)


def _entry(finding: Finding) -> tuple[Piece, str, str]:
    if finding.fine:
        return ("ok", "green"), finding.name, finding.detail
    mark = ("no", "bold red") if finding.needed else ("-", "yellow")
    remedy = f"; {finding.remedy}" if finding.remedy else ""
    return mark, finding.name, finding.detail + remedy
