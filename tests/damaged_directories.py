"""Small designed directories with one thing wrong in each, by the code of the finding."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from flintlog import QueueStore, ReplicaLog
from flintlog.dialects.taskflux.layout import (
    DESIGNED,
    END_MARKER,
    ID_MAX,
    LSN_MAX,
    METADATA_MARKER,
    RECORD_MARKER,
    SHIPPED,
    SNAPSHOT_MARKER,
    AddRecord,
    CreateQueue,
    DeleteQueue,
    Delta,
    QueueSpec,
    RemoveRecord,
    crc32_mpeg2,
    encode_delta,
    segment_name,
)

Make = Callable[[Path], None]
SMALL = {"soft_limit": 100, "hard_limit": 200, "snapshot_threshold": 99}
WRONG = b"ABCD"


def plain(root: Path) -> None:
    """One segment with three records."""
    with QueueStore(root) as store:
        for number in range(3):
            store.queue().add(b"payload %d" % number, number)


def segmented(root: Path) -> None:
    """Several segments, no snapshot."""
    with QueueStore(root, **SMALL) as store:
        for number in range(7):
            store.queue().add(b"payload %d" % number * 4, number)


def with_snapshot(root: Path) -> None:
    """A snapshot, the log from some LSN on, and entries behind the snapshot."""
    segmented(root)
    with QueueStore(root, **SMALL) as store:
        store.snapshot()
        for number in range(5):
            store.queue().add(b"behind %d" % number * 4, number)


def log_of(root: Path, *deltas: Delta | bytes, term: int = 1) -> None:
    with ReplicaLog(root) as log:  # written past the check of `append`, which lets no junk in
        log._write([(term, delta if isinstance(delta, bytes) else encode_delta(delta)) for delta in deltas])


def segments(root: Path) -> list[Path]:
    return sorted((root / "data" / "log").iterdir())


def patch(path: Path, at: int, content: bytes) -> None:
    raw = bytearray(path.read_bytes())
    raw[at : at + len(content)] = content
    path.write_bytes(raw)


def flip(path: Path, at: int) -> None:
    patch(path, at, bytes([path.read_bytes()[at] ^ 1]))


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


def checksum(content: bytes) -> bytes:
    return crc32_mpeg2(content, 0, len(content)).to_bytes(4, "big")


def metadata(
    root: Path,
    *,
    marker: bytes = METADATA_MARKER,
    version: int = 2,
    term: int = 1,
    vote: int = -1,
    wrong: bytes = b"",
    size: int = 20,
) -> None:
    plain(root)
    body = struct.pack(">iii", version, term, vote)
    (root / "data" / "tflux.metadata").write_bytes((marker + body + (wrong or checksum(body)))[:size])


def queue(
    name: bytes = b"",
    code: int = 1,
    last_id: int = 0,
    records: tuple[int, ...] = (),
    count: int | None = None,
) -> bytes:
    """A queue of a snapshot's state with empty records of these ids."""
    head = bytes([len(name)]) + name + struct.pack(">iQii", code, last_id, -1, -1) + b"\0"
    head += struct.pack(">i", len(records) if count is None else count)
    return head + b"".join(struct.pack(">Qqi", id_, 0, 0) for id_ in records)


def snapshot(
    root: Path,
    *queues: bytes,
    base: Make = with_snapshot,
    marker: bytes = SNAPSHOT_MARKER,
    index: int = 6,
    term: int = 1,
    length: int | None = None,
    wrong: bytes = b"",
) -> None:
    base(root)
    state = struct.pack(">i", len(queues)) + b"".join(queues)
    header = marker + struct.pack(">iii", index, term, len(state) if length is None else length)
    (root / "data" / "tflux.snapshot").write_bytes(header + state + (wrong or checksum(state)))


def in_segment(root: Path, number: int, change: Callable[..., Any], *arguments: Any) -> None:
    """Several segments, one of them changed."""
    segmented(root)
    change(segments(root)[number], *arguments)


def in_only_segment(root: Path, change: Callable[[Path], Any]) -> None:
    plain(root)
    change(segments(root)[0])


