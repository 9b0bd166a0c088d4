"""The bytes of a log field by field, for a person who looks at a hex dump."""

from __future__ import annotations

from collections.abc import Iterator

from flintlog.core.dialect import ByteField
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.judge import Tail
from flintlog.dialects.limestone.scan import Snippets

_BYTES_SHOWN = 64
_FIELD_BYTES_MAX = 1 << 16


def explain_begin(view: memoryview, snippets: Snippets, which: int, file: str) -> Iterator[ByteField]:
    """The begin marker of a snippet."""
    at = int(snippets.offset[which])
    dead = int(snippets.kind[which]) == lay.INVALIDATED
    meaning = "a snippet begins that does not count" if dead else "a snippet begins"
    yield ByteField(file, at, bytes(view[at : at + 1]), "type", f"{view[at]}: {meaning}")
    yield ByteField(file, at + 1, bytes(view[at + 1 : at + 9]), "epoch", str(int(snippets.epoch[which])))


def explain_end(view: memoryview, snippets: Snippets, which: int, file: str) -> Iterator[ByteField]:
    """The end marker of a snippet, where it has one."""
    if which < 0 or not snippets.closed[which]:
        return
    at = int(snippets.end[which]) - lay.END_SIZE
    yield ByteField(file, at, bytes(view[at : at + 1]), "type", "3: the snippet ends")
    yield ByteField(file, at + 1, bytes(view[at + 1 : at + 9]), "epoch", str(int(snippets.end_epoch[which])))
    yield ByteField(file, at + 9, bytes(view[at + 9 : at + 10]), "checksum type", "1: none")


def explain_entry(view: memoryview, offset: int, file: str) -> Iterator[ByteField]:
    """One entry; of a long key or value the beginning."""
    at = offset

    def field(size: int, name: str, meaning: str) -> ByteField:
        nonlocal at
        found = ByteField(file, at, bytes(view[at : at + min(size, _FIELD_BYTES_MAX)]), name, meaning)
        at += size
        return found

    def number(size: int) -> int:
        return int.from_bytes(view[at : at + size], "little")

    def shown(size: int) -> str:
        return repr(bytes(view[at : at + min(size, _BYTES_SHOWN)]))[1:]

    kind = int(view[at])
    yield field(1, "type", f"{kind}: {lay.OPERATIONS[kind]}")
    keys = values = 0
    of_keys = kind in (lay.PUT, lay.PUT_BLOBS, lay.REMOVE)
    if of_keys:
        keys = number(4)
        yield field(4, "key length", f"{keys} bytes")
    if kind in (lay.PUT, lay.PUT_BLOBS):
        values = number(4)
        yield field(4, "value length", f"{values} bytes")
    yield field(8, "storage", str(number(8)))
    if of_keys:
        yield field(keys, "key", shown(keys))
    yield field(8, "major", f"version {number(8)}")
    yield field(8, "minor", str(number(8)))
    if kind in (lay.PUT, lay.PUT_BLOBS):
        yield field(values, "value", shown(values))
    if kind == lay.PUT_BLOBS:
        count = number(4)
        yield field(4, "blob count", str(count))
        for _ in range(count):
            yield field(8, "blob", lay.blob_path(number(8)))


def explain_tail(view: memoryview, tail: Tail, file: str) -> ByteField:
    """What stands where the records cannot be read on."""
    word = "torn" if tail.torn else "damage"
    shown = bytes(view[tail.offset : tail.offset + _BYTES_SHOWN])
    return ByteField(file, tail.offset, shown, word, f"{tail.message}; expected {tail.expected}")
