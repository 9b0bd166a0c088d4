"""`state`: what replaying the log gives, now or at a position."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from flintlog.cli.engine import engine_options, workers
from flintlog.cli.output import Output
from flintlog.cli.progress import UNKNOWN, output_form, progress, progress_option
from flintlog.cli.rows import row_chunks
from flintlog.cli.verb import Verb, named_log, position
from flintlog.disk import Progress

if TYPE_CHECKING:
    import pyarrow as pa


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--as-of",
        type=position,
        metavar="POSITION",
        help="the state after this position instead of the newest",
    )
    engine_options(parser)
    progress_option(parser)


def _run(arguments: argparse.Namespace, output: Output) -> int:
    log = named_log(arguments)
    columns = log.state_schema.names
    with workers(arguments) as who:
        if who is None:
            batches: Iterable[pa.RecordBatch] = log.state(arguments.as_of)
        else:
            batches = log.state(arguments.as_of, workers=who).toArrow().to_batches()
        with progress("state", output_form(arguments.progress)) as tick:
            output.rows(columns, row_chunks(_told(batches, tick)))
    return 0


def _told(batches: Iterable[pa.RecordBatch], tick: Progress) -> Iterator[pa.RecordBatch]:
    """The batches; `tick` hears the bytes of each one that was shown."""
    done = 0
    for batch in batches:
        yield batch
        done += batch.nbytes
        tick(done, UNKNOWN)


STATE = Verb(
    name="state",
    summary="live state, now or --as-of a position",
    description=(
        "Shows the live state in the dialect's order. Changes nothing and works on a live directory. With "
        "--json one object per line; its fields are a contract."
    ),
    examples=(
        "flintlog state queues",
        "flintlog state queues --as-of 120 --json",
        "flintlog state store --engine spark --json",
    ),
    add_options=_add_options,
    run=_run,
)
