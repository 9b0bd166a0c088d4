"""Directories with one thing wrong in each, by the code of the finding; those of the golden set and more."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

from tests.mpy6a import recorded

from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import operations as ops
from flintlog.dialects.mpy6a import scan
from flintlog.dialects.mpy6a.layout import Record, StateID
from flintlog.dialects.mpy6a.store import SessionStore, Topic

Make = Callable[[Path], None]
Damage = Callable[[Path], None]

T0 = 1_700_000_000  # 2023-11-14 22:13:20 UTC
SHORT, LONG, ONCE = 1, 2, 3
TOPICS = (Topic(SHORT, 30), Topic(LONG, 600), Topic(ONCE, 90, 1))
FIRST, SECOND = "30@2023111422.data", "30@2023111422-1.data"
OTHER = "600@2023111422.data"
HUGE = b"\xff" * 11


def fill(store: SessionStore) -> None:
    """Two files of one delay, the first read in part, one of another delay; the logs hold something."""
    for number in range(4):
        store.put(SHORT, b"short %d" % number, now=T0 + number)
    store.rotate(30, now=T0 + 10)
    for number in range(4, 8):
        store.put(SHORT, b"short %d" % number, now=T0 + 10 + number)
    store.put(LONG, b"long", now=T0 + 20)
    store.snapshot()
    for session in store.due(now=T0 + 31, limit=2):
        session.delete()
    store.put(SHORT, b"late", now=T0 + 50)
    store.put(LONG, b"longer", now=T0 + 50)


def noted(root: Path) -> None:
    """The note's files alone, with a change log: the store was not closed."""
    made = root.parent / f"{root.name}-made"
    with SessionStore(made, topics=TOPICS, strict=True, on_exhausted=print) as store:
        fill(store)
        shutil.copytree(made, root)


def logged(root: Path) -> None:
    """With an operation log that goes on behind its checkpoint: the store was not closed."""
    made = root.parent / f"{root.name}-made"
    with SessionStore(made, topics=TOPICS, reserve_bytes=0) as store:
        store.put(ONCE, b"tried too often", now=T0)
        for _ in range(2):
            for session in store.due(now=T0 + 200):
                session.store(now=T0 + 10)
        fill(store)
        store.new(SHORT, b"open").append(b" still")
        third, fourth = store.due(now=T0 + 34, limit=2)
        fourth.delete()
        third.append(b" changed")
        shutil.copytree(made, root)


def settled(root: Path) -> None:
    """With an operation log that holds a checkpoint only: the store was closed."""
    with SessionStore(root, topics=TOPICS) as store:
        fill(store)


def but(make: Make, *damages: Damage) -> Make:
    def made(root: Path) -> None:
        make(root)
        for damage in damages:
            damage(root)

    made.base = make  # type: ignore[attr-defined]  # for those who ask what was there before
    return made


def golden(name: str) -> Make:
    return lambda root: (shutil.copytree(recorded.lay_out(name, root.parent / "laid"), root), None)[1]


# What is done to a file


def cut(name: str, size: int) -> Damage:
    """Keep the first bytes of a file; a negative size takes so many from the end."""

    def damage(root: Path) -> None:
        (root / name).write_bytes((root / name).read_bytes()[:size])

    return damage


def add(name: str, data: bytes) -> Damage:
    def damage(root: Path) -> None:
        with (root / name).open("ab") as file:
            file.write(data)

    return damage


def poke(name: str, offset: int, data: bytes) -> Damage:
    """Write over some bytes; a negative offset counts from the end."""

    def damage(root: Path) -> None:
        content = bytearray((root / name).read_bytes())
        at = offset if offset >= 0 else len(content) + offset
        content[at : at + len(data)] = data
        (root / name).write_bytes(content)

    return damage


def flip(name: str, offset: int) -> Damage:
    def damage(root: Path) -> None:
        content = bytearray((root / name).read_bytes())
        content[offset] ^= 1
        (root / name).write_bytes(content)

    return damage


def remove(name: str) -> Damage:
    return lambda root: (root / name).unlink()


def in_record(name: str, number: int, offset: int, data: bytes) -> Damage:
    """Write over some bytes of a record of a data file."""

    def damage(root: Path) -> None:
        records, _ = scan.scan_records(memoryview((root / name).read_bytes()))
        poke(name, int(records.offset[number]) + offset, data)(root)

    return damage


