"""What the byte maps of the format pages show: bytes that the stores and encoders wrote, and the fields in them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import msgpack
from scripts.pages.byte_maps import cut, draw
from scripts.pages.page_blocks import ROOT

from flintlog import Datastore, QueueStore
from flintlog.dialects.limestone import layout as limestone
from flintlog.dialects.mpy6a import layout as mpy6a
from flintlog.dialects.mpy6a import operations
from flintlog.dialects.mpy6a.layout import StateID
from flintlog.dialects.mpy6a.tables import OPERATIONS
from flintlog.dialects.taskflux import layout as taskflux
from flintlog.dialects.zmqraft import layout as zmqraft

FORMATS = ROOT / "docs" / "formats"


def maps_of(order: str, samples: dict[str, tuple[bytes, str]]) -> dict[str, str]:
    return {name: draw(cut(fields, sample, order)) for name, (sample, fields) in samples.items()}


# taskflux


def taskflux_maps() -> dict[str, str]:
    name = "name length u8 q | queue [q]"
    key_range = "has range u8 | lowest key i64 | highest key i64"
    limits = "implementation i32 | most records i32 | most payload i32"
    spec = taskflux.QueueSpec("jobs", taskflux.CODE_BUCKETS, 100, None, (0, 9))
    create, delete, add, remove = (
        taskflux.encode_delta(delta)
        for delta in (
            taskflux.CreateQueue(spec),
            taskflux.DeleteQueue("jobs"),
            taskflux.AddRecord("jobs", 7, b"hello"),
            taskflux.RemoveRecord("jobs", 1),
        )
    )
    samples = {
        "delta C": (create, f"delta u8 : 'C', create | {name} | {limits} | {key_range}"),
        "delta D": (delete, f"delta u8 : 'D', delete | {name}"),
        "delta A": (add, f"delta u8 : 'A', add | {name} | key i64 | payload length i32 n | payload [n]"),
        "delta R": (remove, f"delta u8 : 'R', remove | {name} | id u64"),
    }
    for edition, layout in taskflux.LAYOUTS.items():
        bits = 8 * layout.term_size
        padding = " | padding [-n%4] : 0 to 3 zeros" if layout.alignment > 1 else ""
        segment, snapshot, metadata = _queue_files(edition)
        state = snapshot[layout.snapshot_header_size : -4]
        samples |= {
            f"segment, {edition}": (
                segment,
                "file marker 4B | version i32 | records * | end marker 4B : zeros",
            ),
            f"record, {edition}": (
                layout.encode_record(1, add),
                f"record marker 4B | term i{bits} | checksum u32 | length i32 n | data [n] : n bytes: a delta{padding}",
            ),
            f"snapshot, {edition}": (
                snapshot,
                f"marker 4B | last index i{bits} | last term i{bits} | length i32 n | state [n] | checksum u32",
            ),
            f"metadata, {edition}": (
                metadata,
                f"marker 4B | version i32 | term i{bits} | vote i32 : i32, -1 none | checksum u32",
            ),
            "state": (state, "queues i32 : i32, how many | first queue * : and so on"),
        }
    queue = taskflux.encode_queue_header(spec, 1, 1)
    record = add[6:]
    samples |= {
        "queue of a state": (
            queue + bytes(7) + b"\1" + record,
            f"{name} | implementation i32 | last id u64 | most records i32 | most payload i32 | {key_range}"
            " | records i32 : i32, how many | first record * : and so on",
        ),
        "record of a state": (
            bytes(7) + b"\1" + record,
            "id u64 | key i64 | payload length i32 n | payload [n]",
        ),
    }
    return maps_of("big", samples)


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
    head = zmqraft.encode_index_head(2, 6) + slots
    token = "token 4B : META | length u32 m | MessagePack map [m] | padding [-m%4] : 0 to 3 zeros"
    state = msgpack.packb({"term": 1, "vote": None})
    return maps_of(
        "little",
        {
            "segment": (meta, token.replace("META", "4 characters").replace("MessagePack map", "data")),
            "index file": (
                head + meta + zmqraft.segment(zmqraft.ENTRIES_TOKEN, b"") + entry,
                "token 4B : RLOG | size u32 : u32: 16 + 4c | version u32 | capacity u32 c | first index u64"
                " | slots [4*c] : c times u32"
                f" | {token} | token 4B : ITMZ | length u32 : u32: 0 | entries *",
            ),
            "entry": (
                entry,
                "request id 12B : 12 bytes, or zeros | type u8 | term u56 | data * : up to its slot",
            ),
            "snapshot": (
                zmqraft.encode_snapshot_head(18, 1, 6)
                + meta
                + zmqraft.segment(zmqraft.DATA_TOKEN, b"")
                + b"x = 17",
                "token 4B : SNAP | size u32 : u32: 28 | version u32 | index u64 | term u64 | data size u64 d"
                f" | {token} | token 4B : DATA | length u32 : u32: 0 | data [d]",
            ),
            "state file": (
                state + msgpack.packb({"term": 2}),
                f"first map {len(state)}B : MessagePack | next map * : MessagePack",
            ),
        },
    )


# mpy6a


def mpy6a_maps() -> dict[str, str]:
    first, second, now, name = StateID(1, 2), StateID(1, 3), 1_700_000_000, "60@2023111422.data"
    record = mpy6a.encode_record(mpy6a.Record(now + 60, first, -5, 0, b"hi"))
    descriptor = mpy6a.Descriptor(name, StateID(1, 1), second, mpy6a.WRITTEN, 0, len(record), now + 60)
    place = operations.Place(name, 0, len(record))
    change = mpy6a.Create(60, now)
    session = "session id 16B : term, index"
    named, at = "name length uvarint n | name [n]", "offset uvarint | size uvarint"
    data = "data * : up to the end"
    groups = [
        ["create"],
        ["stop-writing", "delete", "open-to-read"],
        ["shift"],
        ["new"],
        ["append", "replace"],
        ["drop"],
    ]
    groups += [["store"], ["put"], ["take", "exhaust"], ["finish"], ["again"], ["base"], ["open"]]
    payloads: dict[str, tuple[operations.Operation, str]] = {
        "create": (change, "delay u32 : u32 seconds | now u64"),
        "stop-writing": (mpy6a.StopWriting(name), named),
        "delete": (mpy6a.Delete(name), named),
        "open-to-read": (mpy6a.OpenToRead(name), named),
        "shift": (mpy6a.Shift(name, 32), f"{named} | size uvarint"),
        "new": (operations.New(-5, b"hi"), f"topic i32 | {data}"),
        "append": (operations.Append(first, b"hi"), f"{session} | {data}"),
        "replace": (operations.Replace(first, b"hi"), f"{session} | {data}"),
        "drop": (operations.Drop(first), session),
        "store": (operations.Store(first, 60, now + 60), f"{session} | delay u32 | replay time u64"),
        "put": (operations.Put(60, 1, record), "delay u32 | number uvarint | records *"),
        "take": (operations.Take(place, record), f"{named} | {at} | records *"),
        "finish": (operations.Finish(place), f"{named} | {at}"),
        "again": (operations.Again(place, 60, record), f"{named} | {at} | delay u32 | records *"),
        "exhaust": (operations.Exhaust(place, record), f"{named} | {at} | records *"),
    }
    base = operations.encode_base(second, operations.Base(1, 0, (descriptor,), (place,)))
    opened = operations.encode_open(second, operations.Open(first, second, -5, 1, place, b"hi"))
    head = "state id: term u64 | state id: index u64 | payload length uvarint p"
    fields = {
        word: (_payload(operations.encode(second, item)), text) for word, (item, text) in payloads.items()
    }
    fields["base"] = (
        _payload(base),
        "open sessions uvarint | places uvarint | exhausted u64 : u64 bytes"
        f" | length uvarint d | descriptors [d] | {named} | {at}",
    )
    fields["open"] = (
        _payload(opened),
        f"{session} | changed by 16B : term, index | topic i32 | attempts uvarint | {named} | {at} | {data}",
    )
    assert set(fields) == set(OPERATIONS.values())
    samples = {}
    for words in groups:
        codes = ", ".join(str(code) for code, word in OPERATIONS.items() if word in words)
        for word in words:  # the first is shown, all are cut
            payload, text = fields.pop(word)
            text = f"code u32 : u32: {codes} | {text}"
            cut(text, payload, "little")
            samples.setdefault(", ".join(words), (payload, text))
    assert not fields
    samples |= {
        "record": (
            record,
            "replay time u64 | session term u64 | session index u64 | topic i32 | attempts uvarint"
            " | data length uvarint n | data [n]",
        ),
        "descriptor": (
            descriptor.encode(),
            f"{named} | id 16B : term, index | last id 16B : term, index"
            " | flags u8 | read position uvarint | length uvarint | replay bound u64",
        ),
        "log header": (
            mpy6a.encode_log_header(*mpy6a.CHANGES_FRAME),
            "frame size u64 | greatest payload u64",
        ),
        "event of state.log": (
            mpy6a.encode_event(second, mpy6a.encode_change(change)),
            f"{head} | payload [p]",
        ),
        "event of operations.log": (
            bytes(operations.encode(second, change)),
            f"{head} | payload [p-4] | checksum u32",
        ),
    }
    return maps_of("little", samples)


def _payload(event: bytearray) -> bytes:
    """The payload of an event of the operation log, without its checksum."""
    _, begin = mpy6a.read_uvarint(bytes(event), mpy6a.EVENT_HEADER_SIZE)
    return bytes(event[begin : -operations.CHECKSUM_SIZE])


# limestone


def limestone_maps() -> dict[str, str]:
    versions = "major u64 | minor u64"
    put = f"type u8 | key length u32 k | value length u32 v | storage u64 | key [k] | {versions} | value [v]"
    storage = f"type u8 | storage u64 | {versions}"
    begin, end = limestone.encode_begin(3), limestone.encode_end(3)
    marker = "type u8 | epoch u64"
    entry = limestone.put(1, b"ada", b"30", (3, 4))
    with tempfile.TemporaryDirectory() as folder:
        with Datastore(folder, snapshot=False) as store:
            with store.channel().session() as session:
                session.put(1, b"ada", b"30")
            store.switch_epoch()
            store.compact()
        epoch, compacted = (Path(folder, name).read_bytes() for name in ("epoch", "cmpct_0000"))
    samples = {
        limestone.PUT: (entry.encode(), put),
        limestone.BEGIN: (begin, marker),
        limestone.END: (end, f"{marker} | checksum type u8 : u8: 1, none"),
        limestone.DURABLE: (limestone.encode_durable(3), marker),
        limestone.REMOVE: (
            limestone.remove(1, b"ada", (3, 4)).encode(),
            f"type u8 | key length u32 k | storage u64 | key [k] | {versions}",
        ),
        limestone.INVALIDATED: (bytes([limestone.INVALIDATED]) + begin[1:], marker),
        **{
            kind: (limestone.Entry(kind, 1, version=(3, 4)).encode(), storage)
            for kind in (limestone.CLEAR_STORAGE, limestone.ADD_STORAGE, limestone.REMOVE_STORAGE)
        },
        limestone.PUT_BLOBS: (
            limestone.put(1, b"ada", b"30", (3, 4), (17,)).encode(),
            f"{put} | blobs u32 n | blob numbers [8*n] : n times u64",
        ),
    }
    assert set(samples) == set(range(1, limestone.TYPE_MAX + 1))
    records = {}
    for kinds in ([1], [2, 4, 6], [3], [5], [7, 8, 9], [10]):
        words = ", ".join(map(str, kinds))
        for kind in kinds:  # the first is shown, all are cut
            sample, fields = samples[kind]
            fields = fields.replace("type u8", f"type u8 : u8: {words}", 1)
            cut(fields, sample, "little")
            records.setdefault(f"type {words}", (sample, fields))
    files = {
        "snippet, designed": (begin + entry.encode(), "begin 9B : type 2 | entries * : types 1, 5"),
        "snippet, shipped": (
            begin + entry.encode() + end,
            "begin 9B : type 2 | entries * : types 1, 5, 7 to 10 | end 10B : type 3",
        ),
        "epoch file": (epoch, "first record 9B : type 4 | further records * : type 4"),
        "sorted file": (compacted, "begin 9B : type 2 | live entries * : types 1, 10"),
    }
    return maps_of("little", records | files)


PAGES: dict[Path, Callable[[], dict[str, str]]] = {
    FORMATS / "taskflux.md": taskflux_maps,
    FORMATS / "zmqraft.md": zmqraft_maps,
    FORMATS / "mpy6a.md": mpy6a_maps,
    FORMATS / "limestone.md": limestone_maps,
}
