"""`collab doctor`."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collab.cli.findings import Finding
    from collab.cli.page import Page, Piece


def command(
    json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
) -> None:
    """Check this machine: packages, devices, engines, isolation, data.

    Every layer of the judge is attacked to see whether it holds. Keys are
    never shown, only whether they are set. Exit status 1 when the main job,
    collab run coding --task humaneval/12, cannot work here.

    [bold]Examples[/]
      collab doctor
      collab doctor --json
    """
    from json import dumps

    from collab.cli.checks import examine
    from collab.cli.page import open_page

    findings = examine()
    works = all(finding.fine for finding in findings if finding.needed)
    if json:
        print(dumps({"works": works, "checks": [asdict(finding) for finding in findings]}))
    else:
        _show(open_page(), findings, works=works)
    raise typer.Exit(0 if works else 1)


def _show(page: Page, findings: list[Finding], *, works: bool) -> None:
    from collab.cli.page import Column

    columns = [Column(""), Column(""), Column("", wrap=True, style="dim")]
    for group in dict.fromkeys(finding.group for finding in findings):
        page.line((group, "bold"))
        page.table(columns, [_row(finding) for finding in findings if finding.group == group])
    if works:
        page.line(("the main job can run", "bold green"), ": collab run coding --task humaneval/12")
    else:
        page.line(("the main job cannot run here", "bold red"), ": see the lines marked no")


def _row(finding: Finding) -> list[Piece]:
    if finding.fine:
        return [("ok", "green"), finding.name, finding.detail]
    mark = ("no", "bold red") if finding.needed else ("-", "yellow")
    remedy = f"; {finding.remedy}" if finding.remedy else ""
    return [mark, finding.name, finding.detail + remedy]
