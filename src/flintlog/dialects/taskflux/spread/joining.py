"""Segments replayed by tasks, and what is left of them together."""

from __future__ import annotations

import functools
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flintlog.columns.compile import kernel
from flintlog.columns.packing import pack, unpack
from flintlog.core.workers import Workers
from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux import replay
from flintlog.dialects.taskflux.files import SegmentFile, finding_of
from flintlog.dialects.taskflux.layout import QueueSpec
from flintlog.dialects.taskflux.replay import NEVER, NO_LIFE, NOTE_GONE, NOTES_MAX, Table
from flintlog.dialects.taskflux.spread.looking import Deltas, Looked, Place, changed, read, source_of
from flintlog.dialects.taskflux.state import Base, Ids, Ints, Note, Pointers, QueueState, State
from flintlog.dialects.taskflux.survey import Fit
from flintlog.errors import DamageError

_C, _D, _A, _R = b"CDAR"
_SNAPSHOT = -1  # where other records have the number of their segment


# Lives


@dataclass(frozen=True, slots=True)
class _Created:
    """A creation in the log, by where it stands."""

    lsn: int
    file: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Beginning:
    """What a segment begins with: for each name in it a life or none, its ids so far, and the lives to follow."""

    life: NDArray[np.int32]
    first_id: Ids
    last_id: Ids
    lives: tuple[tuple[int, ...], ...]  # by number; -1 for one that nobody asks for


class _Lives:
    """The lives of all queues, followed from segment to segment by the counts of the looks."""

    def __init__(self, base: Base) -> None:
        self.of = {queue.spec.name: life for life, queue in enumerate(base.queues)}
        self.first_id = [queue.first_id for queue in base.queues]
        self.last_id = [queue.last_id for queue in base.queues]
        self.made: list[QueueSpec | _Created] = [queue.spec for queue in base.queues]
        self.ended: dict[int, int] = {}  # in which segment
        # Which ids a life gave out in which segment: life, first id, segment.
        self.spans = [(life, 0, _SNAPSHOT) for life in range(len(base.queues))]
        self.wrong = False  # an entry cannot be; the task of its segment says which

    @property
    def alive(self) -> list[int]:
        """In the order in which their names came."""
        return [life for life in self.of.values() if life >= 0]

    def follow(self, number: int, segment: Looked, deltas: Deltas) -> Beginning:
        """Go through a segment."""
        names = deltas.names
        start = [self.of.setdefault(name, NEVER) for name in names]
        first_id = [self.first_id[life] if life >= 0 else 1 for life in start]
        last_id = [self.last_id[life] if life >= 0 else 0 for life in start]
        lives = [[life] if life >= 0 else [] for life in start]
        adds = deltas.adds.tolist()
        for code, name in enumerate(names):
            self._add(number, name, adds[code], lives[code])
        for event, (operation, code) in enumerate(
            zip(deltas.operation.tolist(), deltas.queue.tolist(), strict=True)
        ):
            name = names[code]
            if operation == _C:
                self.wrong |= self.of[name] >= 0
                lsn = segment.first + int(deltas.place[event])
                offset, length = int(deltas.offset[event]), int(deltas.length[event])
                lives[code].append(self._begin(name, _Created(lsn, segment.file.name, offset, length)))
            else:
                self.wrong |= name == lay.DEFAULT_QUEUE
                if (life := self.of[name]) >= 0:
                    self.ended[life] = number
                self.of[name] = NO_LIFE
            self._add(number, name, adds[len(names) + event], lives[code])
        return Beginning(
            np.array(start, np.int32),
            np.array(first_id, np.uint64),
            np.array(last_id, np.uint64),
            tuple(map(tuple, lives)),
        )

    def _begin(self, name: str, made: QueueSpec | _Created) -> int:
        self.of[name] = life = len(self.last_id)
        self.first_id.append(1)
        self.last_id.append(0)
        self.made.append(made)
        return life

    def _add(self, number: int, name: str, count: int, lives: list[int]) -> None:
        if not count:
            return
        life = self.of[name]
        if life == NO_LIFE:
            self.wrong = True
            return
        if life == NEVER:
            life = self._begin(name, QueueSpec(name))
            lives.append(life)
        if self.last_id[life] + count > lay.ID_MAX:
            self.wrong = True
            return
        self.spans.append((life, self.last_id[life] + 1, number))
        self.last_id[life] += count


# One segment, in a task


