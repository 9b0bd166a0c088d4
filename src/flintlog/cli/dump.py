"""`dump`: the entries of a log, as rows or as annotated bytes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from flintlog.cli.decoders import Decoding, find_decoder
from flintlog.cli.output import Output
from flintlog.cli.progress import output_form, progress, progress_option
from flintlog.cli.rows import Row, row_chunks, told_when_empty
from flintlog.cli.verb import Verb, count, named_log, position
from flintlog.core.dialect import ByteField, ByteRange, EntryQuery, Split, skipping
from flintlog.core.live import holding, told_when_it_goes
from flintlog.core.log import Log
from flintlog.core.position import Position
from flintlog.disk import Progress, no_progress
from flintlog.errors import DamageError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

_STREAMS = ("queue", "topic", "storage", "stream")
REVERSE_SPLIT_BYTES = 4 << 20
_FILES_NAMED_MAX = 12


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--from", dest="first", type=position, metavar="POSITION", help="first position to show, inclusive"
    )
    parser.add_argument(
        "--to", dest="last", type=position, metavar="POSITION", help="last position to show, inclusive"
    )
    parser.add_argument(
        "--operation",
        "--kind",
        action="append",
        metavar="WORD",
        help="only entries of this operation (may be given again)",
    )
    for word in _STREAMS:
        parser.add_argument(
            f"--{word}",
            action="append",
            metavar="NAME",
            help=f"only entries of this {word} (may be given again)"
            if word != "stream"
            else "the same for a queue, topic or storage, whatever the log has",
        )
    parser.add_argument("--key", metavar="KEY", help="only entries with this key, typed as it is shown")
    parser.add_argument("--limit", type=count, metavar="N", help="stop after this many entries")
    parser.add_argument(
        "--reverse",
        action="store_true",
        help="the last entry first; with --limit only the end of the log is read",
    )
    parser.add_argument(
        "--decode",
        metavar="NAME",
        help="show payloads as text, json, msgpack or hex, or by a decoder that a package brings "
        "(entry points flintlog.decoders)",
    )
    parser.add_argument("--no-payload", action="store_true", help="leave the payloads out")
    parser.add_argument("--hex", action="store_true", help="show the bytes of every file, field by field")
    parser.add_argument(
        "--file",
        action="append",
        metavar="NAME",
        help="only this file, as inspect names it (may be given again)",
    )
    progress_option(parser)


def _run(arguments: argparse.Namespace, output: Output) -> int:
    if arguments.hex and (arguments.reverse or arguments.decode):
        raise UsageError(
            "--hex shows bytes in the order of the file", advice="Leave --reverse and --decode out"
        )
    if arguments.decode and arguments.no_payload:
        raise UsageError("--decode needs the payloads", advice="Leave --no-payload out")
    decoding = None if arguments.decode is None else Decoding(find_decoder(arguments.decode))
    log = named_log(arguments)
    if arguments.first is not None and arguments.last is not None and arguments.first > arguments.last:
        raise UsageError("--from is behind --to", advice="Give the earlier position first")
    query = entry_query(
        log,
        first=arguments.first,
        last=arguments.last,
        operations=arguments.operation,
        streams={word: getattr(arguments, word) for word in _STREAMS if getattr(arguments, word) is not None},
        key=arguments.key,
        payload=not arguments.no_payload,
    )
    files = None if arguments.file is None else _known_files(log, arguments.file)
    with told_when_it_goes(log.root), holding(log.disk, log.root) as held:
        _show(log.at(held), query, files, decoding, arguments, output)
    if decoding is not None and decoding.failed:
        print(
            f"flintlog: {decoding.failed} payloads are not {arguments.decode}; they are shown as they are",
            file=sys.stderr,
        )
    return 0


def _show(
    log: Log,
    query: EntryQuery,
    files: Sequence[str] | None,
    decoding: Decoding | None,
    arguments: argparse.Namespace,
    output: Output,
) -> None:
    if arguments.hex:
        everything = arguments.limit is None and query.takes_all
        fields = _fields(log, None if everything else query, files)
        output.fields(
            fields if arguments.limit is None else _first_entries(log, query, files, fields, arguments.limit)
        )
        return
    if arguments.reverse:
        query = replace(query, split_bytes=REVERSE_SPLIT_BYTES)
    with progress("dump", output_form(arguments.progress)) as tick:
        read = _reversed if arguments.reverse else _batches
        rows = row_chunks(read(log, query, files, tick), arguments.limit)
        _show_rows(log, query, told_when_empty(rows, "no entry matches", arguments), decoding, output)


def entry_query(
    log: Log,
    *,
    first: Position | None,
    last: Position | None,
    operations: Sequence[str] | None,
    streams: Mapping[str, Sequence[str]],
    key: str | None,
    payload: bool,
) -> EntryQuery:
    """The query for what the user asks; `streams` maps the word of an option (queue, topic) to the names given."""
    log.check_operations(operations or ())
    return EntryQuery(
        first=first,
        last=last,
        operations=None if operations is None else frozenset(operations),
        streams=_streams(log, streams),
        key=key,
        skip=skipping(payload=payload),
    )


def _streams(log: Log, given: Mapping[str, Sequence[str]]) -> frozenset[str] | None:
    """The names asked for; a word that this dialect does not have raises."""
    for word in given:
        if word not in (log.stream, "stream") or log.stream is None:
            has = f"Use --{log.stream}" if log.stream else f"Leave --{word} out"
            raise UsageError(f"this {log.dialect} log has no {word}s", file=log.path, advice=has)
    found = frozenset(name for names in given.values() for name in names)
    for name in found:
        if not name.isprintable() and name.encode(errors="replace").decode() != name:
            raise UsageError(f"{name!r} is not text in UTF-8", advice="Type the name as it is shown")
    return found if given else None


def _known_files(log: Log, names: Sequence[str]) -> list[str]:
    """The named files, each once, in the order of the inventory."""
    listed = [file.name for file in log.inspect().files if file.role != "foreign"]
    for name in names:
        if name not in listed and next(_fields(log, None, [name]), None) is None:
            raise UsageError(
                f"there is no file {name!r} in this log", file=log.path, advice=f"There are {_few(listed)}"
            )
    return [*(name for name in listed if name in names), *dict.fromkeys(n for n in names if n not in listed)]


def _few(names: Sequence[str]) -> str:
    more = f" and {len(names) - _FILES_NAMED_MAX} more" if len(names) > _FILES_NAMED_MAX else ""
    return ", ".join(names[:_FILES_NAMED_MAX]) + more if names else "none"


def _fields(log: Log, query: EntryQuery | None, files: Sequence[str] | None) -> Iterator[ByteField]:
    """The fields of the entries of a query, or all fields; of all files, or of some."""
    if files is None:
        yield from log.fields(query)
    for name in files or ():
        yield from log.fields(query, ByteRange(name, 0, sys.maxsize))


def _splits(log: Log, query: EntryQuery, files: Sequence[str] | None) -> list[Split]:
    found = log.splits(query)
    return found if files is None else [split for split in found if split.file in files]


def _batches(
    log: Log, query: EntryQuery, files: Sequence[str] | None, tick: Progress = no_progress
) -> Iterator[pa.RecordBatch]:
    for split in _told(_splits(log, query, files), tick):
        yield from log.read_split(split, query)


def _told(splits: list[Split], tick: Progress) -> Iterator[Split]:
    """The splits; `tick` hears the bytes of each one that is done."""
    total = sum(split.end - split.start for split in splits)
    done = 0
    for split in splits:
        yield split
        done += split.end - split.start
        tick(done, total)


def _reversed(
    log: Log, query: EntryQuery, files: Sequence[str] | None, tick: Progress
) -> Iterator[pa.RecordBatch]:
    """The entries from the last to the first; reads no more than the caller takes."""
    for split in _told(_splits(log, query, files)[::-1], tick):
        yield from reversed_split(log, split, query)


def reversed_split(log: Log, split: Split, query: EntryQuery) -> Iterator[pa.RecordBatch]:
    """The entries of one split, the last one first."""
    import numpy as np

    for batch in reversed(list(log.read_split(split, query))):
        yield batch.take(np.arange(batch.num_rows - 1, -1, -1))


def _show_rows(
    log: Log,
    query: EntryQuery,
    chunks: Iterator[list[Row]],
    decoding: Decoding | None,
    output: Output,
) -> None:
    from flintlog.core.entries import COMMON_FIELDS  # Arrow is slow to load and only needed here

    columns = [field.name for field in COMMON_FIELDS]
    if not query.payload:
        columns.remove("payload")
    if decoding is not None:
        chunks = decoding.rows(chunks)
        columns.append("decoded")
    output.rows([*columns, log.dialect], chunks)


def _first_entries(
    log: Log,
    query: EntryQuery,
    files: Sequence[str] | None,
    fields: Iterator[ByteField],
    limit: int,
) -> Iterator[ByteField]:
    """The fields up to the end of entry number `limit`."""
    if limit == 0:
        return
    end = _end_of_entry(log, replace(query, skip=skipping(payload=False)), files, limit)
    for field in fields:
        if end is not None and field.file == end[0] and field.offset >= end[1]:
            return
        yield field


def _end_of_entry(
    log: Log, query: EntryQuery, files: Sequence[str] | None, number: int
) -> tuple[str, int] | None:
    """File and offset behind entry number `limit`; None when there are fewer, or when damage comes first."""
    seen = 0
    try:
        for rows in row_chunks(_batches(log, query, files), number):
            seen += len(rows)
            if seen == number:
                return rows[-1]["file"], rows[-1]["offset"] + rows[-1]["length"]
    except DamageError:
        pass  # the operator wants to see the damage and the bytes in front of it
    return None


DUMP = Verb(
    name="dump",
    summary="entries, filtered; --hex shows annotated bytes",
    description=(
        "Shows the entries of a log in log order. Changes nothing and works on a live directory. With --json "
        "one object per line. With --hex every byte of every file, field by field, with its offset and its meaning; "
        "with a filter only the fields of those entries. With --decode a field "
        "`decoded` stands behind the payload: its value, or null where the payload cannot be read so."
    ),
    examples=(
        "flintlog dump queues --reverse --limit 10",
        "flintlog dump queues --queue orders --decode json",
        "flintlog dump queues --from 100 --to 200 --stream orders",
        "flintlog dump queues --hex --limit 1",
        "flintlog dump queues --hex --file tflux.metadata",
        "flintlog dump queues --json --no-payload",
    ),
    add_options=_add_options,
    run=_run,
)