def in_event(name: str, number: int, offset: int, data: bytes) -> Damage:
    """Write over some bytes of an event of a log."""

    def damage(root: Path) -> None:
        view = memoryview((root / name).read_bytes())
        log = scan.scan_log(view, checked=name == lay.OPERATIONS_FILE)
        poke(name, int(log.events.offset[number]) + offset, data)(root)

    return damage


def changes(*payloads: bytes | lay.Change) -> Damage:
    """Put operations behind those of the change log, and one more that is good behind them."""

    def damage(root: Path) -> None:
        path = root / lay.CHANGES_FILE
        view = memoryview(path.read_bytes())
        log = scan.scan_log(view, checked=False)
        last = log.events.state_id(-1) if len(log.events) else _last_of_snapshot(root)
        events = [
            payload if isinstance(payload, bytes) else lay.encode_change(payload) for payload in payloads
        ]
        events.append(lay.encode_change(lay.OpenToRead(OTHER)))
        out = bytes(view[: log.end])
        for number, payload in enumerate(events, 1):
            event = lay.EVENT.encode(last.following(number), payload)
            out += bytes(lay.padding_before(len(out), log.frame, len(event))) + event
        path.write_bytes(out)

    return damage


def operations(*more: ops.Operation) -> Damage:
    """Put operations behind those of the operation log."""

    def damage(root: Path) -> None:
        path = root / lay.OPERATIONS_FILE
        view = memoryview(path.read_bytes())
        log = scan.scan_log(view, checked=True)
        last = log.events.state_id(-1)
        out = bytes(view[: log.end])
        for number, operation in enumerate(more, 1):
            out += ops.encode(last.following(100 * number), operation)
        path.write_bytes(out)

    return damage


def checkpoint(change: Callable[[ops.Base], ops.Base]) -> Damage:
    """Write the checkpoint of an operation log anew, and drop what follows."""

    def damage(root: Path) -> None:
        path = root / lay.OPERATIONS_FILE
        view = memoryview(path.read_bytes())
        events = scan.scan_log(view, checked=True).events
        base = ops.decode_base(view[int(events.payload[0]) : events.end(0)])
        path.write_bytes(
            lay.encode_log_header(*lay.OPERATIONS_FRAME) + ops.encode_base(events.state_id(0), change(base))
        )

    return damage


def described(change: Callable[[list[lay.Descriptor]], Iterable[lay.Descriptor]]) -> Damage:
    """Write the snapshot anew with other descriptors."""

    def damage(root: Path) -> None:
        path = root / lay.SNAPSHOT_FILE
        items = [item for _, item in lay.read_snapshot(path.read_bytes())]
        path.write_bytes(b"".join(item.encode() for item in change(items)))

    return damage


def one_described(name: str, **fields: object) -> Damage:
    return described(
        lambda items: [replace(item, **fields) if item.name == name else item for item in items]  # type: ignore[arg-type]
    )


def one_in_checkpoint(name: str, **fields: object) -> Damage:
    def change(base: ops.Base) -> ops.Base:
        items = tuple(
            replace(item, **fields) if item.name == name else item  # type: ignore[arg-type]
            for item in base.descriptors
        )
        return base._replace(descriptors=items)

    return checkpoint(change)


def _last_of_snapshot(root: Path) -> StateID:
    return max(item.last_id for _, item in lay.read_snapshot((root / lay.SNAPSHOT_FILE).read_bytes()))


def not_last(root: Path) -> None:
    """The file that is written stands before the closed one."""
    noted(root)
    described(
        lambda items: [
            replace(item, flags=item.flags ^ lay.WRITTEN, last_id=max(one.last_id for one in items))
            if item.delay == 30
            else item
            for item in items
        ]
    )(root)
    (root / lay.CHANGES_FILE).write_bytes(lay.encode_log_header(*lay.CHANGES_FRAME))
    items = [item for _, item in lay.read_snapshot((root / lay.SNAPSHOT_FILE).read_bytes())]
    one_described(SECOND, length=(root / SECOND).stat().st_size)(root)
    assert [item.name for item in items if item.flags & lay.WRITTEN] != [SECOND]


def ahead_of_the_log(root: Path) -> None:
    """The change log goes on behind the last operation of the operation log."""
    settled(root)
    view = (root / lay.SNAPSHOT_FILE).read_bytes()
    name = next(item.name for _, item in lay.read_snapshot(view))
    event = lay.EVENT.encode(StateID(1, 1000), lay.encode_change(lay.Shift(name, 0)))
    add(lay.CHANGES_FILE, event)(root)


