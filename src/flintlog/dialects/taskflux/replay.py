"""From entries to state: the one replay of the live store, the snapshot writer, the command line and Spark.

Ids are not in the log: the n-th A of a queue gets the queue's last id plus n. A queue that is deleted and made
again is another *life* of its name and counts from 1 again. Replay never reads payloads; the result points to them.

Three things that the original program writes and cannot read back have one clear meaning each. Replay notes them and
goes on:
- A for a queue that was never created (it does not log creations): the queue is made, without limits;
- R for an id that was given out and is gone (it logs one removal twice, and leaves records in flight out of
  its snapshots): nothing is left to remove;
- D for a queue that is not there: nothing is left to delete.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flintlog.columns.compile import kernel
from flintlog.core.finding import Finding
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux.findings import CODES
from flintlog.dialects.taskflux.layout import QueueSpec
from flintlog.dialects.taskflux.scan import DELTA_PROBLEMS
from flintlog.dialects.taskflux.state import Base, Ids, Ints, Pointers, QueueState, Source, State
from flintlog.errors import DamageError

_C, _D, _A, _R = b"CDAR"
_DEFAULT = 0  # the code of the default queue's name
NO_LIFE = -1
NEVER = -2
# Unsigned like the ids: compiled code would make a float of an id and a plain number.
_ONE = np.uint64(1)
_LAST = np.uint64(lay.ID_MAX)

# What the first pass says of an entry.
_BAD_DELTA = 1
_CREATE_TWICE = 2
_DELETE_DEFAULT = 3
_QUEUE_GONE = 4
_NEVER_ADDED = 5
_NOTE_MADE = 6
_NOTE_NO_QUEUE = 7
NOTE_GONE = 8
_NO_ID_LEFT = 9
_ERRORS = {
    _CREATE_TWICE: ("delta-duplicate-create", "creates a queue that is there already"),
    _DELETE_DEFAULT: ("delta-delete-default", "deletes the default queue, which is always there"),
    _QUEUE_GONE: ("delta-missing-queue", "works on a queue that is not there"),
    _NEVER_ADDED: ("delta-never-added", "removes an id that was never given out"),
    _NO_ID_LEFT: ("delta-no-id", "adds to a queue that has given out its last id"),
}
_NOTES = {
    _NOTE_MADE: (
        "create-not-logged",
        "adds to a queue whose creation is not in the log; made without limits",
    ),
    _NOTE_NO_QUEUE: ("delete-missing-queue", "deletes a queue that is not there; ignored"),
    NOTE_GONE: ("remove-repeated", "removes a record that is gone already; ignored"),
}


@kernel
def _name_codes(buffer: Any, start: Any, length: Any, code: Any, table: Any, shown: Any) -> int:
    """Number the distinct names; `shown` gets the first record with each. -1 when the table is too small."""
    mask = len(table) - 1
    distinct = 0
    for index in range(len(start)):
        begin = start[index]
        size = int(length[index])
        value = size
        for at in range(begin, begin + size):
            value = (value * 31 + int(buffer[at])) & 0x3FFFFFFFFFFFFF
        slot = (value ^ (value >> 17)) & mask
        while True:
            other = table[slot]
            if other < 0:
                if 2 * distinct >= len(table):
                    return -1
                table[slot] = distinct
                shown[distinct] = index
                code[index] = distinct
                distinct += 1
                break
            first = shown[other]
            same = int(length[first]) == size
            if same:
                there = start[first]
                for at in range(size):
                    if buffer[there + at] != buffer[begin + at]:
                        same = False
                        break
            if same:
                code[index] = other
                break
            slot = (slot + 1) & mask
    return distinct


def _names_of(source: Source, header_size: int) -> tuple[NDArray[np.int32], list[str]]:
    """A code for each record's queue name, and the names."""
    records = source.records
    start = records.offset + header_size + 2
    length = np.where(records.operation > 0, records.name_length, 0).astype(np.int64)
    code = np.zeros(len(records), np.int32)
    slots = 1 << 10
    while True:
        table = np.full(slots, -1, np.int32)
        shown = np.empty(slots // 2 + 1, np.int64)
        distinct = _name_codes.run(16 * len(records), source.buffer, start, length, code, table, shown)
        if distinct >= 0:
            break
        slots *= 16
    names = [
        bytes(source.buffer[start[at] : start[at] + length[at]]).decode("ascii")
        for at in shown[:distinct].tolist()
    ]
    return code, names


@kernel
def first_pass(
    operation: Any,
    queue: Any,
    number: Any,
    good: Any,
    life_of: Any,
    first_id: Any,
    last_id: Any,
    born: Any,
    life: Any,
    id_: Any,
    say: Any,
) -> tuple[int, int]:
    """Give every entry its life and its id. Stops at the first error. Returns how many entries are done, and lives."""
    lives = 0
    for name in range(len(life_of)):
        if life_of[name] >= lives:
            lives = life_of[name] + 1
    for index in range(len(operation)):
        kind = operation[index]
        name = queue[index]
        now = life_of[name]
        life[index] = -1
        if not good[index]:
            say[index] = _BAD_DELTA
            return index, lives
        if kind == _C:
            if now >= 0:
                say[index] = _CREATE_TWICE
                return index, lives
            born[lives] = index
            life_of[name] = lives
            last_id[lives] = 0
            lives += 1
        elif kind == _D:
            if name == _DEFAULT:
                say[index] = _DELETE_DEFAULT
                return index, lives
            if now < 0:
                say[index] = _NOTE_NO_QUEUE
            life_of[name] = NO_LIFE
        elif kind == _A:
            if now == NO_LIFE:
                say[index] = _QUEUE_GONE
                return index, lives
            if now == NEVER:
                say[index] = _NOTE_MADE
                now = lives
                born[lives] = -1
                life_of[name] = now
                last_id[now] = 0
                lives += 1
            if last_id[now] == _LAST:
                say[index] = _NO_ID_LEFT
                return index, lives
            last_id[now] += _ONE
            life[index] = now
            id_[index] = last_id[now]
        else:
            if now < 0:
                say[index] = _QUEUE_GONE
                return index, lives
            removed = np.uint64(number[index])
            if removed < first_id[now] or removed > last_id[now]:
                say[index] = _NEVER_ADDED
                return index, lives
            life[index] = now
            id_[index] = removed
    return len(operation), lives


@kernel
def second_pass(
    operation: Any,
    life: Any,
    id_: Any,
    base_last: Any,
    base_start: Any,
    base_id: Any,
    base_live: Any,
    live: Any,
    say: Any,
) -> None:
    """Mark what is still there: added entries in `live`, records of the snapshot in `base_live`.

    `base_id` holds the ids of each life's snapshot records in ascending order, from base_start[life] on.
    """
    lives = len(base_last)
    begin = np.zeros(lives + 1, np.int64)
    for index in range(len(operation)):
        if operation[index] == _A:
            begin[life[index] + 1] += 1
    for at in range(lives):
        begin[at + 1] += begin[at]
    added = np.empty(begin[lives], np.int64)
    for index in range(len(operation)):
        now = life[index]
        if operation[index] == _A:
            # The ids a life gives out are consecutive, so an id is an index.
            added[begin[now] + np.int64(id_[index] - base_last[now]) - 1] = index
            live[index] = 1
        elif operation[index] == _R:
            gone = id_[index]
            if gone > base_last[now]:
                at = added[begin[now] + np.int64(gone - base_last[now]) - 1]
                if live[at]:
                    live[at] = 0
                else:
                    say[index] = NOTE_GONE
            else:
                low = base_start[now]
                high = base_start[now + 1]
                while low < high:
                    middle = (low + high) // 2
                    if base_id[middle] < gone:
                        low = middle + 1
                    else:
                        high = middle
                if low < base_start[now + 1] and base_id[low] == gone and base_live[low]:
                    base_live[low] = 0
                else:
                    say[index] = NOTE_GONE


class Table:
    """The entries of all sources as one table, with names numbered over all of them."""

    def __init__(self, base: Base, sources: Sequence[Source], header_size: int) -> None:
        self.names: dict[str, int] = {lay.DEFAULT_QUEUE: _DEFAULT}
        for queue in base.queues:
            self.names.setdefault(queue.spec.name, len(self.names))
        codes = []
        for source in sources:
            code, found = _names_of(source, header_size)
            wide = np.array([self.names.setdefault(name, len(self.names)) for name in found], np.int32)
            codes.append(wide[code] if found else code)
        self.sources = sources
        self.queue = _joined(codes, np.int32)
        self.operation = _joined([source.records.operation for source in sources], np.uint8)
        self.number = _joined([source.records.number for source in sources], np.int64)
        self.problem = _joined([source.records.problem for source in sources], np.uint8)
        self.payload = _joined([source.records.payload for source in sources], np.int64)
        self.payload_length = _joined([source.records.payload_length for source in sources], np.int64)
        self.bounds = np.cumsum([0, *(len(source.records) for source in sources)])

    def place(self, index: int) -> tuple[Source, int]:
        """The source of an entry, and its place in it."""
        at = int(np.searchsorted(self.bounds, index, side="right")) - 1
        return self.sources[at], index - int(self.bounds[at])

    def error(self, index: int, code: str, message: str) -> DamageError:
        """The error for an entry that fits no state."""
        source, at = self.place(index)
        offset = int(source.records.offset[at])
        return DamageError(f"LSN {source.first + at}: {message}", code=code, file=source.name, offset=offset)

    def note(self, index: int, what: int) -> Finding:
        """The finding for an odd entry, and how it was read."""
        return CODES.of(self.error(index, *_NOTES[what]))


def _joined(parts: list[Any], dtype: Any) -> Any:
    return np.concatenate(parts) if parts else np.empty(0, dtype)


def replay(base: Base, sources: Sequence[Source], layout: lay.Layout) -> State:
    """The state after the last entry of `sources`, which follow the base without a gap."""
    table = Table(base, sources, layout.record_header_size)
    count = len(table.operation)
    creates = int(np.count_nonzero(table.operation == _C))
    lives_max = len(base.queues) + creates + len(table.names)
    life_of = np.full(len(table.names), NEVER, np.int32)
    base_last = np.zeros(lives_max, np.uint64)
    first_id = np.ones(lives_max, np.uint64)
    born = np.full(lives_max, -1, np.int64)
    for life, queue in enumerate(base.queues):
        life_of[table.names[queue.spec.name]] = life
        base_last[life], first_id[life] = queue.last_id, queue.first_id
    last_id = base_last.copy()
    life_by_entry = np.empty(count, np.int32)
    id_ = np.zeros(count, np.uint64)
    say = np.zeros(count, np.uint8)

    size = 16 * count
    done, lives = first_pass.run(
        size,
        table.operation,
        table.queue,
        table.number,
        table.problem == 0,
        life_of,
        first_id,
        last_id,
        born,
        life_by_entry,
        id_,
        say,
    )
    if done < count:
        raise first_error(table, int(done), int(say[done]))

    base_start, base_order, base_id = base_index(base, lives)
    base_live = np.ones(len(base_id), np.uint8)
    live = np.zeros(count, np.uint8)
    second_pass.run(
        size,
        table.operation,
        life_by_entry,
        id_,
        base_last[:lives],
        base_start,
        base_id,
        base_live,
        live,
        say,
    )
    survivors = np.empty(len(base_live), bool)
    survivors[base_order] = base_live.astype(bool)

    specs = _specs(base, table, born, life_of, layout)
    queues = _collect(base, table, survivors, live.astype(bool), life_by_entry, id_, last_id, specs)
    notes = tuple(table.note(int(at), int(say[at])) for at in np.flatnonzero(say)[:NOTES_MAX])
    index, term = (base.index, base.term) if not count else _last(table)
    return State(index, term, queues, base.buffer, tuple(sources), notes)


NOTES_MAX = 1000


def _last(table: Table) -> tuple[int, int]:
    source, at = table.place(len(table.operation) - 1)
    return source.first + at, int(source.records.term[at])


def first_error(table: Table, index: int, what: int) -> DamageError:
    if what == _BAD_DELTA:
        return table.error(index, *DELTA_PROBLEMS[int(table.problem[index])])
    return table.error(index, *_ERRORS[what])


def base_index(base: Base, lives: int) -> tuple[Ints, Ints, Ids]:
    """For each life where its snapshot records begin, and all of them by (life, id)."""
    counts = np.zeros(lives, np.int64)
    counts[: len(base.queues)] = [len(queue.records) for queue in base.queues]
    start = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
    order = np.concatenate(
        [
            np.empty(0, np.int64),
            *(np.argsort(queue.records.id) + begin for queue, begin in zip(base.queues, start, strict=False)),
        ]
    ).astype(np.int64)
    ids = np.concatenate([np.empty(0, np.uint64), *(queue.records.id for queue in base.queues)])
    return start, order, ids[order]


def _specs(
    base: Base, table: Table, born: Ints, life_of: NDArray[np.int32], layout: lay.Layout
) -> dict[int, QueueSpec]:
    """The queues that are alive at the end, by life."""
    specs: dict[int, QueueSpec] = {}
    for name, code in table.names.items():
        life = int(life_of[code])
        if life < 0:
            continue
        if life < len(base.queues):
            specs[life] = base.queues[life].spec
        elif born[life] < 0:
            specs[life] = QueueSpec(name)
        else:
            index = int(born[life])
            source, at = table.place(index)
            begin = int(source.records.offset[at]) + layout.record_header_size
            data = bytes(source.buffer[begin : begin + int(source.records.length[at])])
            specs[life] = created(data, partial(table.error, index))
    return specs


def created(data: bytes, wrong: Callable[[str, str], DamageError]) -> QueueSpec:
    """The queue that a C makes; `wrong` turns a code and a message into an error."""
    try:
        return lay.decode_create(data)
    except DamageError as error:
        raise wrong(error.code, f"creates no queue: {error.message}") from None


def _collect(
    base: Base,
    table: Table,
    survivors: NDArray[np.bool_],
    live: NDArray[np.bool_],
    life_by_entry: NDArray[np.int32],
    id_: Ids,
    last_id: Ids,
    specs: dict[int, QueueSpec],
) -> tuple[QueueState, ...]:
    """The live records of every queue in dequeue order, queues by name."""
    added = np.flatnonzero(live)
    kept = Pointers.join([queue.records for queue in base.queues])[survivors]
    kept_life = np.repeat(np.arange(len(base.queues)), [len(queue.records) for queue in base.queues])[
        survivors
    ]
    # Among equal keys the snapshot's records stand before those of the log.
    records = Pointers.join([kept, _pointers(table, added, id_)])
    life = np.concatenate([kept_life.astype(np.int32), life_by_entry[added]])
    for by_life in (False, True):  # the second sort keeps the order of the first among equals
        values = life if by_life else records.key
        if np.any(values[1:] < values[:-1]):  # most often they are in order
            order = np.argsort(values, kind="stable")
            records, life = records[order], life[order]
    edges = np.searchsorted(life, np.arange(len(last_id) + 1)).tolist()
    return tuple(
        QueueState(spec, int(last_id[life]), records[edges[life] : edges[life + 1]])
        for life, spec in sorted(specs.items(), key=lambda item: item[1].name)
    )


def _pointers(table: Table, entries: Ints, id_: Ids) -> Pointers:
    source = np.repeat(np.arange(len(table.sources), dtype=np.int32), np.diff(table.bounds))
    return Pointers(id_, table.number, source, table.payload, table.payload_length)[entries]
