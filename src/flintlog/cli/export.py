"""`export`: a log, or its state, to files that other programs read; each run adds what is new."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from flintlog.cli.engine import engine, engine_options
from flintlog.cli.output import Output
from flintlog.cli.progress import progress, progress_option, watched
from flintlog.cli.terminal import cell, human_size, visible
from flintlog.cli.verb import Verb
from flintlog.disk import Disk, transaction
from flintlog.errors import EXIT_OK

if TYPE_CHECKING:
    from flintlog.pipeline.jobs import ExportReport


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "target",
        metavar="TARGET",
        help="the directory of the export, or its address, as s3://bucket/name: new, empty, or of a run before",
    )
    parser.add_argument(
        "--format",
        choices=("parquet", "ndjson", "delta"),
        default="parquet",
        metavar="FORMAT",
        help="parquet (the default), ndjson, or delta (a Delta table)",
    )
    parser.add_argument(
        "--view",
        choices=("entries", "state"),
        default="entries",
        metavar="VIEW",
        help="entries (the default), which are added, or state, which takes the place of the one before",
    )
    parser.add_argument(
        "--fs-option",
        action="append",
        default=[],
        type=_fs_option,
        metavar="NAME=VALUE",
        help="what the file system of an address must know, as region=eu-central-1 (may be given again)",
    )
    loss_option(parser)
    engine_options(parser)
    parser.add_argument("--dry-run", action="store_true", help="only say up to where it would go")
    progress_option(parser)


def _fs_option(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE")
    return name, value


def loss_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that says what to do when entries were removed before they were delivered."""
    parser.add_argument(
        "--on-loss",
        choices=("fail", "report"),
        default="fail",
        metavar="WORD",
        help="when entries are gone that were not delivered: fail (the default), or report them in a row and go on",
    )


def _run(arguments: argparse.Namespace, output: Output) -> int:
    from flintlog.pipeline.jobs import export

    with (
        engine(arguments) as spark,
        progress("export", arguments.progress) as tick,
        transaction(watched(Disk(), tick), publishes=True) as disk,
    ):
        report = export(
            spark,
            arguments.directory,
            arguments.target,
            view=arguments.view,
            format=arguments.format,
            on_loss=arguments.on_loss,
            dry_run=arguments.dry_run,
            storage=dict(arguments.fs_option),
            disk=disk,
        )
    output.summary(report.json(), _words(report, dry_run=arguments.dry_run))
    return EXIT_OK


def _words(report: ExportReport, *, dry_run: bool) -> list[str]:
    if report.commit is None:
        return [
            f"nothing new: {visible(report.target)} holds everything up to position {cell(report.position)}"
        ]
    if dry_run:
        return [f"commit {report.commit} would go up to position {cell(report.position)}"]
    return [
        f"commit {report.commit}: {report.rows} rows up to position {cell(report.position)}, "
        f"{human_size(report.bytes)}",
        *(f"  {visible(name)}" for name in report.files),
    ]


EXPORT = Verb(
    name="export",
    summary="entries or state to Parquet, NDJSON or a Delta table",
    description=(
        "Writes the durable entries of a log, or its state, to a directory that other programs read. The next run adds "
        "only what is new. Killed at any moment and run again, it leaves nothing out and nothing twice. The log is "
        "not changed and may be live."
    ),
    examples=(
        "flintlog export queues lake/queues",
        "flintlog export queues lake/stock --view state --format delta",
        "flintlog export queues lake/queues --engine spark --master spark://host:7077",
        "flintlog export queues s3://lake/queues --fs-option region=eu-central-1",
    ),
    add_options=_add_options,
    run=_run,
)
