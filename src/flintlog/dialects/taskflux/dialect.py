"""taskflux as the command line and Spark see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from flintlog.core.dialect import ByteField, EntryQuery, Progress, Split
from flintlog.core.finding import Finding, Severity
from flintlog.core.inventory import Inventory
from flintlog.core.plan import Plan
from flintlog.core.position import Position
from flintlog.dialects.taskflux import files
from flintlog.disk import Disk
from flintlog.errors import NotALogError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from flintlog.dialects.taskflux.files import Segment, SegmentFile
    from flintlog.dialects.taskflux.layout import Layout


class Taskflux:
    """Durable priority queues: a segmented Raft log of deltas, a snapshot, metadata."""

    name = "taskflux"
    title = "replicated priority queues (TaskFlux)"

    def recognise(self, disk: Disk, path: str) -> bool:
        return files.locate(disk, path) is not None

    def inspect(self, disk: Disk, path: str) -> Inventory:
        from flintlog.dialects.taskflux.upkeep import verify

        return verify.inspect(disk, _data(disk, path))

    def verify(self, disk: Disk, path: str, progress: Progress) -> Inventory:
        from flintlog.dialects.taskflux.upkeep import verify

        return verify.verify(disk, _data(disk, path), progress)

    def entry_schema(self) -> pa.Schema:
        from flintlog.dialects.taskflux.tables import ENTRY_SCHEMA

        return ENTRY_SCHEMA

    def splits(self, disk: Disk, path: str, query: EntryQuery) -> list[Split]:
        listing = files.list_files(disk, _data(disk, path))
        result = []
        for at, segment in enumerate(listing.segments):
            following = listing.segments[at + 1] if at + 1 < len(listing.segments) else None
            if query.first is not None and following is not None and following.first <= query.first[0]:
                continue
            if query.last is not None and segment.first > query.last[0]:
                break
            result.append(Split(segment.name, 0, segment.size, segment.first))
        return result

    def read_split(self, disk: Disk, path: str, split: Split, query: EntryQuery) -> Iterator[pa.RecordBatch]:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        from flintlog.dialects.taskflux import tables

        data = _data(disk, path)
        layout, segment = _open_segment(disk, data, split.file)
        if segment is None:
            return
        for begin in range(0, len(segment.records), tables.BATCH_RECORDS):
            records = segment.records[begin : begin + tables.BATCH_RECORDS]
            numbers = np.arange(segment.first + begin, segment.first + begin + len(records), dtype=np.int64)
            keep = tables.wanted(records, numbers, query)
            if not keep.all():
                records, numbers = records[keep], numbers[keep]
            if not len(records):
                continue
            batch = tables.entry_batch(segment.view, records, numbers, split.file, layout, query)
            if query.streams is not None:
                batch = batch.filter(pc.is_in(batch["stream"], pa.array(sorted(query.streams), pa.string())))
            if batch.num_rows:
                yield batch
        _refuse_damage(segment, data, query)

    def explain(self, disk: Disk, path: str, query: EntryQuery) -> Iterator[ByteField]:
        from flintlog.dialects.taskflux import explain

        data = _data(disk, path)
        listing = files.list_files(disk, data)
        layout = files.detect_layout(disk, listing)
        if layout is None:
            return
        asked = {split.file for split in self.splits(disk, path, query)}
        for file in listing.segments:
            if file.name in asked:
                segment = files.read_segment(disk, data, file, layout, newest=file is listing.segments[-1])
                yield from explain.explain_header(segment)
                for at in _places(segment, query, data, layout):
                    yield from explain.explain_record(segment, at, layout)
                if query.last is None or query.last[0] > segment.last:
                    yield from explain.explain_end(segment)

    def state_schema(self) -> pa.Schema:
        from flintlog.dialects.taskflux.tables import STATE_SCHEMA

        return STATE_SCHEMA

    def state(self, disk: Disk, path: str, as_of: Position | None) -> Iterator[pa.RecordBatch]:
        from flintlog.dialects.taskflux.tables import state_batches

        if as_of is not None and len(as_of) != 1:
            raise UsageError("a taskflux position is one LSN")
        found = files.survey(disk, _data(disk, path))
        found.refuse_damage()
        return state_batches(found.state(as_of[0] if as_of else None))

    def plan_repair(self, disk: Disk, path: str) -> Plan:
        from flintlog.dialects.taskflux.upkeep.repair import plan_repair

        return plan_repair(disk, _data(disk, path))

    def plan_snapshot(self, disk: Disk, path: str, as_of: Position | None = None) -> Plan:
        from flintlog.dialects.taskflux.upkeep.snapshot import plan_snapshot

        return plan_snapshot(disk, _data(disk, path), as_of[0] if as_of else None)

    def plan_convert(self, disk: Disk, path: str, edition: str, target: str) -> Plan:
        from flintlog.dialects.taskflux.upkeep.convert import plan_convert

        return plan_convert(disk, _data(disk, path), edition, target)


def _data(disk: Disk, path: str) -> str:
    found = files.locate(disk, path)
    if found is None:
        raise NotALogError(
            "this is not a taskflux directory", file=path, advice="Name its root or its data directory"
        )
    return found


def _open_segment(disk: Disk, data: str, name: str) -> tuple[Layout, Segment | None]:
    from flintlog.dialects.taskflux import layout as lay

    listing = files.list_files(disk, data)
    layout = files.detect_layout(disk, listing) or lay.DESIGNED
    file: SegmentFile | None = next((item for item in listing.segments if item.name == name), None)
    if file is None:
        return layout, None  # removed since the splits were made: a snapshot covers it
    return layout, files.read_segment(disk, data, file, layout, newest=file is listing.segments[-1])


def _refuse_damage(segment: Segment, data: str, query: EntryQuery) -> None:
    """Raise when entries that the query asks for may stand behind damage; a torn tail holds none."""
    from flintlog.dialects.taskflux.layout import SEGMENT_HEADER_SIZE

    damage = segment.damage
    if damage is None or damage.torn or damage.code == files.HEADER_DAMAGED:
        return
    if query.last is not None and query.last[0] <= segment.last:
        return
    severity = Severity.UNSUPPORTED if damage.unsupported else Severity.CORRUPT
    in_header = segment.end < SEGMENT_HEADER_SIZE
    message = damage.message if in_header else f"LSN {segment.last + 1}: {damage.message}"
    raise Finding(
        severity, damage.code, message, segment.file.name, segment.end, damage.expected, damage.found
    ).error(data)


def _places(segment: Segment, query: EntryQuery, data: str, layout: Layout) -> list[int]:
    """The places of the records that a query asks for."""
    import numpy as np

    from flintlog.dialects.taskflux import tables

    lsn = np.arange(segment.first, segment.first + len(segment.records), dtype=np.int64)
    places = np.flatnonzero(tables.wanted(segment.records, lsn, query)).tolist()
    if query.streams is None:
        return places
    begin = segment.records.offset + layout.record_header_size + 2
    return [
        at
        for at in places
        if bytes(segment.view[begin[at] : begin[at] + int(segment.records.name_length[at])]).decode(
            "ascii", "replace"
        )
        in query.streams
    ]


DIALECT = Taskflux()
