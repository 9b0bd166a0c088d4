"""How two stores become equal: by operations, or by the files themselves when the operations are gone.

A follower asks with its `Progress`. While the leader's operation log reaches back that far, the answer is
`Operations`. Otherwise the leader says where it is (`Ahead`) and ships what differs, in the order in which it last
changed: the missing records of a file, then its descriptor; open sessions whole. `Settled` comes last, and brings the
follower to where the leader was when it was asked. Items that come twice change nothing.

The bytes travel as the application likes: every item is a plain tuple.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from flintlog.core.group_commit import Ticket
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import operations as ops
from flintlog.dialects.mpy6a import scan
from flintlog.dialects.mpy6a.files import list_files
from flintlog.dialects.mpy6a.layout import Descriptor, MalformedError, StateID
from flintlog.dialects.mpy6a.operations import Base, Open, Operation, Place
from flintlog.dialects.mpy6a.replay import Machine
from flintlog.dialects.mpy6a.store.engine import Engine, Work
from flintlog.dialects.mpy6a.store.errors import GapError
from flintlog.disk import Disk, File, interruptible
from flintlog.errors import RefusedError

_CHUNK = 1 << 20


class Progress(NamedTuple):
    """How far a store is. `last` is (0, 0) when it has only its files to go by."""

    last: StateID
    files: tuple[Descriptor, ...]
    exhausted: int


class Operations(NamedTuple):
    """Operations that follow `after`, as events of `operations.log`."""

    after: StateID
    events: tuple[bytes, ...]


class Ahead(NamedTuple):
    """The beginning: where the leader is. A store that is already there ignores the rest."""

    last: StateID


class Shipped(NamedTuple):
    """Bytes of a data file, or of the file of exhausted sessions."""

    name: str
    offset: int
    data: bytes


class Description(NamedTuple):
    """A file whose records are all there."""

    descriptor: Descriptor


class Opened(NamedTuple):
    """A session that is open."""

    session: Open


class Settled(NamedTuple):
    """The end: where the leader was, which files it had, and which sessions were done out of turn."""

    last: StateID
    names: tuple[str, ...]
    finished: tuple[Place, ...]
    exhausted: int


Item = Operations | Ahead | Shipped | Description | Opened | Settled


# The leader's side


def operations_after(view: memoryview, last: StateID, state_id: StateID) -> Operations | None:
    """The operations behind `state_id` in an operation log; None when the log does not reach back that far."""
    events = scan.scan_log(view, checked=True).events
    base = ops.decode_base(view[int(events.payload[0]) : events.end(0)])
    if not events.state_id(0) <= state_id <= last:
        return None
    newer = (events.term > state_id.term) | ((events.term == state_id.term) & (events.index > state_id.index))
    newer[: base.sessions + 1] = False
    rows = newer.nonzero()[0].tolist()
    return Operations(state_id, tuple(bytes(view[int(events.offset[row]) : events.end(row)]) for row in rows))


def catch_up(engine: Engine, progress: Progress) -> Iterator[Item]:
    """What a store with this progress needs to become equal to this one as it is now."""
    with engine.lock:
        engine.failstop.check()
        engine.drain()
        found = (
            None if engine.alone else operations_after(engine.log_view(), engine.machine.last, progress.last)
        )
        shipment = None if found else Shipment(engine.disk, engine.path, engine.machine, progress)
    if found is not None:
        yield found
    elif shipment is not None:
        yield from shipment.items()


class Shipment:
    """The difference between a leader and a follower at one moment. The leader goes on while it is shipped."""

    def __init__(self, disk: Disk, directory: str, machine: Machine, progress: Progress) -> None:
        known = {item.name: item for item in progress.files}
        base, sessions = machine.base()
        self._opened: dict[str, File] = {}
        self._parts: list[tuple[StateID, Descriptor | Open, int]] = []
        for descriptor in base.descriptors:
            theirs = known.get(descriptor.name)
            if theirs == descriptor:
                continue
            begin = theirs.length if theirs is not None and theirs.id == descriptor.id else 0
            self._parts.append((descriptor.last_id, descriptor, begin))
            if begin < descriptor.length:
                self._opened[descriptor.name] = disk.open(posixpath.join(directory, descriptor.name))
        self._parts += [(session.last_change, session, 0) for session in sessions]
        self._parts.sort(key=lambda part: part[0])
        self._aside = (progress.exhausted, machine.exhausted)
        if self._aside[0] < self._aside[1]:
            self._opened[lay.EXHAUSTED_FILE] = disk.open(posixpath.join(directory, lay.EXHAUSTED_FILE))
        self._settled = Settled(machine.last, tuple(machine.files), base.finished, machine.exhausted)

    def items(self) -> Iterator[Item]:
        try:
            yield Ahead(self._settled.last)
            for _, part, begin in self._parts:
                if isinstance(part, Open):
                    yield Opened(part)
                else:
                    yield from self._records(part.name, begin, part.length)
                    yield Description(part)
            yield from self._records(lay.EXHAUSTED_FILE, *self._aside)
            yield self._settled
        finally:
            for file in self._opened.values():
                file.close()

    def _records(self, name: str, begin: int, end: int) -> Iterator[Shipped]:
        for at in range(begin, end, _CHUNK):
            yield Shipped(name, at, self._opened[name].pread(min(_CHUNK, end - at), at))


# The follower's side


def receive(engine: Engine, items: Iterable[Item]) -> None:
    """Take what a leader gives. The lock is held."""
    arrival = Arrival(engine)
    begun = False
    try:
        for item in interruptible(items):
            if isinstance(item, Operations):
                engine.wait(apply(engine, item))
            elif isinstance(item, Ahead):
                if _is_here(engine, item.last):
                    return
                begun = True
            elif not begun:
                if isinstance(item, Settled) and _is_here(engine, item.last):
                    return  # it came before
                raise GapError(
                    "this is a part of a catch-up whose beginning did not come",
                    file=engine.path,
                    advice="Hand all items of one `catch_up` to one call, from the first to the last",
                )
            elif isinstance(item, Settled):
                machine, gone = arrival.settle(item)
                engine.whole, engine.next_term = True, machine.last.term
                engine.rebase(machine, gone)
            else:
                arrival.take(item)
    finally:
        arrival.end()


def _is_here(engine: Engine, last: StateID) -> bool:
    """Does the follower have everything up to this id?"""
    return last < engine.machine.last or (last == engine.machine.last and engine.whole)


def apply(engine: Engine, operations: Operations) -> Ticket[Work] | None:
    """Apply a leader's operations, or none when one is damaged or missing. The lock is held."""
    arrived = [read_event(event) for event in operations.events]
    last = engine.machine.last
    if arrived and not engine.whole:
        raise GapError(
            f"this store was opened with the note's files alone, which hold no open sessions and end at {last}",
            file=engine.path,
            advice="Use `catch_up` of the leader with `progress` of this store",
        )
    if operations.after > last:
        raise GapError(
            f"the operations follow {operations.after}, and this store is at {last}",
            file=engine.path,
            advice="Use `catch_up` of the leader",
        )
    arrived = [item for item in arrived if item[0] > last]
    check_order(last, arrived)
    if len(arrived) > 1:  # a single one that does not fit changes nothing anyway
        _fit(engine, engine.machine.copy().apply, arrived)
    work = Work()
    _fit(engine, lambda state_id, operation: engine.do(work, operation, state_id), arrived)
    return engine.submit(work)


