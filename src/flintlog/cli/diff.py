"""`diff`: replicas against each other."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from flintlog.cli.engine import engine, engine_options
from flintlog.cli.output import Output
from flintlog.cli.terminal import cell, visible
from flintlog.cli.verb import Verb, count
from flintlog.errors import EXIT_OK, EXIT_REPAIRABLE

if TYPE_CHECKING:
    from flintlog.pipeline.jobs import DiffReport

_ROWS = 10


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("directories", metavar="DIR", nargs="+", help="the replicas, two or more")
    parser.add_argument(
        "--limit",
        type=count,
        default=_ROWS,
        metavar="N",
        help=f"show at most this many differences ({_ROWS} when not given)",
    )
    engine_options(parser)


def _run(arguments: argparse.Namespace, output: Output) -> int:
    from flintlog.pipeline.jobs import diff

    with engine(arguments) as spark:
        report, rows = diff(spark, arguments.directories)
        shown = _first(rows, arguments.limit)
    output.summary({**report.json(), "rows": shown}, _words(report, shown))
    return EXIT_OK if report.equal else EXIT_REPAIRABLE


def _first(rows: Any, number: int) -> list[dict[str, Any]]:
    """The first rows of a table, or of a DataFrame."""
    table = rows.slice(0, number) if hasattr(rows, "slice") else rows.limit(number).toArrow()
    found: list[dict[str, Any]] = table.to_pylist()
    return found


def _words(report: DiffReport, rows: list[dict[str, Any]]) -> list[str]:
    thing = "keys" if report.compared == "state" else "entries"
    lines = [
        f"{visible(one.source)}: last position {cell(one.last)}, {one.rows} {thing} compared, "
        f"{one.missing} missing, {one.alone} alone"
        for one in report.replicas
    ]
    if report.compared == "state":
        lines.append(f"compared: the states at {cell(report.last)}")
    else:
        lines.append(
            f"compared: entries from {cell(report.first)} on; all have those up to {cell(report.last)}"
        )
    if report.divergence is not None:
        lines.append(f"{report.differing} differ, the first at {cell(report.divergence)}")
    for row in rows:
        place = cell({name: value for name, value in row.items() if name not in ("differs", "sources")})
        what = "differs in" if row["differs"] else "only in"
        lines.append(f"  {visible(place)} {what} {visible(', '.join(row['sources']))}")
    return [*lines, f"verdict: {report.verdict}"]


DIFF = Verb(
    name="diff",
    summary="replicas against each other: who is behind, where they part",
    description=(
        "Compares directories that should hold the same log, position by position: position, term and content. Shows "
        "the first divergence, who is behind, and what each has alone. Of key-value logs (limestone) the states are "
        "compared, at the lowest durable epoch. The exit status is 0 when they are equal and 1 when they differ."
    ),
    examples=(
        "flintlog diff node1 node2 node3",
        "flintlog diff node1 node2 --json --limit 0",
    ),
    add_options=_add_options,
    run=_run,
    takes_directory=False,
)
