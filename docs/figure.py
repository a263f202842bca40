"""Makes docs/figure.svg, solved problems by tokens, from the first table in docs/results_runs.md.

make picture
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

FIGURE = Path(__file__).with_name("figure.svg")
RESULTS = Path(__file__).with_name("results_runs.md")
POINT = re.compile(r"([\d,]+), ([\d.]+) \[([\d.]+), ([\d.]+)\]")

WIDTH, HEIGHT, LEFT, TOP, BOTTOM = 820, 400, 50, 20, 350
MOST_TOKENS, MOST_SOLVED, LABELS = 1650, 70, 600
STYLE = """\
text { fill: #57606a } .team { color: #1a7f37 } .agent { color: #0969da }
.team text, .agent text { fill: currentColor } .untrained { stroke-dasharray: 5 4 }
polyline { fill: none; stroke: currentColor; stroke-width: 2 } circle { fill: currentColor }
.interval { stroke: currentColor; opacity: 0.35 } .grid { stroke: #d0d7de }"""

Line = list[tuple[float, ...]]
"""Points of one row: tokens, solved %, and the ends of its 95 % interval."""


def lines(text: str) -> dict[str, Line]:
    """Return the rows of the first table by their first cell: a point per number of samples."""
    table = text[text.index("| | 1 sample") :].split("\n\n", maxsplit=1)[0]
    rows = [line.strip("|").split(" | ") for line in table.splitlines()[2:]]
    return {
        name.strip(" |"): [
            tuple(float(n.replace(",", "")) for n in POINT.findall(cell)[0])
            for cell in cells[:4]
            if POINT.search(cell)
        ]
        for name, *cells in rows
    }


def draw(text: str) -> str:
    """Draw the table's lines as SVG. `text` is that of docs/results_runs.md."""
    drawn = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}"'
        ' role="img" font-family="system-ui, sans-serif" font-size="13">',
        "<title>Solved problems of HumanEval Pro by generated tokens</title>",
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
    ]
    for solved in range(0, MOST_SOLVED + 1, 10):
        drawn.append(f'<path class="grid" d="M{LEFT} {_y(solved):.0f}H{LABELS}"/>')
        drawn.append(
            f'<text x="{LEFT - 8}" y="{_y(solved) + 4:.0f}" text-anchor="end">{solved}</text>'
        )
    for tokens in range(0, MOST_TOKENS, 400):
        drawn.append(
            f'<text x="{_x(tokens):.0f}" y="{BOTTOM + 20}" text-anchor="middle">{tokens}</text>'
        )
    drawn.append(
        f'<text x="{LEFT}" y="{BOTTOM + 40}">generated tokens per problem; solved %</text>'
    )
    heights: list[float] = []
    rows = lines(text)
    for name, points in sorted(rows.items(), key=lambda row: -row[1][-1][1]):
        heights.append(max(_y(points[-1][1]), *(h + 18 for h in heights), TOP))
        drawn += _line(name, points, heights[-1])
    return "\n".join([*drawn, "</svg>", ""])


def _line(name: str, points: Line, height: float) -> list[str]:
    who = "team" if name.startswith("team") else "agent"
    untrained = "" if "trained" in name else ' class="untrained"'
    path = " ".join(f"{_x(tokens):.1f},{_y(solved):.1f}" for tokens, solved, *_ in points)
    tokens, solved, low, high = points[-1]
    x, y = _x(tokens), _y(solved)
    return [
        f'<g class="{who}"><polyline{untrained} points="{path}"/>',
        *(f'<circle cx="{_x(p[0]):.1f}" cy="{_y(p[1]):.1f}" r="3.5"/>' for p in points),
        f'<path class="interval" d="M{x:.1f} {_y(low):.1f}V{_y(high):.1f}"/>',
        f'<path class="interval" d="M{x:.1f} {y:.1f}L{LABELS} {height:.1f}"/>',
        f'<text x="{LABELS + 6}" y="{height + 4:.1f}">{escape(name)}</text></g>',
    ]


def _x(tokens: float) -> float:
    return LEFT + tokens / MOST_TOKENS * (LABELS - LEFT)


def _y(solved: float) -> float:
    return BOTTOM - solved / MOST_SOLVED * (BOTTOM - TOP)


if __name__ == "__main__":
    FIGURE.write_text(draw(RESULTS.read_text()))
