"""Write a directory anew in the other edition, prove the two equal, and only then give it its name.

Entries keep their LSNs, terms and bytes; only the bytes around them change. Everything is written to
`<target>.new`, read back, compared entry by entry and state by state, and renamed.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import Any

import numpy as np

from flintlog.columns.compile import kernel
from flintlog.columns.gather import gather, offsets_of
from flintlog.core.new_place import new_place, refuse_taken
from flintlog.core.plan import Plan, Step
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux.files import Segment
from flintlog.dialects.taskflux.layout import Layout, Metadata
from flintlog.dialects.taskflux.scan import Records
from flintlog.dialects.taskflux.snapshot import encode_snapshot
from flintlog.dialects.taskflux.state import State
from flintlog.dialects.taskflux.survey import Survey, survey
from flintlog.disk import Disk
from flintlog.errors import RefusedError

_BATCH = 1 << 16


@kernel
def _fill(
    out: Any, start: Any, term_size: int, term: Any, checksum: Any, data: Any, length: Any, buffer: Any
) -> None:
    for index in range(len(start)):
        at = start[index]
        out[at] = 0xAA
        out[at + 1] = 0xF5
        out[at + 2] = 0x34
        out[at + 3] = 0xC4
        for byte in range(term_size):
            out[at + 4 + byte] = (term[index] >> (8 * (term_size - 1 - byte))) & 255
        at += 4 + term_size
        for byte in range(4):
            out[at + byte] = (checksum[index] >> (24 - 8 * byte)) & 255
            out[at + 4 + byte] = (length[index] >> (24 - 8 * byte)) & 255
        size = length[index]
        if size > 0:
            out[at + 8 : at + 8 + size] = buffer[data[index] : data[index] + size]


def _reencoded(segment: Segment, old: Layout, new: Layout) -> Iterator[bytes | bytearray]:
    """The segment's file in the new layout, in chunks."""
    yield new.segment_header()
    source = np.frombuffer(segment.view, np.uint8)
    for begin in range(0, len(segment.records), _BATCH):
        records = segment.records[begin : begin + _BATCH]
        starts = offsets_of(new.record_header_size + records.length + (-records.length % new.alignment))
        chunk = bytearray(int(starts[-1]))
        _fill.run(
            len(chunk),
            np.frombuffer(chunk, np.uint8),
            starts[:-1],
            new.term_size,
            records.term,
            records.checksum.astype(np.int64),
            records.offset + old.record_header_size,
            records.length,
            source,
        )
        yield chunk
    yield lay.END_MARKER


def plan_migrate(disk: Disk, data: str, edition: str, target: str) -> Plan:
    """Write `data` in `edition` to `target`, an empty or a new root."""
    new = lay.layout_of(edition)
    found = survey(disk, data, read_all=True)
    found.refuse_damage()
    if found.layout is new:
        raise RefusedError(f"this directory is of the {edition} edition already", file=data)
    refuse_taken(disk, target)
    _check_fits(found, new)
    steps = [
        Step("write", segment.file.name, f"{len(segment.records)} entries, edition {edition}")
        for segment in found.segments
    ]
    steps.append(Step("write", lay.METADATA_FILE, f"edition {edition}"))
    if found.has_snapshot:
        steps.append(Step("write", lay.SNAPSHOT_FILE, f"state at LSN {found.base.index}, edition {edition}"))
    steps.append(Step("publish", target, "after both states were read and found equal"))

    def act(disk: Disk) -> str:
        with new_place(disk, target) as building:
            _write(disk, found, new, posixpath.join(building, "data"))
            _prove(found, survey(disk, posixpath.join(building, "data"), layout=new, read_all=True))
        return f"{target} holds the same {found.last - found.first + 1} entries and the same state in edition {edition}"

    return Plan(
        "migrate",
        "taskflux",
        data,
        tuple(steps),
        act,
        written_bytes=sum(segment.file.size for segment in found.segments),
        publishes=True,
        disk=disk,
    )