def in_first_record(root: Path, at: int, content: bytes) -> None:
    plain(root)
    patch(segments(root)[0], 8 + at, content)


def torn(root: Path) -> None:
    plain(root)
    newest = segments(root)[-1]
    cut(newest, newest.stat().st_size - 10)


def padded_wrongly(root: Path) -> None:
    log_of(root, AddRecord("", 1, b"12345"), AddRecord("", 1, b"1"))
    (file,) = segments(root)
    patch(file, file.read_bytes().rfind(RECORD_MARKER) - 1, b"\x07")


def stale(root: Path) -> None:
    plain(root)
    (file,) = segments(root)
    file.write_bytes(file.read_bytes() + b"old")


def falling_term(root: Path) -> None:
    log_of(root, AddRecord("", 1, b"1"), term=3)
    log_of(root, AddRecord("", 1, b"2"), term=2)


def overlapping(root: Path) -> None:
    segmented(root)
    second = segments(root)[1]
    second.rename(second.with_name(segment_name(int(second.stem) - 1)))


def near_the_last_lsn(root: Path, first: int = LSN_MAX, records: int = 1) -> None:
    """A shipped directory whose snapshot ends before `first`, where a segment begins."""
    (root / "data" / "log").mkdir(parents=True)
    state = struct.pack(">i", 1) + queue()
    snapshot = SHIPPED.snapshot_header.encode(first - 1, 1, len(state)) + state + checksum(state)
    record = SHIPPED.encode_record(1, encode_delta(AddRecord("", 1, b"x")))
    segment = SHIPPED.segment_header() + record * records + END_MARKER
    (root / "data" / "tflux.metadata").write_bytes(SHIPPED.encode_metadata(1, None))
    (root / "data" / "tflux.snapshot").write_bytes(snapshot)
    (root / "data" / "log" / segment_name(first)).write_bytes(segment)


def beyond_the_last_lsn(root: Path, first: int) -> None:
    """A segment of a log whose name is far too high."""
    segmented(root)
    newest = segments(root)[-1]
    newest.rename(newest.with_name(segment_name(first)))


def without_a_beginning(root: Path) -> None:
    segmented(root)
    segments(root)[0].unlink()


def behind_the_snapshot(root: Path) -> None:
    with_snapshot(root)
    for path in segments(root)[:2]:
        path.unlink()


def left_over(root: Path) -> None:
    with_snapshot(root)
    record = DESIGNED.encode_record(1, b"D\0")
    (root / "data" / "log" / segment_name(0)).write_bytes(DESIGNED.segment_header() + record + END_MARKER)


def without_metadata(root: Path) -> None:
    plain(root)
    (root / "data" / "tflux.metadata").unlink()


def extra(root: Path, name: str) -> None:
    plain(root)
    (root / "data" / name).write_bytes(b"")


def deltas(*wrong: Delta | bytes) -> Make:
    return lambda root: log_of(root, *wrong, AddRecord("", 1, b"after"))


ADD = AddRecord("", 1, b"x")
CREATE = CreateQueue(QueueSpec("a"))

