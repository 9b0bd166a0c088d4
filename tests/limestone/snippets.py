"""Log files for the tests: a session is an epoch with its entries; what a plain reader makes of the bytes."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import strategies as st

from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.layout import Entry

NUMBERS = st.one_of(st.integers(0, 3), st.integers(0, lay.NUMBER_MAX))
VERSIONS = st.tuples(st.one_of(st.integers(0, 4), NUMBERS), st.integers(0, 3))
KEYS = st.one_of(
    st.binary(max_size=3),
    st.binary(max_size=20),
    st.builds(lambda tail: b"a common beginning" + tail, st.binary(max_size=10)),
    st.sampled_from([b"", b"\0", b"\0\0", b"\0" * 8, b"\0" * 9, b"\xff" * 8, b"\xff" * 9]),
)
PUTS = st.builds(
    lay.put, NUMBERS, KEYS, st.binary(max_size=12), VERSIONS, st.lists(NUMBERS, max_size=3).map(tuple)
)
REMOVES = st.builds(lay.remove, NUMBERS, KEYS, VERSIONS)
STORAGE_OPERATIONS = st.builds(
    Entry, st.sampled_from([7, 8, 9]), NUMBERS, st.just(b""), st.just(b""), VERSIONS
)
ENTRIES = st.one_of(PUTS, REMOVES, STORAGE_OPERATIONS)


@dataclass(frozen=True)
class Session:
    """One snippet. `closed` writes an end marker, `invalidated` a begin marker that does not count."""

    epoch: int
    entries: tuple[Entry, ...]
    closed: bool = True
    invalidated: bool = False

    def encode(self) -> bytes:
        begin = bytearray(lay.encode_begin(self.epoch))
        if self.invalidated:
            begin[0] = lay.INVALIDATED
        end = lay.encode_end(self.epoch) if self.closed else b""
        return bytes(begin) + b"".join(entry.encode() for entry in self.entries) + end


SESSIONS = st.lists(
    st.builds(
        Session,
        st.integers(0, 9),
        st.lists(ENTRIES, max_size=5).map(tuple),
        st.booleans(),
        st.booleans(),
    ),
    max_size=6,
)


def encoded(sessions: list[Session]) -> bytes:
    return b"".join(session.encode() for session in sessions)


@dataclass(frozen=True)
class Read:
    """What a reader that goes record by record sees: snippets with their entries, where and why it stopped."""

    snippets: list[tuple[int, int, int, int, list[tuple[int, Entry]]]]  # offset, end, kind, epoch, entries
    stop: int
    reason: str
    inside: bool


def read_plainly(data: bytes) -> Read:
    """The same as scanning, in the simplest words."""
    at, inside, snippets = 0, False, []
    while at < len(data):
        size, kind = lay.record_size(data, at), data[at]
        if size is None or kind == lay.DURABLE:
            return Read(snippets, at, "type", inside)
        if kind not in (lay.BEGIN, lay.INVALIDATED) and not inside:
            return Read(snippets, at, "outside", inside)
        if at + size > len(data):
            return Read(snippets, at, "cut", inside)
        if kind in (lay.BEGIN, lay.INVALIDATED):
            snippets.append((at, at + size, kind, lay.decode_marker(data, at), []))
            inside = True
        else:
            begin, _, begin_kind, epoch, entries = snippets[-1]
            if kind == lay.END:
                inside = False
            else:
                entries.append((at, lay.decode(data, at)[0]))
            snippets[-1] = (begin, at + size, begin_kind, epoch, entries)
        at += size
    return Read(snippets, at, "edge", inside)
