"""TaskFlux directories, read from the design note and the program's bytes with the standard library alone.

`read` takes the files of a directory (relative path and content) and returns what they say, or raises `DamagedError`.
It is strict, as the note is: every file is whole or empty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.independent.pieces import DamagedError, Pieces, crc32_mpeg2, require

_LOG_FILE, _RECORD, _END = bytes.fromhex("1276AD55"), bytes.fromhex("AAF534C4"), bytes(4)
_SNAPSHOT_FILE, _METADATA_FILE = bytes.fromhex("B6380FC9"), bytes.fromhex("5A6EA012")
_SEGMENT = re.compile(r"log/(\d{19})\.log")
_CODES = (1, 2)


@dataclass
class Queue:
    """A queue and its records by id. Records keep the order in which they came."""

    code: int = 1
    max_size: int | None = None
    max_payload: int | None = None
    key_range: tuple[int, int] | None = None
    last_id: int = 0
    records: dict[int, tuple[int, bytes]] = field(default_factory=dict)

    def waiting(self) -> list[tuple[int, int, bytes]]:
        """Id, key and payload of each record: the lowest key first, equal keys as they came."""
        rows = [(id_, key, payload) for id_, (key, payload) in self.records.items()]
        return sorted(rows, key=lambda row: row[1])

    def put(self, id_: int, key: int, payload: bytes) -> None:
        require(id_ not in self.records, f"record {id_} is there twice")
        if self.code == 2:
            low, high = self.key_range or (0, -1)
            require(low <= key <= high, f"key {key} is outside of the queue's range")
        self.records[id_] = key, payload
        self.last_id = max(self.last_id, id_)


@dataclass
class State:
    edition: str
    term: int
    vote: int | None
    snapshot: tuple[int, int] | None  # the last index and term that it covers
    entries: list[tuple[int, int, bytes]]  # index, term, delta: all that the segments hold
    queues: dict[str, Queue]

    @property
    def last(self) -> tuple[int, int]:
        """Index and term of the last entry; (-1, 0) when there never was one."""
        ends = [(index, term) for index, term, _ in self.entries[-1:]]
        return max([*ends, self.snapshot or (-1, 0)])


@dataclass(frozen=True)
class _Edition:
    name: str
    versions: tuple[int, ...]
    word: str  # how a term, or an index of a snapshot, is written
    metadata_size: int
    padded: bool


_DESIGNED = _Edition("designed", (2, 1), ">i", 20, padded=True)
_SHIPPED = _Edition("shipped", (1, 0), ">q", 24, padded=False)


def read(files: Mapping[str, bytes]) -> State:
    """The state of a directory, named by its root or by the `data` in it."""
    if any(name.startswith("data/") for name in files):
        files = {name.removeprefix("data/"): data for name, data in files.items() if name.startswith("data/")}
    told = _edition(files)
    if told is not None:
        return _read(files, told)
    try:
        return _read(files, _SHIPPED)
    except DamagedError:
        return _read(files, _DESIGNED)


def _edition(files: Mapping[str, bytes]) -> _Edition | None:
    """What the metadata or the first segment says, or None where only a layout that fits can tell."""
    metadata = files.get("tflux.metadata", b"")
    if metadata:
        return _DESIGNED if len(metadata) == _DESIGNED.metadata_size else _SHIPPED
    versions = [data[4:8] for name, data in sorted(files.items()) if _SEGMENT.fullmatch(name) and data]
    return _DESIGNED if versions and versions[0] == b"\0\0\0\2" else None


def _read(files: Mapping[str, bytes], edition: _Edition) -> State:
    term, vote = _metadata(files.get("tflux.metadata", b""), edition)
    snapshot, queues = _snapshot(files.get("tflux.snapshot", b""), edition)
    entries: list[tuple[int, int, bytes]] = []
    starts = {int(match[1]): name for name in files if (match := _SEGMENT.fullmatch(name))}
    first = follows = min(starts, default=0)
    for start, name in sorted(starts.items()):
        require(start == follows, f"{name}: the segment should begin at {follows}")
        entries += [(start + at, *record) for at, record in enumerate(_records(files[name], name, edition))]
        follows = first + len(entries)
    covered = snapshot[0] if snapshot else -1
    require(first <= covered + 1, f"the log begins at {first}, the snapshot ends at {covered}")
    for index, _, delta in entries:
        if index > covered:
            _apply(queues, Pieces(delta, f"entry {index}"))
    require("" in queues, "there is no default queue")
    return State(edition.name, term, vote, snapshot, entries, queues)


def _metadata(data: bytes, edition: _Edition) -> tuple[int, int | None]:
    if not data:
        return 1, None
    pieces = Pieces(data, "tflux.metadata")
    require(pieces.take(4) == _METADATA_FILE, "tflux.metadata: another kind of file")
    require(pieces.number(">i") in edition.versions, "tflux.metadata: an unknown version")
    term, vote = pieces.number(edition.word), pieces.number(">i")
    require(term >= 1, f"tflux.metadata: term {term}")
    require(vote >= -1, f"tflux.metadata: vote {vote}")
    summed = data[4 : pieces.at]
    require(pieces.number(">I") == crc32_mpeg2(summed), "tflux.metadata: the checksum does not fit")
    return term, None if vote == -1 else vote


def _records(data: bytes, name: str, edition: _Edition) -> list[tuple[int, bytes]]:
    """Term and delta of each record of a segment."""
    if not data:
        return []
    pieces = Pieces(data, name)
    require(pieces.take(4) == _LOG_FILE, f"{name}: another kind of file")
    require(pieces.number(">i") in edition.versions, f"{name}: an unknown version")
    found = []
    while pieces.left:
        marker = pieces.take(4)
        if marker == _END:
            break
        require(marker == _RECORD, f"{name}: byte {pieces.at - 4}: no record begins here")
        term, crc, size = pieces.number(edition.word), pieces.number(">I"), pieces.number(">i")
        require(term >= 1, f"{name}: byte {pieces.at}: term {term}")
        delta = pieces.take(size)
        require(crc == crc32_mpeg2(delta), f"{name}: byte {pieces.at - size}: the checksum does not fit")
        if edition.padded:
            require(not any(pieces.take(-size % 4)), f"{name}: byte {pieces.at}: padding is not zero")
        found.append((term, delta))
    return found


def _snapshot(data: bytes, edition: _Edition) -> tuple[tuple[int, int] | None, dict[str, Queue]]:
    """Last index and term of the snapshot with its queues. Without one there is the default queue alone."""
    if not data:
        return None, {"": Queue()}
    pieces = Pieces(data, "tflux.snapshot")
    require(pieces.take(4) == _SNAPSHOT_FILE, "tflux.snapshot: another kind of file")
    index, term = pieces.number(edition.word), pieces.number(edition.word)
    require(index >= -1, f"tflux.snapshot: index {index}")
    require(term >= 1, f"tflux.snapshot: term {term}")
    state = pieces.take(pieces.number(">i"))
    require(pieces.number(">I") == crc32_mpeg2(state), "tflux.snapshot: the checksum does not fit")
    if index == -1:
        return None, {"": Queue()}
    return (index, term), _queues(Pieces(state, "the snapshot's state"))


def _queues(pieces: Pieces) -> dict[str, Queue]:
    queues: dict[str, Queue] = {}
    for _ in range(pieces.number(">i")):
        name, code, last_id = _name(pieces), pieces.number(">i"), pieces.number(">Q")
        require(name not in queues, f"queue {name!r} is there twice")
        queue = queues[name] = _limits(pieces, code, flags=(1,))
        queue.last_id = last_id
        for _ in range(pieces.number(">i")):
            id_, key = pieces.numbers(">Qq")
            queue.put(id_, key, pieces.take(pieces.number(">i")))
    return queues


def _limits(pieces: Pieces, code: int, flags: Sequence[int]) -> Queue:
    """Both sizes and the range of keys, which is there after one of these flags."""
    size, payload, flag = pieces.numbers(">iiB")
    range_ = pieces.numbers(">qq") if flag in flags else None
    require(code in _CODES, f"{pieces.what}: implementation {code}")
    require(min(size, payload) >= -1, f"{pieces.what}: a limit below -1")
    require(range_ is not None or code == 1, f"{pieces.what}: implementation 2 needs a range of keys")
    require(range_ is None or range_[0] <= range_[1], f"{pieces.what}: the range of keys is empty")
    return Queue(code, None if size == -1 else size, None if payload == -1 else payload, range_)


def _name(pieces: Pieces) -> str:
    name = pieces.take(pieces.number("B"))
    require(all(0x21 <= byte <= 0x7E for byte in name), f"{pieces.what}: {name!r} names no queue")
    return name.decode("ascii")


def _apply(queues: dict[str, Queue], pieces: Pieces) -> None:
    """One delta. Bytes behind it mean nothing."""
    kind, name = pieces.take(1), _name(pieces)
    if kind == b"C":
        require(name not in queues, f"{pieces.what}: queue {name!r} is there")
        queues[name] = _limits(pieces, pieces.number(">i"), flags=range(1, 256))
    elif kind == b"D":
        queues.pop(name, None)
    else:
        require(kind in (b"A", b"R"), f"{pieces.what}: no delta has the type {kind!r}")
        require(name in queues, f"{pieces.what}: no queue {name!r}")
        queue = queues[name]
        if kind == b"A":
            key = pieces.number(">q")
            queue.put(queue.last_id + 1, key, pieces.take(pieces.number(">i")))
        else:
            id_ = pieces.number(">Q")
            require(id_ in queue.records, f"{pieces.what}: no record {id_}")
            del queue.records[id_]
