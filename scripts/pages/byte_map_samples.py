"""What the field maps of the format pages show: bytes that the stores and encoders wrote, and the fields in them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgpack
from scripts.pages.byte_maps import cut, draw
from scripts.pages.page_blocks import ROOT

from flintlog import Datastore, QueueStore
from flintlog.core.fields import Field, Table
from flintlog.dialects.limestone import layout as limestone
from flintlog.dialects.mpy6a import layout as mpy6a
from flintlog.dialects.mpy6a import operations
from flintlog.dialects.mpy6a.layout import StateID
from flintlog.dialects.taskflux import layout as taskflux
from flintlog.dialects.zmqraft import layout as zmqraft

FORMATS = ROOT / "docs" / "formats"


Words = dict[str, str]
Sample = tuple[Table, bytes] | tuple[Table, bytes, Words]


def maps_of(samples: dict[str, Sample]) -> dict[str, str]:
    return {name: draw(cut(*sample)) for name, sample in samples.items()}


# taskflux


def taskflux_maps() -> dict[str, str]:
    spec = taskflux.QueueSpec("jobs", taskflux.CODE_BUCKETS, 100, None, (0, 9))
    add = taskflux.encode_delta(taskflux.AddRecord("jobs", 7, b"hello"))
    record = bytes(7) + b"\1" + add[6:]
    queue = taskflux.encode_queue_header(spec, 1, 1) + record
    samples: dict[str, Sample] = {
        "delta C": (
            taskflux.CREATE + taskflux.KEY_RANGE,
            taskflux.encode_delta(taskflux.CreateQueue(spec)),
        ),
        "delta D": (taskflux.DELETE, taskflux.encode_delta(taskflux.DeleteQueue("jobs"))),
        "delta A": (taskflux.ADD, add),
        "delta R": (taskflux.REMOVE, taskflux.encode_delta(taskflux.RemoveRecord("jobs", 1))),
        "queue of a state": (
            taskflux.QUEUE + taskflux.KEY_RANGE + taskflux.RECORDS + _further("first record"),
            queue,
        ),
        "record of a state": (taskflux.STATE_RECORD, record),
    }
    for edition, layout in taskflux.LAYOUTS.items():
        segment, snapshot, metadata = _queue_files(edition)
        behind = Table("big", Field("records", "*"), Field("end marker", "4B", words="zeros"))
        state = Table("big", Field("state", "[n]"), Field("checksum", "u32"))
        samples |= {
            f"segment, {edition}": (taskflux.SEGMENT_HEADER + behind, segment),
            f"record, {edition}": (layout.record, layout.encode_record(1, add)),
            f"snapshot, {edition}": (layout.snapshot_header + state, snapshot),
            f"metadata, {edition}": (layout.metadata, metadata),
            "state": (
                taskflux.STATE + _further("first queue"),
                snapshot[layout.snapshot_header_size : -4],
            ),
        }
    return maps_of(samples)


def _further(name: str) -> Table:
    return Table("big", Field(name, "*", words="and so on"))


def _queue_files(edition: str) -> tuple[bytes, bytes, bytes]:
    """Segment, snapshot and metadata of a store with one record."""
    with tempfile.TemporaryDirectory() as folder:
        with QueueStore(folder, edition=edition) as store:
            store.queue().add(b"hello", 7)
            store.snapshot()
        data = Path(folder, "data")
        (segment,) = data.glob("log/*.log")
        return (
            segment.read_bytes(),
            data.joinpath(taskflux.SNAPSHOT_FILE).read_bytes(),
            data.joinpath(taskflux.METADATA_FILE).read_bytes(),
        )


# zmqraft


def zmqraft_maps() -> dict[str, str]:
    meta = zmqraft.meta_segment("2026-11-15T12:00:00.000Z", "peer1", None)
    entry = zmqraft.Entry(1, b"set x 1").encode()
    slots = len(entry).to_bytes(4, "little") + bytes(4)
    created, words = _segment(b"META", *zmqraft.SEGMENT.fields), {"data": "MessagePack map"}
    empty = zmqraft.SEGMENT.fields[0], Field("length", "u32", words="u32: 0")
    state = msgpack.packb({"term": 1, "vote": None})
    return maps_of(
        {
            "segment": (zmqraft.SEGMENT, meta),
            "index file": (
                zmqraft.INDEX
                + Table("little", Field("slots", "[4*c]", words="c times u32"))
                + created
                + _segment(b"ITMZ", *empty, Field("entries", "*")),
                zmqraft.encode_index_head(2, 6)
                + slots
                + meta
                + zmqraft.segment(zmqraft.ENTRIES_TOKEN, b"")
                + entry,
                words | {"size": "u32: 16 + 4c"},
            ),
            "entry": (zmqraft.ENTRY, entry),
            "snapshot": (
                zmqraft.SNAPSHOT + created + _segment(b"DATA", *empty, Field("state", "[d]")),
                zmqraft.encode_snapshot_head(18, 1, 6)
                + meta
                + zmqraft.segment(zmqraft.DATA_TOKEN, b"")
                + b"x = 17",
                words | {"size": "u32: 28"},
            ),
            "state file": (
                Table("little", Field("first map", f"{len(state)}B"), Field("next map", "*")),
                state + msgpack.packb({"term": 2}),
                {"first map": "MessagePack", "next map": "MessagePack"},
            ),
        }
    )


def _segment(token: bytes, first: Field, *fields: Field) -> Table:
    return Table("little", replace(first, words=token.decode()), *fields)


# mpy6a


def mpy6a_maps() -> dict[str, str]:
    first, second, now, name = StateID(1, 2), StateID(1, 3), 1_700_000_000, "60@2023111422.data"
    record = mpy6a.encode_record(mpy6a.Record(now + 60, first, -5, 0, b"hi"))
    descriptor = mpy6a.Descriptor(name, StateID(1, 1), second, mpy6a.WRITTEN, 0, len(record), now + 60)
    place = operations.Place(name, 0, len(record))
    change = mpy6a.Create(60, now)
    examples: list[operations.Operation] = [
        change,
        mpy6a.StopWriting(name),
        mpy6a.Shift(name, 32),
        operations.New(-5, b"hi"),
        operations.Append(first, b"hi"),
        operations.Drop(first),
        operations.Store(first, 60, now + 60),
        operations.Put(60, 1, record),
        operations.Take(place, record),
        operations.Finish(place),
        operations.Again(place, 60, record),
    ]
    events = [operations.encode(second, item) for item in examples]
    events.append(operations.encode_base(second, operations.Base(1, 0, (descriptor,), (place,))))
    events.append(operations.encode_open(second, operations.Open(first, second, -5, 1, place, b"hi")))
    samples: dict[str, Sample] = {}
    for event in events:
        payload = _payload(event)
        table = operations.KINDS[payload[0]].payload
        alike = [kind for kind in operations.KINDS.values() if _types(kind.payload) == _types(table)]
        codes = ", ".join(str(kind.code) for kind in alike)
        samples[", ".join(kind.word for kind in alike)] = (table, payload, {"code": f"u32: {codes}"})
    return maps_of(
        samples
        | {
            "record": (mpy6a.RECORD, record),
            "descriptor": (mpy6a.DESCRIPTOR, descriptor.encode()),
            "log header": (mpy6a.LOG_HEADER, mpy6a.encode_log_header(*mpy6a.CHANGES_FRAME)),
            "event of state.log": (mpy6a.EVENT, mpy6a.EVENT.encode(second, mpy6a.encode_change(change))),
            "event of operations.log": (mpy6a.CHECKED_EVENT, bytes(operations.encode(second, change))),
        }
    )


def _types(table: Table) -> list[str]:
    return [field.type for field in table.fields]


def _payload(event: bytearray) -> bytes:
    """The payload of an event of the operation log, without its checksum."""
    _, begin = mpy6a.read_uvarint(bytes(event), mpy6a.EVENT_HEADER_SIZE)
    return bytes(event[begin : -operations.CHECKSUM_SIZE])


# limestone


def limestone_maps() -> dict[str, str]:
    begin, end = limestone.encode_begin(3), limestone.encode_end(3)
    entry = limestone.put(1, b"ada", b"30", (3, 4)).encode()
    with tempfile.TemporaryDirectory() as folder:
        with Datastore(folder, snapshot=False) as store:
            with store.channel().session() as session:
                session.put(1, b"ada", b"30")
            store.switch_epoch()
            store.compact()
        epoch, compacted = (Path(folder, name).read_bytes() for name in ("epoch", "cmpct_0000"))
    records = {
        1: entry,
        2: begin,
        3: end,
        5: limestone.remove(1, b"ada", (3, 4)).encode(),
        7: limestone.Entry(limestone.CLEAR_STORAGE, 1, version=(3, 4)).encode(),
        10: limestone.put(1, b"ada", b"30", (3, 4), (17,)).encode(),
    }
    samples: dict[str, Sample] = {}
    for kind, record in records.items():
        table = limestone.TABLES[kind]
        words = ", ".join(str(other) for other in limestone.TABLES if limestone.TABLES[other] is table)
        samples[f"type {words}"] = (table, record, {"type": f"u8: {words}"})
    return maps_of(
        samples
        | {
            "snippet, designed": (_file("entries", "types 1, 5"), begin + entry),
            "snippet, shipped": (
                _file("entries", "types 1, 5, 7 to 10")
                + Table("little", Field("end", "10B", words="type 3")),
                begin + entry + end,
            ),
            "epoch file": (_file("further records", "type 4", "first record", "type 4"), epoch),
            "sorted file": (_file("live entries", "types 1, 10"), compacted),
        }
    )


def _file(name: str, words: str, first: str = "begin", told: str = "type 2") -> Table:
    return Table("little", Field(first, "9B", words=told), Field(name, "*", words=words))


PAGES: dict[Path, Callable[[], dict[str, str]]] = {
    FORMATS / "taskflux.md": taskflux_maps,
    FORMATS / "zmqraft.md": zmqraft_maps,
    FORMATS / "mpy6a.md": mpy6a_maps,
    FORMATS / "limestone.md": limestone_maps,
}