def _fit(
    engine: Engine, do: Callable[[StateID, Operation], object], operations: list[tuple[StateID, Operation]]
) -> None:
    """Apply all of them; refuse one that does not fit the store."""
    for state_id, operation in operations:
        try:
            do(state_id, operation)
        except MalformedError as problem:
            raise GapError(
                f"operation {state_id} does not fit: {problem.message}",
                file=engine.path,
                advice="The two stores have different histories: begin with an empty directory",
            ) from problem


def read_event(event: bytes) -> tuple[StateID, Operation]:
    """An operation from its bytes; a damaged one is refused."""
    view = memoryview(event)
    try:
        size, at = lay.read_uvarint(view, lay.EVENT_HEADER_SIZE)
        if at + size != len(view) or not ops.is_whole(view):
            raise MalformedError("checksum", "its checksum does not fit")
        operation = ops.decode(view[at:])
        _check_records(operation)
        return lay.read_state_id(view, 0), operation
    except MalformedError as problem:
        raise RefusedError(
            f"an operation arrived damaged: {problem.message}", advice="Send it again"
        ) from problem


def _check_records(operation: Operation) -> None:
    """Refuse an operation unless its records are whole, as many as it says, and all due at the same time."""
    number: int | None
    if isinstance(operation, ops.Take):
        records, number, together = memoryview(operation.record), 1, False
    elif isinstance(operation, ops.Put | ops.Again | ops.Exhaust):
        records = memoryview(operation.records)
        number = operation.number if isinstance(operation, ops.Put) else None
        together = not isinstance(operation, ops.Exhaust)
    else:
        return
    count = 0
    for found, stop in scan.record_batches(records, ordered=False):  # noqa: B007
        count += len(found)
        if together and (found.replay_time != int.from_bytes(records[:8], "little")).any():
            raise MalformedError("records", "its records are due at different times")
    if stop is None or not stop.good or (number is not None and count != number):
        raise MalformedError("records", f"it has {count} whole records in {len(records)} bytes")


