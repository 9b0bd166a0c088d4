"""The report of the demo as one HTML file with its picture in it: no script, nothing is fetched."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from flintlog.cli.terminal import human_size

if TYPE_CHECKING:
    from examples.demo.walk import Log, Report

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; color: #22303c; background: #f6f5f1; margin: 0 auto; max-width: 1000px;
       padding: 32px 24px }
h1 { font-size: 26px; margin: 0 0 4px } h2 { font-size: 18px; margin: 36px 0 8px }
p { margin: 4px 0 12px } .quiet { color: #66727d }
table { border-collapse: collapse; width: 100%; background: #fff; border: 1px solid #dedbd2 }
th, td { text-align: left; padding: 6px 10px; border-bottom: 1px solid #ece9e1; vertical-align: top }
td.number, th.number { text-align: right; font-variant-numeric: tabular-nums }
svg { background: #fff; border: 1px solid #dedbd2; width: 100%; height: auto; display: block }
code { font: 13px ui-monospace, monospace; background: #efece4; padding: 1px 4px; border-radius: 3px }
.good { color: #1f7a4d; font-weight: 600 }
"""
_BEFORE, _AFTER, _LINE, _TEXT, _QUIET = "#b9b2a0", "#c8502a", "#dedbd2", "#22303c", "#66727d"
_WIDTH, _LEFT, _BAR, _ROW = 950, 120, 16, 62


def picture(report: Report, what: Mapping[str, str]) -> str:
    """The whole page."""
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'><title>Flintlog demo</title>",
        f"<style>{_STYLE}</style></head><body>",
        "<h1>Four logs, killed, recovered and compacted</h1>",
        "<p class='quiet'>Each writer was killed with SIGKILL in the middle of its work. Everything that was "
        "acknowledged before is there. The jobs ran on Spark in <code>local[*]</code>.</p>",
        "<h2>Size on disk, before and after compaction</h2>",
        _bars(report.logs),
        "<h2>What is in them</h2>",
        _table(report.logs, what),
        "<h2>A byte that was changed behind our back</h2>",
        _damage(report),
        "<h2>A log that Spark wrote</h2>",
        f"<p>Spark wrote {report.written:,} balances to a new log, the same batch twice. They count once.</p>",
        "<h2>Entries by operation, asked in SQL over the exported Parquet</h2>",
        _operations(report),
        "<h2>Where the time went</h2>",
        _times(report.seconds),
        "</body></html>",
    ]
    return "\n".join(parts)


def _bars(logs: list[Log]) -> str:
    most = max(max(log.bytes_before, log.bytes_after) for log in logs) or 1
    room = _WIDTH - _LEFT - 130
    height = _ROW * len(logs) + 40
    parts = [
        f"<svg viewBox='0 0 {_WIDTH} {height}' role='img' aria-label='size before and after compaction'>"
    ]
    parts.append(_words(_LEFT, 24, "before", _QUIET) + _words(_LEFT + 70, 24, "after", _AFTER))
    for at, log in enumerate(logs):
        top = 40 + at * _ROW
        parts.append(_words(16, top + 22, log.dialect, _TEXT, bold=True))
        for line, (size, colour) in enumerate(((log.bytes_before, _BEFORE), (log.bytes_after, _AFTER))):
            y = top + line * (_BAR + 4)
            wide = max(2, room * size / most)
            parts.append(
                f"<rect x='{_LEFT}' y='{y}' width='{wide:.1f}' height='{_BAR}' fill='{colour}' rx='2'/>"
            )
            parts.append(_words(_LEFT + wide + 8, y + _BAR - 3, human_size(size), _TEXT))
        if at:
            parts.append(
                f"<line x1='16' x2='{_WIDTH - 16}' y1='{top - 12}' y2='{top - 12}' stroke='{_LINE}'/>"
            )
    return "".join([*parts, "</svg>"])


def _words(x: float, y: float, text: str, colour: str, *, bold: bool = False) -> str:
    weight = " font-weight='600'" if bold else ""
    return f"<text x='{x:.1f}' y='{y:.1f}' fill='{colour}' font-size='14'{weight}>{escape(text)}</text>"


def _table(logs: list[Log], what: Mapping[str, str]) -> str:
    rows = [
        "<table><tr><th>log</th><th class='number'>entries</th><th class='number'>alive</th>"
        "<th class='number'>acknowledged one by one</th><th>after the kill</th><th>upkeep</th><th>now</th></tr>"
    ]
    for log in logs:
        torn = "<br>".join(map(escape, log.torn)) or "nothing torn"
        rows.append(
            f"<tr><td><b>{log.dialect}</b><br><span class='quiet'>{escape(what[log.dialect])}</span></td>"
            f"<td class='number'>{log.entries:,}</td><td class='number'>{log.live:,}</td>"
            f"<td class='number'>{log.acknowledged:,}<br><span class='good'>none lost</span></td>"
            f"<td>{torn}</td><td>{escape(log.upkeep)}</td><td class='good'>{escape(log.verdict)}</td></tr>"
        )
    return "".join([*rows, "</table>"])


def _damage(report: Report) -> str:
    damage = report.damage
    lost = "; ".join(damage.lost) or "nothing"
    return (
        f"<p><code>verify</code> named it: <code>{escape(damage.file)}</code>, byte {damage.offset:,}: "
        f"{escape(damage.message)}.</p><p><code>repair</code> said first what it would give up: {escape(lost)}. "
        f"It kept {damage.kept:,} records and the original bytes, and the log is now "
        f"<span class='good'>{escape(damage.verdict)}</span>.</p>"
    )


def _operations(report: Report) -> str:
    rows = ["<table><tr><th>log</th><th>operation</th><th class='number'>entries</th></tr>"]
    for name, operation, count in report.operations:
        rows.append(
            f"<tr><td>{escape(name)}</td><td>{escape(operation)}</td><td class='number'>{count:,}</td></tr>"
        )
    return "".join([*rows, "</table>"])


def _times(seconds: Mapping[str, float]) -> str:
    total = sum(seconds.values()) or 1
    shades = ("#c8502a", "#d98757", "#e3b189", "#b9b2a0", "#8e9a8c", "#5f7d78", "#3e5c66", "#22303c")
    parts = [
        f"<svg viewBox='0 0 {_WIDTH} {64 + 24 * len(seconds)}' role='img' aria-label='time of each step'>"
    ]
    x = 16.0
    for at, (name, spent) in enumerate(seconds.items()):
        wide = (_WIDTH - 32) * spent / total
        colour = shades[at % len(shades)]
        parts.append(f"<rect x='{x:.1f}' y='16' width='{wide:.1f}' height='24' fill='{colour}'/>")
        y = 66 + 24 * at
        parts.append(f"<rect x='16' y='{y - 11}' width='12' height='12' fill='{colour}'/>")
        parts.append(_words(36, y, f"{name}: {spent:.1f} s", _TEXT))
        x += wide
    return "".join([*parts, "</svg>"])