def aside(root: Path) -> None:
    """An operation log, and a session that was set aside before its checkpoint."""
    with SessionStore(root, topics=TOPICS) as store:
        fill(store)
        store.put(ONCE, b"tried too often", now=T0)
        for _ in range(2):
            for session in store.due(now=T0 + 200):
                if session.topic == ONCE:
                    session.store(now=T0 + 10)


def young(root: Path) -> None:
    """The note's files alone, without a snapshot so far: the store was not closed."""
    made = root.parent / f"{root.name}-made"
    with SessionStore(made, topics=TOPICS, strict=True, on_exhausted=print) as store:
        store.put(SHORT, b"short", now=T0)
        store.put(LONG, b"long", now=T0)
        shutil.copytree(made, root)


def without(name: str) -> Callable[[ops.Base], ops.Base]:
    """A checkpoint that does not describe a file."""
    return lambda base: base._replace(
        descriptors=tuple(item for item in base.descriptors if item.name != name)
    )


def leftover(root: Path) -> None:
    """A file that was in the making, or going, when its store died."""
    noted(root)
    (root / "data.30@2022042817.data.new").write_bytes(b"")
    (root / "30@2022042817.data").write_bytes(
        lay.encode_record(Record(1651165230, StateID(1, 1), 1, 0, b"old"))
    )


def _name_of(data: bytes, root: Path) -> str:
    return next(path.name for path in root.glob("*.data") if data in path.read_bytes())


_LENGTH = 16  # of an event's payload, behind its state id
_PUT = lay.encode_record(Record(T0 + 99, StateID(1, 500), 1, 0, b"x"))

