"""What the original program recorded for a golden case, in the words of our own model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tests.golden_cases import expected

from flintlog.dialects.taskflux.layout import QueueSpec, layout_of
from flintlog.dialects.taskflux.store import QueueStore
from flintlog.dialects.taskflux.survey import Survey

Row = tuple[int, int, bytes]  # id, key, payload


class Logged(NamedTuple):
    """One entry of a log."""

    lsn: int
    term: int
    checksum: int
    data: bytes


class Shown(NamedTuple):
    """One queue: what it is and its records in an order that the caller names."""

    spec: QueueSpec
    last_id: int
    records: list[Row]


def recorded(case: str) -> dict[str, Any]:
    """What the original said when it opened the directory."""
    found: dict[str, Any] = expected(case)["real_code_open"]
    return found


def recorded_entries(case: str) -> list[Logged]:
    """The log as the original read it."""
    return [
        Logged(entry["index"], entry["term"], int(entry["crc"], 16), bytes.fromhex(entry["data"]))
        for entry in recorded(case)["entries"]
    ]


def recorded_queues(queues: list[dict[str, Any]], order: str) -> dict[str, Shown]:
    """Queues by name; `order` names the list of records in the recording."""
    return {queue["name"]: _shown(queue, order) for queue in queues}


def _shown(queue: dict[str, Any], order: str) -> Shown:
    key_range = queue["priority_range"]
    spec = QueueSpec(
        queue["name"],
        queue["code"],
        queue["max_queue_size"],
        queue["max_payload_size"],
        tuple(key_range) if key_range else None,
    )
    rows = [(row["id"], row["priority"], bytes.fromhex(row["payload"])) for row in queue[order]]
    return Shown(spec, queue["last_id"], rows)


def surveyed_entries(found: Survey) -> Iterator[Logged]:
    """The log as Flintlog reads it, without opening it for writing."""
    header = layout_of(found.layout.edition).record_header_size
    for segment in found.segments:
        records = segment.records
        for at in range(len(records)):
            begin = int(records.offset[at]) + header
            data = bytes(segment.view[begin : begin + int(records.length[at])])
            yield Logged(segment.first + at, int(records.term[at]), int(records.checksum[at]), data)


def taken_out(store: QueueStore) -> dict[str, Shown]:
    """Every queue with its records in the order in which `take` hands them out."""
    result = {}
    for queue in store:
        rows = [(one.id, one.key, one.payload) for one in iter(queue.take, None)]
        result[queue.name] = Shown(queue.spec, queue.last_id, rows)
    return result