def _check_fits(found: Survey, new: Layout) -> None:
    top = max(
        [found.base.term, found.metadata.term if found.metadata else 1]
        + [int(segment.records.term.max(initial=1)) for segment in found.segments]
    )
    if top > new.term_max or (found.has_snapshot and found.base.index > new.term_max):
        raise RefusedError(
            f"term {top} or snapshot LSN {found.base.index} does not fit the {new.edition} edition",
            file=found.listing.data,
            advice="Keep this directory in its own edition",
        )


def _write(disk: Disk, found: Survey, new: Layout, data: str) -> None:
    log = posixpath.join(data, lay.LOG_DIRECTORY)
    disk.make_passing_directory(log)  # `new_place` syncs its name
    disk.make_passing_directory(posixpath.join(data, new.scratch))
    for segment in found.segments:
        disk.write_new(posixpath.join(data, segment.file.name), _reencoded(segment, found.layout, new))
    if not found.segments:  # a log always has one
        path = posixpath.join(log, lay.segment_name(found.base.index + 1))
        disk.write_new(path, [new.segment_header(), lay.END_MARKER])
    disk.sync_directory(log)
    base = found.base
    snapshot: Iterator[bytes | bytearray] = iter(())
    if found.has_snapshot:
        snapshot = encode_snapshot(State(base.index, base.term, base.queues, base.buffer, ()), new)
    disk.write_new(posixpath.join(data, lay.SNAPSHOT_FILE), snapshot)
    metadata = _metadata(found)
    encoded = new.encode_metadata(metadata.term, metadata.vote)
    disk.write_new(posixpath.join(data, lay.METADATA_FILE), [encoded])
    disk.sync_directory(data)


def _metadata(found: Survey) -> Metadata:
    """Term and vote; if the file is empty or missing, those that opening would write."""
    return found.metadata or Metadata(found.next_term)


def _prove(old: Survey, new: Survey) -> None:
    """Raise unless entries, metadata and state are equal."""
    new.refuse_damage()
    same = _metadata(old) == new.metadata
    written = new.segments if old.segments else []
    same = same and [segment.first for segment in old.segments] == [segment.first for segment in written]
    same = same and all(
        _same_entries(a, b, old.layout, new.layout) for a, b in zip(old.segments, written, strict=True)
    )
    if not (same and same_state(old.state(), new.state())):
        raise RefusedError(
            "the converted directory does not hold the same as the original; it was not published",
            file=new.listing.data,
            advice="This is a defect of Flintlog; the original was not touched",
        )


def _same_entries(a: Segment, b: Segment, old: Layout, new: Layout) -> bool:
    same_columns = all(
        np.array_equal(getattr(a.records, name), getattr(b.records, name))
        for name in ("term", "checksum", "length")
    )
    return same_columns and _data(a.view, a.records, old) == _data(b.view, b.records, new)


def _data(view: memoryview, records: Records, layout: Layout) -> bytearray:
    zeros = np.zeros(len(records), np.int32)
    return gather([view], zeros, records.offset + layout.record_header_size, records.length)[0]


def same_state(a: State, b: State) -> bool:
    """Do two states hold the same queues with the same records in the same order?"""
    if (a.index, a.term, len(a.queues)) != (b.index, b.term, len(b.queues)):
        return False
    return all(
        x.spec == y.spec
        and x.last_id == y.last_id
        and np.array_equal(x.records.id, y.records.id)
        and np.array_equal(x.records.key, y.records.key)
        and np.array_equal(x.records.payload_length, y.records.payload_length)
        and _payloads(a, x.records) == _payloads(b, y.records)
        for x, y in zip(a.queues, b.queues, strict=True)
    )


def _payloads(state: State, records: Any) -> bytearray:
    buffers = [*(source.buffer for source in state.sources), state.snapshot]
    return gather(buffers, records.source, records.payload, records.payload_length)[0]