BY_CODE: tuple[tuple[str, Make], ...] = (
    # torn
    ("record-cut", but(noted, cut(SECOND, -3))),
    ("record-cut", golden("s3_torn_tails/data_torn_header")),
    ("record-zeros", but(noted, add(SECOND, bytes(40)))),
    ("event-cut", but(noted, cut(lay.CHANGES_FILE, -3))),
    ("event-cut", golden("s3_torn_tails/log_torn_in_index")),
    ("event-zeros", but(noted, add(lay.CHANGES_FILE, bytes(40)))),
    ("file-behind", but(logged, cut(SECOND, -10))),
    ("file-ahead", but(logged, add(SECOND, b"nobody wrote this"))),
    ("note-behind", but(logged, cut(lay.SNAPSHOT_FILE, -3))),
    ("note-behind", but(logged, cut(lay.CHANGES_FILE, 9))),
    ("note-behind", but(logged, in_event(lay.CHANGES_FILE, 2, 12, b"\x01"))),
    # records
    ("record-order", golden("s4_order_violation/in_file")),
    ("record-order", but(noted, in_record(SECOND, 2, 0, struct.pack("<Q", T0)))),
    ("record-order", but(settled, in_record(SECOND, 2, 0, struct.pack("<Q", T0)))),
    ("record-time", but(noted, in_record(SECOND, 1, 0, bytes(8)))),
    ("record-time", but(settled, in_record(FIRST, 3, 0, bytes(8)))),
    ("record-term", but(noted, in_record(FIRST, 3, 8, bytes(8)))),
    ("record-number", but(noted, in_record(FIRST, 1, 28, HUGE))),
    ("record-number", but(settled, in_record(FIRST, 2, 28, HUGE))),
    # files
    ("file-short", golden("s3_torn_tails/data_short")),
    ("file-short", but(noted, cut(FIRST, 50))),
    ("file-short", but(noted, remove(FIRST))),
    ("file-short", but(settled, cut(FIRST, 100))),
    ("file-short", but(logged, remove(FIRST))),
    ("file-short", but(logged, cut(SECOND, 20))),
    ("file-long", golden("s3_torn_tails/data_torn_closed")),
    ("file-long", but(noted, add(FIRST, _PUT))),
    ("file-order", golden("s4_order_violation/cross_file")),
    ("replay-bound", golden("s4_order_violation/replay_bound")),
    ("offset-boundary", golden("s4_order_violation/offset_boundary")),
    ("offset-boundary", but(settled, one_in_checkpoint(FIRST, offset=40))),
    ("two-writers", golden("s4_order_violation/two_writers")),
    ("writer-not-last", not_last),
    # snapshot
    ("snapshot-cut", golden("s3_torn_tails/snapshot_torn")),
    ("snapshot-cut", but(noted, cut(lay.SNAPSHOT_FILE, -3))),
    ("snapshot-number", but(noted, poke(lay.SNAPSHOT_FILE, 1 + len(FIRST) + 33, HUGE))),
    ("snapshot-name", but(noted, poke(lay.SNAPSHOT_FILE, 1, b"../"))),
    ("snapshot-flags", but(noted, one_described(FIRST, flags=4))),
    ("snapshot-term", but(noted, one_described(FIRST, id=lay.ZERO))),
    ("snapshot-order", but(noted, one_described(FIRST, id=StateID(9, 9)))),
    ("snapshot-offset", but(noted, one_described(FIRST, offset=1 << 20))),
    ("snapshot-duplicate", golden("s4_order_violation/duplicate_name")),
    # change log
    ("log-header", golden("s3_torn_tails/log_header_torn")),
    ("log-header", but(noted, poke(lay.CHANGES_FILE, 0, HUGE))),
    ("log-header", but(logged, poke(lay.OPERATIONS_FILE, 0, HUGE))),
    ("changes-missing", but(noted, remove(lay.CHANGES_FILE))),
    ("descriptors-missing", but(noted, remove(lay.CHANGES_FILE), remove(lay.SNAPSHOT_FILE))),
    ("event-length", but(noted, in_event(lay.CHANGES_FILE, 1, _LENGTH, b"\xff\x7f"))),
    ("event-number", but(noted, in_event(lay.CHANGES_FILE, 1, _LENGTH, HUGE))),
    ("event-padding", but(golden("s3_torn_tails/log_torn_in_payload"), poke(lay.CHANGES_FILE, 110, b"?"))),
    ("operation-unknown", golden("s5_unknown_op/code_6")),
    ("operation-cut", golden("s5_unknown_op/short_code")),
    ("operation-trailing", golden("s5_unknown_op/trailing_bytes")),
    ("operation-file", golden("s5_unknown_op/unknown_name")),
    ("operation-name", golden("s5_unknown_op/bad_name")),
    ("operation-shift", golden("s5_unknown_op/shift_past_len")),
    ("operation-order", golden("s5_unknown_op/log_order")),
    ("operation-number", but(noted, changes(lay.encode_change(lay.Shift(FIRST, 0))[:-1] + HUGE))),
    ("operation-delay", but(noted, changes(lay.Create(0, T0)))),
    ("operation-time", but(noted, changes(lay.Create(30, 1 << 60)))),
    ("operation-two-writers", but(noted, changes(lay.Create(600, T0)))),
    ("operation-not-written", but(noted, changes(lay.StopWriting(FIRST)))),
    # operation log
    ("log-base", but(logged, cut(lay.OPERATIONS_FILE, 16))),
    ("event-checksum", but(logged, in_event(lay.OPERATIONS_FILE, 3, 20, b"\xff"))),
    ("event-checksum", but(logged, in_event(lay.OPERATIONS_FILE, 0, 20, b"\xff"))),
    ("operation-base", but(logged, checkpoint(lambda base: base._replace(sessions=9)))),
    ("operation-flags", but(settled, one_in_checkpoint(FIRST, flags=4))),
    ("operation-term", but(settled, one_in_checkpoint(FIRST, id=lay.ZERO))),
    ("operation-offset", but(settled, one_in_checkpoint(FIRST, offset=1 << 20))),
    ("operation-session", but(logged, operations(ops.Append(StateID(1, 9999), b"whose?")))),
    ("operation-place", but(logged, operations(ops.Finish(ops.Place(FIRST, 1 << 20, 40))))),
    ("log-missing", but(logged, remove(lay.OPERATIONS_FILE))),
    ("file-undescribed", but(young, cut(lay.CHANGES_FILE, lay.LOG_HEADER_SIZE))),
    ("file-undescribed", but(settled, checkpoint(without(OTHER)))),
    ("operation-records", but(logged, operations(ops.Put(30, 0, b"")))),
    ("operation-no-file", but(logged, operations(ops.Put(77, 1, _PUT)))),
    ("note-ahead", ahead_of_the_log),
    ("exhausted-short", but(aside, cut(lay.EXHAUSTED_FILE, 10))),
    # others
    ("leftover", leftover),
    ("leftover", but(noted, lambda root: (root / "state.log.new").write_bytes(b"") and None)),
    ("foreign", but(noted, lambda root: (root / "notes.txt").write_bytes(b"mine") and None)),
)
