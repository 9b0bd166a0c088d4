"""`tail`: the last entries of a log, and with `-f` new ones as they come."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from flintlog.cli.export import loss_option
from flintlog.cli.output import Output
from flintlog.cli.rows import Row, row_chunks
from flintlog.cli.verb import Verb, count, named_log
from flintlog.core.dialect import EntryQuery, skipping
from flintlog.core.follow import Cursor, Delivery, Follower, Limits, OnLoss, beginning
from flintlog.core.log import Log

if TYPE_CHECKING:
    import pyarrow as pa

_LINES = 10
PAUSE_SECONDS = 0.2
_STEP = Limits(entries=1 << 16, bytes=64 << 20)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-n",
        "--lines",
        type=count,
        default=_LINES,
        metavar="N",
        help=f"begin with this many of the last entries ({_LINES} when not given)",
    )
    parser.add_argument(
        "-f", "--follow", action="store_true", help="go on with those that come, until interrupted"
    )
    parser.add_argument("--no-payload", action="store_true", help="leave the payloads out")
    loss_option(parser)


def _run(arguments: argparse.Namespace, output: Output) -> int:
    from flintlog.core.entries import COMMON_FIELDS  # Arrow is slow to load and only needed here

    log = named_log(arguments)
    query = EntryQuery(skip=skipping(payload=not arguments.no_payload))
    names = [field.name for field in COMMON_FIELDS if query.payload or field.name != "payload"]
    tail = Tail(log, query, arguments.on_loss)
    chunks = tail.last(arguments.lines)
    output.rows([*names, log.dialect], tail.followed(chunks) if arguments.follow else chunks)
    return 0


class Tail:
    """The last entries of a log, and a cursor behind them."""

    def __init__(self, log: Log, query: EntryQuery, on_loss: OnLoss) -> None:
        self._log = log
        self._query = query
        self._on_loss: OnLoss = on_loss
        self._follower: Follower = log.follower()
        self._cursor: Cursor = beginning()

    def last(self, number: int) -> Iterator[list[Row]]:
        """The last entries that are durable now."""
        deliveries = self._step(Limits())
        yield from row_chunks(self._newest(deliveries, number) if number else [])

    def followed(self, chunks: Iterator[list[Row]]) -> Iterator[list[Row]]:
        """These rows, then new ones as they come."""
        yield from chunks
        while True:
            sys.stdout.flush()  # the rows given so far are printed by now
            batches = self.fresh()
            if batches:
                yield from row_chunks(batches)
            else:
                self._log.disk.pause(PAUSE_SECONDS)

    def fresh(self) -> list[pa.RecordBatch]:
        """The new entries since the last look, or a part of them."""
        return self._ordered([batch for delivery in self._step(_STEP) for batch in self._read(delivery)])

    def _step(self, limits: Limits) -> list[Delivery]:
        end = self._follower.advance(self._cursor, limits, self._on_loss)
        deliveries = self._follower.deliveries(self._cursor, end, self._query, self._on_loss)
        self._cursor = end
        return deliveries

    def _read(self, delivery: Delivery) -> Iterator[pa.RecordBatch]:
        return self._follower.read(delivery)

    def _newest(self, deliveries: list[Delivery], number: int) -> list[pa.RecordBatch]:
        """The last rows. Reads deliveries from the end; of limestone all, because epochs mix the channels."""
        import pyarrow as pa

        kept: list[pa.RecordBatch] = []
        for delivery in reversed(deliveries):
            mine: list[pa.RecordBatch] = []
            for batch in self._read(delivery):
                mine.append(batch)
                while sum(one.num_rows for one in mine[1:]) >= number:
                    del mine[0]
            kept = [*mine, *kept]
            if sum(batch.num_rows for batch in kept) >= number and not delivery.statuses:
                break
        if not kept:
            return []
        rows = pa.Table.from_batches(self._ordered(kept))
        last: list[pa.RecordBatch] = rows.slice(max(rows.num_rows - number, 0)).combine_chunks().to_batches()
        return last

    def _ordered(self, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
        """The rows of limestone's channels in the order of their epochs."""
        import pyarrow as pa

        if self._log.dialect != "limestone" or len(batches) < 2:
            return batches
        ordered: list[pa.RecordBatch] = pa.Table.from_batches(batches).sort_by("position").to_batches()
        return ordered


TAIL = Verb(
    name="tail",
    summary="the last entries, and with -f those that come",
    description=(
        "Shows the last durable entries of a log. With -f it goes on with those that come, over rotation, snapshots "
        "and compaction, until it is interrupted. Entries that were taken back are told by a row `truncate` with the "
        "first position that is void. Changes nothing."
    ),
    examples=(
        "flintlog tail queues",
        "flintlog tail queues -f --json",
        "flintlog tail queues -n 100 --no-payload",
    ),
    add_options=_add_options,
    run=_run,
)
