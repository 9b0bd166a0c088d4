"""The fields of records, descriptors and events that stand in a file."""

from __future__ import annotations

from collections.abc import Iterator

from flintlog.core.fields import MalformedError, Span, Table
from flintlog.core.file_fields import rest
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import operations as ops


def record(view: memoryview, at: int, base: int) -> Iterator[Span]:
    """One record; `base` is where `view` begins in the file."""
    return _filled(lay.RECORD.spans(view, at, base))


def descriptor(view: memoryview, at: int) -> Iterator[Span]:
    return _filled(lay.DESCRIPTOR.spans(view, at))


def _filled(spans: Iterator[Span]) -> Iterator[Span]:
    """The spans without empty names and data."""
    return (span for span in spans if span.begin < span.end)


def log_header(view: memoryview) -> Iterator[Span]:
    return lay.LOG_HEADER.spans(view)


def event(view: memoryview, before: int, begin: int, end: int, *, checked: bool) -> Iterator[Span]:
    """One event, and the zeros in front of it; `before` is where the event before it ends."""
    yield from rest(before, begin, f"{begin - before} zeros up to the end of the frame", "padding")
    for span in (lay.CHECKED_EVENT if checked else lay.EVENT).spans(view[:end], begin):
        if span.name == "payload":
            yield from _payload(view[span.begin : span.end], span.begin)
        else:
            yield span


def _payload(view: memoryview, base: int) -> Iterator[Span]:
    code = int.from_bytes(view[:4], "little")
    kind = ops.KINDS.get(code)
    word = "not the code of an operation" if kind is None else kind.word
    table = Table("little", lay.CODE) if kind is None else kind.payload
    at, end, behind = base, base + len(view), "behind the operation; it has no meaning"
    try:
        for span in _filled(table.spans(view, 0, base, {"code": f"{code}: {word}"})):
            yield span
            at = span.end
    except MalformedError as problem:
        if problem.field == "name":
            yield Span(at, end, "name", lay.shown_name(view[at - base :]))
            return
        behind = f"the bytes end inside {problem.field}" if problem.field else problem.message
    yield from rest(at, end, behind)
