"""The directory of a zmq-raft peer, read from the design note and the program's bytes with the standard library alone.

`read` takes the files of a directory (relative path and content) and returns what they say, or raises `DamagedError`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.independent.pieces import DamagedError, Pieces, require

_INDEX_FILE = re.compile(r"log/([0-9a-f]{5})/([0-9a-f]{2})/([0-9a-f]{2})/([0-9a-f]{14})\.rlog")
_CAPACITY_MAX = 0x00FFFFFF
_DATA_SIZE_MAX = 0x3FFFFFFF
_MOST = 2**53 - 1  # the greatest index, term or size
_HEADER_SIZE = 20
_RAFT_STATE: dict[str, Any] = {
    "currentTerm": 0,
    "votedFor": None,
    "peers": [],
    "peersUpdateRequest": None,
    "peersIndex": None,
}


@dataclass(frozen=True)
class Entry:
    index: int
    term: int
    kind: int  # 0 state, 1 config, 2 checkpoint
    request_id: bytes
    data: bytes


@dataclass(frozen=True)
class State:
    snapshot: tuple[int, int, bytes]  # index, term, data
    entries: list[Entry]  # those behind the snapshot
    covered: list[Entry]  # those at or before it that index files still hold
    raft: dict[str, Any]
    applied: int

    @property
    def last_index(self) -> int:
        return self.snapshot[0] + len(self.entries)


def read(files: Mapping[str, bytes]) -> State:
    """The state of a peer's directory."""
    snapshot = _snapshot(files["snap"]) if "snap" in files else (0, 0, b"")
    first, entries = _log(files)
    covers = f"the snapshot ends at {snapshot[0]}"
    if first is not None:
        require(first <= snapshot[0] + 1, f"the log begins at {first}, {covers}")
        require(
            first + len(entries) > snapshot[0], f"the log has {len(entries)} entries from {first}, {covers}"
        )
    raft = _state_file(files.get("raft.pers", b""), "raft.pers", _RAFT_STATE)
    machine = _state_file(files.get("state.pers", b""), "state.pers", {"lastApplied": 0})
    require(_is_number(raft["currentTerm"]), f"raft.pers: currentTerm is {raft['currentTerm']!r}")
    require(raft["votedFor"] is None or isinstance(raft["votedFor"], str), "raft.pers: votedFor is no name")
    require(_is_number(machine["lastApplied"]), f"state.pers: lastApplied is {machine['lastApplied']!r}")
    return State(
        snapshot,
        [entry for entry in entries if entry.index > snapshot[0]],
        [entry for entry in entries if entry.index <= snapshot[0]],
        raft,
        machine["lastApplied"],
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST


# Token files


def _behind(pieces: Pieces, token: bytes) -> bytes:
    """Skip segments up to the empty one that marks the payload; all that follows it."""
    while True:
        found, size = pieces.take(4), pieces.number("<I")
        if found == token:
            require(size == 0, f"{pieces.what}: {token.decode()} is not empty")
            return pieces.data[pieces.at :]
        pieces.take(size + -size % 4)


# The log


def _log(files: Mapping[str, bytes]) -> tuple[int | None, list[Entry]]:
    """Where the log begins, and its entries. Each file but the last is full; the next one begins where it ends."""
    begin: int | None = None
    follows: int | None = None
    entries: list[Entry] = []
    for name in sorted(files):
        match = _INDEX_FILE.fullmatch(name)
        if match is None:
            continue
        require(
            match[4].startswith(match[1] + match[2] + match[3]), f"{name}: it stands in the wrong directory"
        )
        first = int(match[4], 16)
        begin = first if begin is None else begin
        require(follows in (None, first), f"{name}: it should begin at {follows}")
        require(begin + len(entries) == first, f"{name}: entries before it are missing")
        capacity, found = _index_file(files[name], name, first)
        entries += found
        follows = first + capacity
    return begin, entries


def _index_file(data: bytes, name: str, first: int) -> tuple[int, list[Entry]]:
    """The number of slots of a file, and its entries."""
    pieces = Pieces(data, name)
    token, size, version, capacity, index = pieces.numbers("<4sIIIQ")
    require(token == b"RLOG", f"{name}: another kind of file")
    require(version == 1, f"{name}: version {version}")
    require(0 < capacity <= _CAPACITY_MAX, f"{name}: a capacity of {capacity}")
    require(size == 16 + 4 * capacity, f"{name}: the header has {size} bytes for {capacity} slots")
    require(index == first <= _MOST, f"{name}: the first index is {index}")
    ends = list(pieces.numbers(f"<{capacity}I"))
    payload = Pieces(_behind(pieces, b"ITMZ"), name)
    entries: list[Entry] = []
    for end in ends[: ends.index(0)] if 0 in ends else ends:
        require(
            payload.at < end <= _DATA_SIZE_MAX,
            f"{name}: slot {len(entries)}: the offset {end} is out of order",
        )
        entries.append(_entry(first + len(entries), payload.take(end - payload.at), name))
    return capacity, entries


def _entry(index: int, data: bytes, name: str) -> Entry:
    require(len(data) >= _HEADER_SIZE, f"{name}: entry {index} has {len(data)} bytes")
    term = int.from_bytes(data[13:20], "little")
    require(term <= _MOST, f"{name}: entry {index} has term {term}")
    return Entry(index, term, data[12], data[:12], data[20:])


# The snapshot


def _snapshot(data: bytes) -> tuple[int, int, bytes]:
    pieces = Pieces(data, "snap")
    token, size, version, index, term, length = pieces.numbers("<4sIIQQQ")
    require(token == b"SNAP", "snap: another kind of file")
    require(
        size in (28, 36), f"snap: the header has {size} bytes"
    )  # the note counts the segment's own 8 bytes
    require(version == 1, f"snap: version {version}")
    require(max(index, term, length) <= _MOST, "snap: a number beyond 2^53 - 1")
    content = _behind(pieces, b"DATA")
    require(len(content) == length, f"snap: {len(content)} bytes of data, {length} are told")
    return index, term, content


# State files


def _state_file(data: bytes, name: str, defaults: dict[str, Any]) -> dict[str, Any]:
    """The defaults, and over them each object in the order of the file. Keys of others are nobody's."""
    state = dict(defaults)
    pieces = Pieces(data, name)
    while pieces.left:
        found = _message(pieces)
        require(found is None or isinstance(found, dict | list), f"{name}: byte {pieces.at}: no object")
        if isinstance(found, dict):
            state.update((key, value) for key, value in found.items() if key in defaults)
    return state


_FLOATS = {0xCA: ">f", 0xCB: ">d"}
_UNSIGNED = {0xCC: ">B", 0xCD: ">H", 0xCE: ">I", 0xCF: ">Q"}
_SIGNED = {0xD0: ">b", 0xD1: ">h", 0xD2: ">i", 0xD3: ">q"}
_FIXED = _FLOATS | _UNSIGNED | _SIGNED
_TEXTS = {0xD9: ">B", 0xDA: ">H", 0xDB: ">I"}
_BINARIES = {0xC4: ">B", 0xC5: ">H", 0xC6: ">I"}
_LISTS = {0xDC: ">H", 0xDD: ">I"}
_MAPS = {0xDE: ">H", 0xDF: ">I"}


def _message(pieces: Pieces) -> Any:
    """One MessagePack value. A whole number that is written as a fraction is a number."""
    kind = pieces.take(1)[0]
    if kind < 0x80:
        return kind
    if kind >= 0xE0:
        return kind - 0x100
    if kind < 0x90:
        return _map(pieces, kind & 0x0F)
    if kind < 0xA0:
        return [_message(pieces) for _ in range(kind & 0x0F)]
    if kind < 0xC0:
        return _text(pieces, kind & 0x1F)
    if kind in _FIXED:
        [number] = pieces.numbers(_FIXED[kind])
        return int(number) if isinstance(number, float) and number.is_integer() else number
    if kind in _TEXTS:
        return _text(pieces, pieces.number(_TEXTS[kind]))
    if kind in _BINARIES:
        return pieces.take(pieces.number(_BINARIES[kind]))
    if kind in _LISTS:
        return [_message(pieces) for _ in range(pieces.number(_LISTS[kind]))]
    if kind in _MAPS:
        return _map(pieces, pieces.number(_MAPS[kind]))
    simple = {0xC0: None, 0xC2: False, 0xC3: True}
    require(kind in simple, f"{pieces.what}: byte {pieces.at - 1}: {kind:#x} begins no value of a state")
    return simple[kind]


def _map(pieces: Pieces, count: int) -> dict[Any, Any]:
    found = {}
    for _ in range(count):
        key = _message(pieces)
        require(isinstance(key, str), f"{pieces.what}: byte {pieces.at}: a key that is no text")
        found[key] = _message(pieces)
    return found


def _text(pieces: Pieces, size: int) -> str:
    try:
        return pieces.take(size).decode()
    except UnicodeDecodeError as error:
        raise DamagedError(f"{pieces.what}: byte {pieces.at}: {error}") from error