@dataclass(frozen=True, slots=True)
class Part:
    """A segment to replay."""

    file: SegmentFile
    newest: bool
    begin: int
    end: int
    beginning: Beginning


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a segment: packed records by life and id, removals of earlier ones in order; or an error."""

    records: bytes = b""
    removals: bytes = b""
    notes: tuple[Note, ...] = ()
    error: DamageError | None = None


def cancel(place: Place, part: Part) -> Left:
    """Replay one segment."""
    segment = read(place, part.file, newest=part.newest)
    beginning = part.beginning
    if len(segment.records) < part.end:
        raise changed(place, part.file.name)
    source = source_of(segment, part.begin, part.end)
    table = Table(Base(), [source], place.layout.record_header_size)
    if len(table.names) != len(beginning.life):
        raise changed(place, part.file.name)
    count = len(table.operation)
    there = np.flatnonzero(beginning.life >= 0)
    most = 2 * len(table.names) + int(np.count_nonzero(table.operation == _C))
    life_of = np.minimum(beginning.life, NO_LIFE).astype(np.int32)
    life_of[there] = np.arange(len(there))
    first_id, begins = np.ones(most, np.uint64), np.zeros(most, np.uint64)
    first_id[: len(there)] = beginning.first_id[there]
    begins[: len(there)] = beginning.last_id[there]
    born = np.full(most, -1, np.int64)
    life, id_ = np.empty(count, np.int32), np.zeros(count, np.uint64)
    say, live = np.zeros(count, np.uint8), np.zeros(count, np.uint8)
    done, lives = replay.first_pass.run(
        16 * count,
        table.operation,
        table.queue,
        table.number,
        table.problem == 0,
        life_of,
        first_id,
        begins.copy(),
        born,
        life,
        id_,
        say,
    )
    if done < count:
        return Left(error=replay.first_error(table, int(done), int(say[done])))
    none = np.empty(0, np.uint64)
    starts = np.zeros(lives + 1, np.int64)
    replay.second_pass.run(
        16 * count, table.operation, life, id_, begins[:lives], starts, none, np.empty(0, np.uint8), live, say
    )
    number = _numbers(beginning, there, born[:lives], table, life)
    # The second pass knows no record from before: it takes each of them for gone.
    earlier = (table.operation == _R) & (id_ <= begins[np.maximum(life, 0)])
    say[earlier] = 0
    removed = np.flatnonzero(earlier)
    removed = removed[number[life[removed]] >= 0]
    added = np.flatnonzero(live)
    added = added[number[life[added]] >= 0]
    added = added[np.argsort(number[life[added]], kind="stable")]
    return Left(
        pack(
            {
                "life": number[life[added]],
                "id": id_[added],
                "key": table.number[added],
                "payload": table.payload[added],
                "payload_length": table.payload_length[added],
            }
        ),
        pack(
            {
                "life": number[life[removed]],
                "id": id_[removed],
                "lsn": removed + source.first,
                "offset": source.records.offset[removed],
            }
        ),
        tuple(table.note(int(at), int(say[at])) for at in np.flatnonzero(say)[:NOTES_MAX]),
    )


def _numbers(
    beginning: Beginning, there: Ints, born: Ints, table: Table, life: NDArray[np.int32]
) -> NDArray[np.int64]:
    """The numbers that the lives of a segment have in all of the log."""
    name_of = np.zeros(len(born), np.int64)
    added = np.flatnonzero(table.operation == _A)
    name_of[life[added]] = table.queue[added]
    created = np.flatnonzero(born >= 0)
    name_of[created] = table.queue[born[created]]
    name_of[: len(there)] = there
    numbers = [iter(lives) for lives in beginning.lives]
    return np.array([next(numbers[name]) for name in name_of.tolist()], np.int64)


# All of them


@dataclass(slots=True)
class _Chunk:
    """The records of one segment, or of the snapshot, by life and id; those that are gone are struck out."""

    columns: dict[str, NDArray[Any]]
    live: NDArray[np.uint8]

    def squeeze(self) -> None:
        """Let go of what is struck out, when that is most of it."""
        if 2 * np.count_nonzero(self.live) < len(self.live):
            keep = self.live.astype(bool)
            self.columns = {name: column[keep] for name, column in self.columns.items()}
            self.live = self.live[keep]


@kernel
def _holders(span_life: Any, span_first: Any, life: Any, id_: Any, row: Any) -> None:
    """For each record the last row whose life is its life and whose first id is not above its id."""
    for index in range(len(life)):
        low = 0
        high = len(span_life)
        while low < high:
            middle = (low + high) // 2
            other = span_life[middle]
            if other < life[index] or (other == life[index] and span_first[middle] <= id_[index]):
                low = middle + 1
            else:
                high = middle
        row[index] = low - 1


@kernel
def _strike(have_life: Any, have_id: Any, live: Any, life: Any, id_: Any, missed: Any) -> None:
    """Strike records out, one after the other; `missed` are those that are not there."""
    for index in range(len(life)):
        low = 0
        high = len(have_life)
        while low < high:
            middle = (low + high) // 2
            other = have_life[middle]
            if other < life[index] or (other == life[index] and have_id[middle] < id_[index]):
                low = middle + 1
            else:
                high = middle
        if (
            low < len(have_life)
            and have_life[low] == life[index]
            and have_id[low] == id_[index]
            and live[low]
        ):
            live[low] = 0
        else:
            missed[index] = 1


class _Join:
    """What is alive after each segment."""

    def __init__(self, base: Base, lives: _Lives) -> None:
        start, order, ids = replay.base_index(base, len(base.queues))
        life = np.repeat(np.arange(len(base.queues), dtype=np.int64), np.diff(start))
        self._base, self._base_order = base, order
        self._chunks = {_SNAPSHOT: _Chunk({"life": life, "id": ids}, np.ones(len(ids), np.uint8))}
        self._lives = lives
        span_life, span_first, span_segment = zip(*sorted(lives.spans), strict=True)
        self._span_life = np.array(span_life, np.int64)
        self._span_first = np.array(span_first, np.uint64)
        self._span_segment = np.array(span_segment, np.int64)
        self._ended: dict[int, list[int]] = {}
        for ended, number in lives.ended.items():
            self._ended.setdefault(number, []).append(ended)
        self.notes: list[Note] = []

    def take(self, number: int, name: str, left: Left) -> None:
        """The next segment."""
        if left.error is not None:
            raise left.error
        removals = unpack(left.removals)
        missed = self._remove(removals["life"], removals["id"])
        columns = unpack(left.records)
        self._chunks[number] = _Chunk(columns, np.ones(len(columns["id"]), np.uint8))
        if len(self.notes) < NOTES_MAX:
            gone = [
                replay.note_at(int(removals["lsn"][at]), name, int(removals["offset"][at]), NOTE_GONE)
                for at in missed[:NOTES_MAX].tolist()
            ]
            self.notes += sorted((*left.notes, *gone), key=lambda note: note.lsn)
            del self.notes[NOTES_MAX:]
        for life in self._ended.get(number, ()):
            self._drop(life)

    def _remove(self, life: Ints, id_: Ids) -> Ints:
        """Strike out records of earlier segments; the places of removals that had nothing left to remove."""
        row = np.empty(len(life), np.int64)
        _holders.run(64 * len(life), self._span_life, self._span_first, life, id_, row)
        holder = self._span_segment[row] if len(life) else row
        order = np.argsort(holder, kind="stable")
        missed = np.zeros(len(life), np.uint8)
        for mine in np.split(order, np.flatnonzero(np.diff(holder[order])) + 1):
            if not len(mine):
                continue
            number = int(holder[mine[0]])
            chunk = self._chunks[number]
            lost = np.zeros(len(mine), np.uint8)
            have = chunk.columns
            _strike.run(64 * len(mine), have["life"], have["id"], chunk.live, life[mine], id_[mine], lost)
            missed[mine] = lost
            if number != _SNAPSHOT:
                chunk.squeeze()
        return np.flatnonzero(missed)

    def _drop(self, life: int) -> None:
        """A queue was deleted with all that is in it."""
        begin, end = np.searchsorted(self._span_life, [life, life + 1])
        for number in self._span_segment[begin:end].tolist():
            chunk = self._chunks.get(number)
            if chunk is not None:
                low, high = np.searchsorted(chunk.columns["life"], [life, life + 1])
                chunk.live[low:high] = 0
                if number != _SNAPSHOT:
                    chunk.squeeze()

    def queues(self, specs: dict[int, QueueSpec]) -> tuple[QueueState, ...]:
        """What is alive at the end, in dequeue order, queues by name."""
        order = np.empty(len(self._base_order), bool)
        order[self._base_order] = self._chunks.pop(_SNAPSHOT).live.astype(bool)
        parts = [self._base_records(order)]
        for number in sorted(self._chunks):
            chunk = self._chunks.pop(number)
            keep = chunk.live.astype(bool)
            columns = {name: column[keep] for name, column in chunk.columns.items()}
            parts.append((columns.pop("life"), _pointers(columns, number)))
        life = np.concatenate([part[0] for part in parts])
        names = Pointers.__dataclass_fields__
        records = Pointers(*(np.concatenate([getattr(part[1], name) for part in parts]) for name in names))
        del parts
        # The snapshot's records stand before those of the log among equal keys, and these in their order.
        by_life = np.lexsort((records.key, life))
        edges = np.searchsorted(life[by_life], np.arange(len(self._lives.last_id) + 1))
        return tuple(
            QueueState(spec, self._lives.last_id[one], records[by_life[edges[one] : edges[one + 1]]])
            for one, spec in sorted(specs.items(), key=lambda item: item[1].name)
        )

    def _base_records(self, keep: NDArray[np.bool_]) -> tuple[Ints, Pointers]:
        queues = self._base.queues
        life = np.repeat(np.arange(len(queues), dtype=np.int64), [len(queue.records) for queue in queues])
        names = Pointers.__dataclass_fields__
        joined = Pointers(
            *(np.concatenate([getattr(queue.records, name) for queue in queues]) for name in names)
        )
        return life[keep], joined[keep]


def _pointers(columns: dict[str, NDArray[Any]], number: int) -> Pointers:
    return Pointers(source=np.full(len(columns["id"]), number, np.int32), **columns)


@dataclass(frozen=True, slots=True)
class Replayed:
    """A state whose pointers count into `files` (the last one is the snapshot) instead of buffers."""

    place: Place
    state: State
    files: tuple[str, ...]
    newest: str | None  # the file among them that may still be cut


def replayed(workers: Workers, place: Place, found: Fit[Looked], *, notes: bool = False) -> Replayed:
    """The state of a directory that was looked at; `DamageError` counts from the directory.

    Without `notes` nothing is kept of queues that are deleted in the end.
    """
    lives = _Lives(found.base)
    counted = [segment for segment in found.segments if segment.deltas is not None]
    parts: list[Part] = []
    index, term = found.base.index, found.base.term
    for number, segment in enumerate(counted):
        deltas = segment.deltas
        assert deltas is not None
        beginning = lives.follow(number, segment, deltas)
        parts.append(Part(segment.file, segment.newest, deltas.begin, deltas.end, beginning))
        index, term = segment.first + deltas.end - 1, deltas.term
        if lives.wrong:
            break
    if not notes and not lives.wrong:
        parts = _only(parts, set(lives.alive))
    join = _Join(found.base, lives)
    for number, left in enumerate(workers.map(functools.partial(cancel, place), parts)):
        join.take(number, parts[number].file.name, left)
    assert not lives.wrong  # the task would have found it
    specs = {life: _spec(place, lives.made[life]) for life in lives.alive}
    state = State(index, term, join.queues(specs), found.base.buffer, (), tuple(join.notes))
    newest = next((segment.file.name for segment in counted if segment.newest), None)
    return Replayed(place, state, (*(segment.file.name for segment in counted), lay.SNAPSHOT_FILE), newest)


def _only(parts: Sequence[Part], alive: set[int]) -> list[Part]:
    """The same work without what nobody asks for."""

    def lives(part: Part) -> Iterator[tuple[int, ...]]:
        for some in part.beginning.lives:
            yield tuple(life if life in alive else -1 for life in some)

    return [replace(part, beginning=replace(part.beginning, lives=tuple(lives(part)))) for part in parts]


def _spec(place: Place, made: QueueSpec | _Created) -> QueueSpec:
    if isinstance(made, QueueSpec):
        return made
    with place.disk.open(posixpath.join(place.data, made.file)) as file:
        data = file.pread(made.length, made.offset + place.layout.record_header_size)
    return replay.created(data, functools.partial(replay.error_at, made.lsn, made.file, made.offset))


def state_of(workers: Workers, place: Place, found: Fit[Looked], as_of: int | None = None) -> Replayed:
    """The state, for whoever shows errors: an entry that makes none is refused with its place."""
    if as_of is not None:
        found.refuse_missing(as_of)
    try:
        return replayed(workers, place, found)
    except DamageError as error:
        raise finding_of(error).error(found.listing.data) from None
