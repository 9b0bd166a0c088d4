"""`bench`: what the stores do on this disk in a few seconds, beside the bare write with fdatasync."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from typing import Any

from flintlog.cli.output import Output
from flintlog.cli.terminal import visible
from flintlog.cli.verb import Verb, count, disk_place, disk_place_option, duration
from flintlog.disk import Disk
from flintlog.errors import EXIT_OK, UsageError

_PAYLOAD_BYTES = 100
_SECONDS = 1
_BATCH = 1000
FLOOR = "write and fdatasync"

Act = Callable[[], object]


def _add_options(parser: argparse.ArgumentParser) -> None:
    disk_place_option(parser)
    parser.add_argument(
        "--seconds",
        type=duration,
        default=_SECONDS,
        metavar="N",
        help=f"measure each for so long ({_SECONDS} when not given)",
    )
    parser.add_argument(
        "--payload",
        type=count,
        default=_PAYLOAD_BYTES,
        metavar="N",
        help=f"bytes of each payload ({_PAYLOAD_BYTES} when not given)",
    )


def _run(arguments: argparse.Namespace, output: Output) -> int:
    disk = Disk()
    place = disk_place(disk, arguments)
    if not 0 < arguments.payload <= 1 << 20 or not 0 < arguments.seconds <= 3600:
        raise UsageError("payloads have 1 to 1048576 bytes, and it takes up to 3600 seconds")
    rows = []
    floor = None
    for what, mode, each, act in _candidates(disk, disk.borrow_directory(place), bytes(arguments.payload)):
        done, seconds = _measured(act, arguments.seconds)
        rate = done * each / seconds
        floor = floor or rate
        rows.append(
            {
                "what": what,
                "mode": mode,
                "count": done * each,
                "seconds": round(seconds, 4),
                "per_second": round(rate),
                "times_floor": round(rate / floor, 3),
            }
        )
    report = {"path": place, "payload_bytes": arguments.payload, "rows": rows}
    output.summary(report, _words(report))
    return EXIT_OK


def _measured(act: Act, seconds_max: float) -> tuple[int, float]:
    """How often in that time, and how long it took; the first time is not counted."""
    act()
    begin = time.perf_counter()
    done = 0
    while (seconds := time.perf_counter() - begin) < seconds_max or not done:
        act()
        done += 1
    return done, seconds


def _candidates(disk: Disk, place: str, payload: bytes) -> Iterator[tuple[str, str, int, Act]]:
    """What is measured: name, mode, entries in one go, and the act. Everything is durable when it returns."""
    yield from _floor(disk, f"{place}/floor", payload)
    yield from _queues(f"{place}/queues", payload)
    yield from _peer(f"{place}/peer", payload)
    yield from _sessions(f"{place}/sessions", payload)
    yield from _keys(f"{place}/keys", payload)


def _floor(disk: Disk, path: str, payload: bytes) -> Iterator[tuple[str, str, int, Act]]:
    with disk.open(path, "create") as file:
        end = 0

        def commit() -> None:
            nonlocal end
            file.pwrite(payload, end)
            file.sync()
            end += len(payload)

        yield FLOOR, "one", 1, commit


def _queues(path: str, payload: bytes) -> Iterator[tuple[str, str, int, Act]]:
    from flintlog.dialects.taskflux.store import QueueStore

    many = [payload] * _BATCH
    with QueueStore(path) as store:
        queue = store.queue()
        yield "taskflux add", "one", 1, lambda: queue.add(payload)
        yield "taskflux add_many", f"{_BATCH}", _BATCH, lambda: queue.add_many(many)


def _peer(path: str, payload: bytes) -> Iterator[tuple[str, str, int, Act]]:
    from flintlog.dialects.zmqraft.layout import Entry
    from flintlog.dialects.zmqraft.store import RaftStore

    one, many = [Entry(1, payload)], [Entry(1, payload)] * _BATCH
    with RaftStore(path) as store:
        yield "zmqraft append", "one", 1, lambda: store.append(one)
        yield "zmqraft append", f"{_BATCH}", _BATCH, lambda: store.append(many)


def _sessions(path: str, payload: bytes) -> Iterator[tuple[str, str, int, Act]]:
    from flintlog.dialects.mpy6a.store import SessionStore, Topic

    many = [payload] * _BATCH
    with SessionStore(path, topics=[Topic(1, delay=30)], clock=time.time) as store:
        yield "mpy6a put", "one", 1, lambda: store.put(1, payload)
        yield "mpy6a put_many", f"{_BATCH}", _BATCH, lambda: store.put_many(1, many)


def _keys(path: str, payload: bytes) -> Iterator[tuple[str, str, int, Act]]:
    from flintlog.dialects.limestone.store import Datastore

    keys, values = [b"key %d" % number for number in range(_BATCH)], [payload] * _BATCH
    with Datastore(path) as store:
        channel = store.channel()

        def put() -> None:
            with channel.session() as session:
                session.put(1, b"key", payload)
            store.switch_epoch()

        def put_many() -> None:
            with channel.session() as session:
                session.put_many(1, keys, values)
            store.switch_epoch()

        yield "limestone put", "one", 1, put
        yield "limestone put_many", f"{_BATCH}", _BATCH, put_many


def _words(report: dict[str, Any]) -> Iterator[str]:
    yield f"{visible(report['path'])}: payloads of {report['payload_bytes']} bytes, each durable when its call returns"
    yield f"{'what':<22}{'at once':>8}{'per second':>12}{'of the floor':>14}"
    for row in report["rows"]:
        yield f"{row['what']:<22}{row['mode']:>8}{row['per_second']:>12}{row['times_floor']:>13.2f}x"


BENCH = Verb(
    name="bench",
    summary="what the stores do on this disk, beside the bare fdatasync",
    description=(
        "Measures for a few seconds how many entries each store makes durable on the disk of a directory, one by one "
        "and a thousand at once, beside the floor: a bare write with fdatasync. Its files are gone afterwards."
    ),
    examples=("flintlog bench /var/lib/queues", "flintlog bench --seconds 5 --payload 1000 --json"),
    add_options=_add_options,
    run=_run,
    takes_directory=False,
)
