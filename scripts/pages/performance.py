"""The tables of docs/performance.md and its picture, from the figures in docs/performance.json.

`python -m benchmarks --save docs/performance.json` measures; `python -m scripts.pages.performance` writes the page.
"""

from __future__ import annotations

import math
import re
import statistics
from html import escape
from itertools import groupby

from benchmarks.results import Result, Results
from benchmarks.table import figure
from scripts.pages.page_blocks import ROOT

PAGE = ROOT / "docs" / "performance.md"
PICTURE = ROOT / "docs" / "performance.svg"
FIGURES = ROOT / "docs" / "performance.json"
_MARK = re.compile(r"^<!-- made: figures of (.+?) -->\n(.*?)^<!-- end -->$", re.DOTALL | re.MULTILINE)
_NOT_MEMORY = ("cores", "processor", "file system of the working files", "versions")

_LINE, _LEFT, _RIGHT, _TOP = 19, 420, 200, 46
_SCALE = (1 / 64, 64)
_WIDTH = 1050


def page(results: Results) -> str:
    """The page with its tables written anew."""

    def made(mark: re.Match[str]) -> str:
        text = machine(results) if mark[1] == "the machine" else table(of_dialect(results, mark[1]))
        return f"<!-- made: figures of {mark[1]} -->\n\n{text}\n<!-- end -->"

    return _MARK.sub(made, PAGE.read_text(encoding="utf-8"))


def of_dialect(results: Results, name: str) -> list[Result]:
    """The rows of a part of the benchmark, such as `taskflux` or `spark/read`."""
    return [one for one in results.rows if f"{one.topic}/".startswith(f"{name}/")]


def table(rows: list[Result]) -> str:
    lines = ["| work | ours | best peer | unit | ratio | aim | |", "|---|---:|---|---|---:|---|---|"]
    for one in rows:
        last = one.runs[-1]
        cells = (one.name, figure(last.ours), f"{figure(last.peer)} {last.peer_name}", one.unit)
        lines.append(f"| {' | '.join((*cells, _ratios(one), one.aim, verdict(one)))} |")
    return "\n".join(lines) + "\n"


def machine(results: Results) -> str:
    lines = [f"- {name}: {results.facts[name]}" for name in results.facts]
    return "\n".join(lines) + "\n"


def verdict(row: Result) -> str:
    """Did the runs reach the aim?"""
    found = [run.reached for run in row.runs if run.reached is not None]
    if not found:
        return ""
    if len(set(found)) == 2:
        return f"reached in {sum(found)} of {len(found)} runs"
    return "reached" if found[0] else "missed"


def missed(results: Results) -> list[str]:
    """The names of the rows that miss their aim, or do in some runs."""
    return [one.name for one in results.rows if verdict(one) not in ("", "reached")]


def _ratios(row: Result) -> str:
    low, high = (f"{pick(run.ratio for run in row.runs):.2f}" for pick in (min, max))
    return low if low == high else f"{low} to {high}"


def picture(results: Results) -> str:
    """Each row that has an aim as a bar: how many times the peer, on a scale of powers of two."""
    rows = [one for one in results.rows if one.aim]
    groups = [(name, list(some)) for name, some in groupby(rows, key=lambda one: one.topic.partition("/")[0])]
    height = _TOP + sum((len(some) + 2) * _LINE for _, some in groups) + 10
    drawn, y = _axis(height), _TOP
    for name, some in groups:
        y += 2 * _LINE
        drawn.append(f'<text class="name" x="12" y="{y - 6}">{escape(name)}</text>')
        for one in some:
            drawn += _bar(one, y)
            y += _LINE
    return _PAPER.format(width=_WIDTH, height=height, drawn="\n  ".join(drawn))


def _axis(height: int) -> list[str]:
    drawn = []
    for power in range(-6, 7, 2):
        x = _x(2.0**power)
        word = f"{2**power}×" if power >= 0 else f"1/{2**-power}"
        drawn.append(
            f'<path class="{"one" if power == 0 else "grid"}" d="M{x:.0f} {_TOP - 8}V{height - 8}"/>'
        )
        drawn.append(f'<text class="soft middle" x="{x:.0f}" y="{_TOP - 14}">{word}</text>')
    return drawn


def _bar(row: Result, y: int) -> list[str]:
    ratio = statistics.median(run.ratio for run in row.runs)
    begin, end = sorted((_x(1.0), _x(ratio)))
    kind = "good" if verdict(row) == "reached" else "short"
    words = f"{ratio:.2f}× {row.runs[-1].peer_name}"
    return [
        f'<text class="soft end" x="{_LEFT - 10}" y="{y + 13}">{escape(row.name)}</text>',
        f'<rect class="{kind}" x="{begin:.1f}" y="{y + 3}" width="{max(end - begin, 1):.1f}" height="12"/>',
        f'<text class="soft" x="{_x(_SCALE[1]) + 8:.0f}" y="{y + 13}">{escape(_cut(words))}</text>',
    ]


def _x(ratio: float) -> float:
    low, high = map(math.log2, _SCALE)
    share = (min(max(math.log2(max(ratio, 1e-9)), low), high) - low) / (high - low)
    return _LEFT + share * (_WIDTH - _LEFT - _RIGHT)


def _cut(words: str) -> str:
    return words if len(words) <= 30 else f"{words[:29]}…"


_PAPER = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"
  aria-labelledby="title text">
  <title id="title">How many times the best peer</title>
  <desc id="text">A bar for each row that has an aim. A bar to the right of the line at one says that Flintlog is better
  than the best peer, a bar to the left that it is worse. Green bars reach their aim.</desc>
  <style>
    svg {{ --ink: #1f2328; --soft: #59636e; --paper: #ffffff; --line: #d1d9e0; --good: #1a7f37; --short: #bc4c00; }}
    @media (prefers-color-scheme: dark) {{
      svg {{ --ink: #f0f6fc; --soft: #9198a1; --paper: #0d1117; --line: #3d444d; --good: #3fb950; --short: #f0883e; }}
    }}
    .paper {{ fill: var(--paper); }}
    text {{ font: 13px system-ui, sans-serif; fill: var(--ink); }}
    text.name {{ font-size: 15px; font-weight: 600; }}
    text.soft {{ font-size: 12px; fill: var(--soft); }}
    text.middle {{ text-anchor: middle; }}
    text.end {{ text-anchor: end; }}
    path.grid {{ stroke: var(--line); }}
    path.one {{ stroke: var(--ink); stroke-width: 1.5; }}
    rect.good {{ fill: var(--good); }}
    rect.short {{ fill: var(--short); }}
  </style>
  <rect class="paper" width="{width}" height="{height}"/>
  {drawn}
</svg>
"""


def main() -> None:
    results = Results.read(FIGURES)
    PAGE.write_text(page(results), encoding="utf-8")
    PICTURE.write_text(picture(results), encoding="utf-8")
    print("docs: performance")


if __name__ == "__main__":
    main()
