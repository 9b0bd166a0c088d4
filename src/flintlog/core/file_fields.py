"""Fields that cover every byte of a file. A dialect gives spans, each a place with a meaning; this adds their bytes.

A long span comes in pieces, so that a wrong length takes no memory.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator

from flintlog.core.dialect import ByteField, ByteRange
from flintlog.core.fields import Span
from flintlog.core.live import suppress_gone
from flintlog.disk import Disk
from flintlog.errors import DamageError

PIECE_BYTES = 1 << 16
UNEXPLAINED = "no part of the format"
_LETTERS_SHOWN = 400


def shortened(text: str) -> str:
    """A meaning cut to a few lines."""
    return text if len(text) <= _LETTERS_SHOWN else f"{text[: _LETTERS_SHOWN - 3]}..."


def asked(where: ByteRange | None, begin: int, end: int) -> bool:
    """Does this span touch the range? An empty span may stand at its edge."""
    if where is None:
        return True
    return begin < where.end and end > where.begin if begin < end else where.begin <= begin <= where.end


def file_view(disk: Disk, path: str, name: str, *, copy: bool = False) -> memoryview | None:
    """The bytes of a file; None when there is none."""
    found = []
    with suppress_gone(), disk.open(posixpath.join(path, name)) as file:
        if not file.stat().is_directory:
            found.append(file.view(copy=copy))
    return found[0] if found else None


def fields_of(
    file: str, view: memoryview, spans: Iterable[Span], where: ByteRange | None = None, base: int = 0
) -> Iterator[ByteField]:
    """The spans with their bytes, long ones in pieces; `base` is where `view` begins in the file."""
    for begin, end, name, meaning in spans:
        first, last = begin, end
        if where is not None:
            if not asked(where, begin, end):
                continue
            first += max(where.begin - begin, 0) // PIECE_BYTES * PIECE_BYTES
            last = min(last, where.end)
        if begin == end:
            yield ByteField(file, begin, b"", name, meaning)
        for at in range(first, last, PIECE_BYTES):
            data = bytes(view[at - base : min(at + PIECE_BYTES, end) - base])
            told = meaning if at == begin else f"goes on: byte {at - begin} of {end - begin}"
            yield ByteField(file, at, data, name, told)


def every_byte(
    file: str, view: memoryview, spans: Iterable[Span], where: ByteRange | None = None
) -> Iterator[ByteField]:
    """The spans of a whole file, so that every byte of it, or of a range, is in exactly one field.

    The spans must be in file order. With a range, spans that do not touch it may be missing.
    """
    return fields_of(file, view, _filled(len(view), spans, where), where)


def _filled(size: int, spans: Iterable[Span], where: ByteRange | None) -> Iterator[Span]:
    at = 0 if where is None else where.begin  # all before it has a field, or was not asked for
    end = size if where is None else min(size, where.end)
    told = 0
    try:
        for span in spans:
            if not asked(where, span.begin, span.end):
                told = max(told, min(span.end, size))
                continue
            begin = max(span.begin, told)
            yield from rest(at, begin, UNEXPLAINED)
            if begin < span.end or span.begin == span.end:
                told = max(begin, min(span.end, size))
                yield Span(begin, told, span.name, span.meaning)
            at = max(at, told)
    except DamageError as error:
        yield from damaged(max(at, told), size, error.message, error.expected)
        return
    yield from rest(at, end, UNEXPLAINED)


def rest(begin: int, end: int, meaning: str, name: str = "rest") -> Iterator[Span]:
    """One span for these bytes, unless there are none."""
    if begin < end:
        yield Span(begin, end, name, meaning)


def damaged(begin: int, end: int, message: str, expected: str | None = None) -> Iterator[Span]:
    """One span for bytes that cannot be read."""
    return rest(begin, end, message if expected is None else f"{message}; expected {expected}", "damage")


def leftover(size: int) -> Iterator[Span]:
    """One span for a file that an unfinished operation left; no reader of the format reads it."""
    return rest(0, size, f"{size} bytes, left over from an unfinished operation", "leftover")