CASES: tuple[tuple[str, Make], ...] = (
    ("torn-tail", torn),
    ("torn-header", partial(in_segment, number=-1, change=lambda path: cut(path, 5))),
    ("record-behind-end", partial(in_first_record, at=0, content=bytes(40))),
    ("stale-bytes", stale),
    ("term-falls", falling_term),
    ("segment-header", partial(in_segment, number=1, change=lambda path: patch(path, 0, WRONG))),
    ("segment-marker", partial(in_segment, number=1, change=lambda path: patch(path, 0, WRONG * 20))),
    ("segment-version", partial(in_segment, number=1, change=lambda path: patch(path, 7, b"\x09"))),
    ("segment-lsn", partial(near_the_last_lsn, records=3)),
    ("log-gap", partial(in_segment, number=1, change=Path.unlink)),
    ("log-overlap", overlapping),
    ("log-emptied", partial(in_only_segment, change=Path.unlink)),
    ("log-emptied", partial(in_only_segment, change=lambda path: path.write_bytes(b""))),
    ("log-emptied", partial(in_only_segment, change=lambda path: path.write_bytes(bytes(100)))),
    ("log-start", behind_the_snapshot),
    ("record-marker", partial(in_first_record, at=0, content=WRONG)),
    (
        "record-cut",
        partial(in_segment, number=0, change=lambda path: cut(path, path.stat().st_size - 10)),
    ),
    ("record-term", partial(in_first_record, at=4, content=bytes(4))),
    ("record-length", partial(in_first_record, at=12, content=b"\xff" * 4)),
    ("record-checksum", partial(in_first_record, at=20, content=WRONG)),
    ("record-padding", padded_wrongly),
    ("delta-empty", deltas(b"")),
    ("delta-unknown-type", deltas(b"X\0")),
    ("delta-queue-name", deltas(b"D\x03a b")),
    ("delta-short", deltas(b"A\0\0")),
    ("delta-short", deltas(b"C\x01a\0")),
    ("delta-queue", deltas(encode_delta(CreateQueue(QueueSpec("a", code=7))))),
    ("delta-duplicate-create", deltas(CREATE, CREATE)),
    ("delta-delete-default", deltas(DeleteQueue(""))),
    ("delta-missing-queue", deltas(CREATE, DeleteQueue("a"), AddRecord("a", 1, b"x"))),
    ("delta-missing-queue", deltas(RemoveRecord("a", 1))),
    ("delta-never-added", deltas(ADD, RemoveRecord("", 9))),
    ("delta-never-added", deltas(ADD, RemoveRecord("", 0))),
    ("delta-no-id", lambda root: snapshot(root, queue(last_id=ID_MAX - 2))),
    ("create-not-logged", deltas(AddRecord("a", 1, b"x"))),
    ("remove-repeated", deltas(ADD, RemoveRecord("", 1), RemoveRecord("", 1))),
    ("delete-missing-queue", deltas(DeleteQueue("a"))),
    ("snapshot-unusable", lambda root: snapshot(root, queue(), base=segmented, wrong=WRONG)),
    ("snapshot-short", lambda root: snapshot(root, queue(), length=1000)),
    ("snapshot-short", lambda root: snapshot(root, queue(count=9))),
    ("snapshot-marker", lambda root: snapshot(root, queue(), marker=WRONG)),
    ("snapshot-index", lambda root: snapshot(root, queue(), index=-2)),
    ("snapshot-term", lambda root: snapshot(root, queue(), term=0)),
    ("snapshot-length", lambda root: snapshot(root, queue(), length=-1)),
    ("snapshot-checksum", lambda root: snapshot(root, queue(), wrong=WRONG)),
    ("snapshot-name", lambda root: snapshot(root, queue(), queue(b"a b"))),
    ("snapshot-count", lambda root: snapshot(root, queue(count=-1))),
    ("snapshot-id", lambda root: snapshot(root, queue(records=(1, 1)))),
    ("snapshot-queue", lambda root: snapshot(root, queue(), queue(b"a", code=7))),
    ("snapshot-queue-twice", lambda root: snapshot(root, queue(), queue())),
    ("snapshot-no-default", lambda root: snapshot(root, queue(b"a"))),
    ("snapshot-conflict", lambda root: snapshot(root, queue(last_id=2), base=plain, index=1, term=5)),
    ("metadata-missing", without_metadata),
    ("metadata-short", partial(metadata, size=6)),
    ("metadata-marker", partial(metadata, marker=WRONG)),
    ("metadata-term", partial(metadata, term=0)),
    ("metadata-vote", partial(metadata, vote=-2)),
    ("metadata-checksum", partial(metadata, wrong=WRONG)),
    ("metadata-version", partial(metadata, version=3)),
    ("leftover", left_over),
    ("leftover", partial(extra, name="temp/x")),
    ("foreign", partial(extra, name="notes.txt")),
)


def numbered(cases: Iterable[tuple[str, Make]]) -> Iterator[tuple[str, str, Make]]:
    """The cases with a name of their own each."""
    seen: dict[str, int] = {}
    for code, make in cases:
        seen[code] = seen.get(code, 0) + 1
        yield f"{code}-{seen[code]}", code, make
