"""The fields of logs, epoch files, manifests, catalogs and blobs."""

from __future__ import annotations

import re
from collections.abc import Iterator

from flintlog.core.dialect import ByteRange
from flintlog.core.fields import Span, shown
from flintlog.core.file_fields import asked, damaged, rest, shortened
from flintlog.core.finding import Severity
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.files import read_epochs
from flintlog.dialects.limestone.judge import Tail
from flintlog.dialects.limestone.scan import Snippets
from flintlog.errors import DamageError

_MEMBER = re.compile(
    rb'"(format_version|instance_uuid|persistent_format_version)"\s*:\s*("[^"]*"|[0-9]+)\s*,?'
)
_MEMBERS = {
    b"format_version": "the form of this file is {}",
    b"instance_uuid": "the instance is {}",
    b"persistent_format_version": "the files of the directory have version {}",
}
_LINES = {
    "COMPACTED_FILE": "{} counts",
    "DETACHED_PWAL": "{} was taken in by a compaction",
    "MAX_EPOCH_ID": "the compacted files hold what is durable up to epoch {}",
    "MAX_BLOB_ID": "{} is the largest blob number so far",
}


# Logs, compacted files, the snapshot


def begin(view: memoryview, snippets: Snippets, which: int) -> Iterator[Span]:
    """The begin marker of a snippet."""
    return lay.TABLES[lay.BEGIN].spans(view, int(snippets.offset[which]))


def end(view: memoryview, snippets: Snippets, which: int) -> Iterator[Span]:
    """The end marker of a snippet, where it has one."""
    if which >= 0 and snippets.closed[which]:
        yield from lay.TABLES[lay.END].spans(view, int(snippets.end[which]) - lay.END_SIZE)


def entry(view: memoryview, offset: int) -> Iterator[Span]:
    return lay.TABLES[view[offset]].spans(view, offset)


def tail(tail: Tail, end: int) -> Span:
    """The bytes behind the last record that can be read, up to `end`."""
    word = "torn" if tail.torn else "damage"
    return Span(tail.offset, end, word, f"{tail.message}; expected {tail.expected}")


# Epoch files


def epochs(view: memoryview, name: str, where: ByteRange | None) -> Iterator[Span]:
    """Which epochs are durable, record by record."""
    _, finding = read_epochs(view, name)
    good = len(view) if finding is None or finding.offset is None else finding.offset
    begin, end = (0, good) if where is None else (where.begin // lay.MARKER_SIZE * lay.MARKER_SIZE, where.end)
    for at in range(begin, min(end, good), lay.MARKER_SIZE):
        yield from lay.TABLES[lay.DURABLE].spans(view, at)
    if finding is not None:
        word = "torn" if finding.severity is Severity.REPAIRABLE else "damage"
        yield Span(good, len(view), word, f"{finding.message}; expected {finding.expected}")


# Manifest and catalog


def manifest(view: memoryview, name: str) -> Iterator[Span]:
    """The text, cut behind each member."""
    raw = bytes(view[: lay.MANIFEST_SIZE_MAX])
    try:
        lay.decode_manifest(raw, name)
    except DamageError as error:
        yield from damaged(0, len(view), f"{error.message} ({error.found})", error.expected)
        return
    found = list(_MEMBER.finditer(raw))
    ends = [*(match.end() for match in found[:-1]), len(view)]
    at = 0
    for match, end in zip(found, ends, strict=True):
        value = match[2].strip(b'"').decode("utf-8", "replace")
        yield Span(at, end, match[1].decode(), shortened(_MEMBERS[match[1]].format(value)))
        at = end


def catalog(view: memoryview, name: str, where: ByteRange | None) -> Iterator[Span]:
    """Line by line, up to the first line that is not valid."""
    raw = bytes(view[: lay.CATALOG_SIZE_MAX])
    problem, good = None, len(raw)
    try:
        lay.decode_catalog(raw, name)
    except DamageError as error:
        problem, good = error, error.offset or 0
    at = 0
    while at < good:
        end = raw.find(b"\n", at, good) + 1 or good
        if asked(where, at, end):
            word, meaning = _line(raw[at:end])
            yield Span(at, end, word, meaning)
        footer = raw[at:end].rstrip(b"\n") == lay.CATALOG_FOOTER.encode()
        at = end
        if footer:
            break
    if problem is not None:
        yield from damaged(at, len(view), f"{problem.message}: {problem.found}", problem.expected)
    else:
        yield from rest(at, len(view), "behind the footer; ignored")


def _line(raw: bytes) -> tuple[str, str]:
    word, *values = raw.decode("utf-8", "replace").split() or ["line"]
    if word in _LINES and values:
        return word, shortened(_LINES[word].format(values[0]))
    known = {
        lay.CATALOG_HEADER: ("header", "a catalog begins"),
        lay.CATALOG_FOOTER: ("footer", "the catalog is whole"),
    }
    return known.get(word, ("line", "empty; ignored"))


# Blobs


def blob(view: memoryview, name: str) -> Iterator[Span]:
    """One value."""
    number = int(name.rpartition("/")[2].partition(".")[0], 16)
    meaning = f"blob {number}, {len(view)} bytes: {shown(view)}"
    yield Span(0, len(view), "blob", meaning)