def check_order(last: StateID, operations: list[tuple[StateID, Operation]]) -> None:
    """Refuse operations with a gap: each state id follows the one before, or begins a new term."""
    for state_id, operation in operations:
        begins = state_id.term > last.term and state_id.index == 1
        if not begins and state_id != last.following():
            raise GapError(
                f"operation {state_id} arrived, and {last.following()} is next",
                advice="Send what is between, or use `catch_up` of the leader",
            )
        last = state_id.following(operation.number - 1) if isinstance(operation, ops.Put) else state_id


class Arrival:
    """Writes what a leader ships beside the follower's own files; it counts with the last item."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._own = dict(engine.machine.files)
        self._received: dict[str, int] = {}
        self._descriptors: dict[str, Descriptor] = {}
        self._sessions: list[Open] = []
        self._files: dict[str, File] = {}
        self._moved: list[tuple[str, str]] = []  # own files that made way: name, and name until the end

    def take(self, item: Shipped | Description | Opened) -> None:
        match item:
            case Shipped(name, offset, data):
                self._write(name, offset, data)
            case Description(descriptor):
                self._descriptors[descriptor.name] = descriptor
                known = self._own.get(descriptor.name)
                if known is not None and known.id != descriptor.id and descriptor.name not in self._received:
                    self._make_way(descriptor.name)
                if descriptor.name not in self._own:
                    self._write(
                        descriptor.name, self._end(descriptor.name), b""
                    )  # the file may have no records
                if self._end(descriptor.name) != descriptor.length:
                    raise GapError(f"{descriptor.name} is described before its records are all there")
            case Opened(session):
                self._sessions.append(session)

    def settle(self, item: Settled) -> tuple[Machine, list[str]]:
        """Sync the files; returns the leader's state, and the follower's files that it does not have."""
        descriptors = []
        for name in item.names:
            known = self._own.get(name)
            found = self._descriptors.get(name) or (known.descriptor() if known is not None else None)
            if found is None:
                raise GapError(f"{name} was never described")
            descriptors.append(found)
        descriptors.sort(key=lambda descriptor: descriptor.id)
        base = Base(len(self._sessions), item.exhausted, tuple(descriptors), item.finished)
        machine = Machine.of(item.last, base, self._sessions)
        with self._engine.failstop.guard():
            for file in self._files.values():
                file.sync()
        self._close()
        self._moved.clear()
        self._find_last_times(machine)
        return machine, [name for name in self._own if name not in machine.files]

    def _find_last_times(self, machine: Machine) -> None:
        """Read when the last record of each delay is due, which no descriptor says: a new session is not due before."""
        for chain in machine.chains.values():
            last = chain[-1]
            with self._engine.disk.open(posixpath.join(self._engine.path, last.name)) as file:
                view = file.view(copy=True)[: last.length]
            for records, _ in scan.record_batches(view, before=last.replay):
                if len(records):
                    last.last_time = int(records.replay_time[-1])

    def end(self) -> None:
        """Take back an unfinished shipment: the leader may be gone, and may send the same again."""
        if (self._files or self._moved) and not self._engine.failstop.failed:
            with self._engine.failstop.guard():
                for name, file in self._files.items():
                    if name in self._own or name == lay.EXHAUSTED_FILE:
                        file.truncate(self._length(name))
            self._engine.abandon(
                name for name in self._files if lay.parse_name(name) and name not in self._own
            )
            for name, other in reversed(self._moved):
                self._move(other, name)
        self._close()

    def _close(self) -> None:
        for file in self._files.values():
            file.close()
        self._files.clear()

    def _length(self, name: str) -> int:
        """The length of the follower's own file of this name."""
        if name == lay.EXHAUSTED_FILE:
            return self._engine.machine.exhausted
        return self._own[name].length if name in self._own else 0

    def _end(self, name: str) -> int:
        return self._received.get(name, self._length(name))

    def _write(self, name: str, offset: int, data: bytes) -> None:
        if name != lay.EXHAUSTED_FILE and lay.parse_name(name) is None:
            raise RefusedError(f"{name!r} is not the name of a data file")
        if name in self._own and name not in self._received:
            if offset == 0 < self._end(name):
                self._make_way(name)
            elif self._engine.alone and offset == self._end(name) and data:
                self._copy(name)
        if offset != self._end(name):
            raise GapError(
                f"{name} goes on at byte {self._end(name)}, not at {offset}",
                advice="The two stores have different histories: begin with an empty directory",
            )
        if name not in self._files and name not in self._own and name != lay.EXHAUSTED_FILE:
            self._engine.announce(name)
        with self._engine.failstop.guard():
            file = self._files.get(name)
            if file is None:
                path = posixpath.join(self._engine.path, name)
                file = self._files[name] = self._engine.disk.open(path, "create")
                file.truncate(offset)
            file.pwrite(data, offset)
        self._received[name] = offset + len(data)

    def _copy(self, name: str) -> None:
        """Go on in a copy: after a crash no file of the note would tell shipped bytes from acknowledged ones."""
        length = self._own[name].length
        with self._engine.disk.open(posixpath.join(self._engine.path, name)) as file:
            self._make_way(name)
            for at in range(0, length, _CHUNK):
                self._write(name, at, file.pread(min(_CHUNK, length - at), at))

    def _make_way(self, name: str) -> None:
        """Rename the follower's own file until the end: the leader used its name again, or ships more of it."""
        engine = self._engine
        other = lay.name_behind(name, [*engine.machine.files, *list_files(engine.disk, engine.path).data])
        self._move(name, other)
        self._moved.append((name, other))

    def _move(self, name: str, other: str) -> None:
        """Give a file of the follower another name."""
        engine = self._engine
        engine.announce(other)
        with engine.failstop.guard():
            engine.disk.link(posixpath.join(engine.path, name), posixpath.join(engine.path, other))
        self._own[other] = self._own.pop(name)
        engine.machine.rename(self._own[other], other)
        engine.rebase(engine.machine, [name])
