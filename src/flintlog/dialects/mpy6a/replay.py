"""From operations to state: the one replay of the live store, a follower, recovery, the command line and Spark.

`Machine.apply` takes one operation with its state id, changes the state in memory and returns what it does to the
files. It decides nothing: which file to write to, when to switch, what is due: the leader has decided that, and each
decision is an operation. So two machines with the same operations ask for the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import operations as ops
from flintlog.dialects.mpy6a.layout import Descriptor, MalformedError, Record, StateID
from flintlog.dialects.mpy6a.operations import Base, Bytes, Open, Operation, Place


@dataclass(slots=True)
class File:
    """A data file as operations see it."""

    name: str
    delay: int
    id: StateID
    last_id: StateID
    flags: int
    offset: int
    length: int
    replay: int
    last_time: int  # the replay time of its last record, or the bound of the first one
    visible: int = 0  # how much of it is written by now
    # Runs of done records behind one that is not done: size by beginning, and beginning by end.
    finished: dict[int, int] = field(default_factory=dict)
    _finished_ends: dict[int, int] = field(default_factory=dict)

    @property
    def written(self) -> bool:
        return bool(self.flags & lay.WRITTEN)

    def unread(self) -> Iterator[tuple[int, int]]:
        """The parts that are not done: begin and end."""
        at = self.offset
        for offset, size in sorted(self.finished.items()):
            if offset > at:
                yield at, offset
            at = max(at, offset + size)
        if at < self.length:
            yield at, self.length

    def finish(self, offset: int, size: int) -> None:
        """Note that these records are done; runs that touch become one."""
        begin, end = offset, offset + size
        before = self._finished_ends.pop(begin, None)
        if before is not None and self.finished.get(before) == begin - before:
            begin = before
        if (behind := self.finished.pop(end, None)) is not None:
            end += behind
        self.finished[begin] = end - begin
        self._finished_ends[end] = begin

    def shift(self, size: int) -> None:
        """Move the read position, and forget the runs that it passes."""
        begin = self.offset
        self.offset += size
        passed = (
            [begin] if self.finished.get(begin) == size else [at for at in self.finished if at < self.offset]
        )
        for at in passed:
            self._finished_ends.pop(at + self.finished.pop(at), None)

    def descriptor(self) -> Descriptor:
        return Descriptor(self.name, self.id, self.last_id, self.flags, self.offset, self.length, self.replay)

    @staticmethod
    def of(descriptor: Descriptor) -> File:
        item = descriptor
        return File(
            item.name,
            item.delay,
            item.id,
            item.last_id,
            item.flags,
            item.offset,
            item.length,
            item.replay,
            item.replay,
        )


@dataclass(slots=True)
class OpenSession:
    """An open session. `place` is where its record waits meanwhile, if it ever waited."""

    id: StateID
    last_change: StateID
    topic: int
    attempts: int
    place: Place | None
    parts: list[bytes]

    @property
    def data(self) -> bytes:
        if len(self.parts) != 1:
            self.parts = [b"".join(self.parts)]
        return self.parts[0]


# The effects of an operation on files.


class Written(NamedTuple):
    """Bytes behind the end of a data file."""

    file: File
    offset: int
    data: Bytes

    @property
    def name(self) -> str:
        return self.file.name


class Logged(NamedTuple):
    """An event of the change log."""

    event: bytes


class Created(NamedTuple):
    name: str


class Removed(NamedTuple):
    name: str


class SetAside(NamedTuple):
    """Records behind the end of the file of exhausted sessions."""

    offset: int
    data: Bytes


Effect = Written | Logged | Created | Removed | SetAside


class Machine:
    """The state of one store in memory: files in chains, sessions that are open."""

    def __init__(self, files: Iterable[File] = (), last: StateID | None = None) -> None:
        self.last = last or StateID(1, 0)
        self.files: dict[str, File] = {}
        self.chains: dict[int, list[File]] = {}
        self.sessions: dict[StateID, OpenSession] = {}
        self.taken: dict[tuple[str, int], OpenSession] = {}
        self.exhausted = 0  # length of the file of exhausted sessions
        for file in files:
            self._add(file)

    @staticmethod
    def of(state_id: StateID, base: Base, sessions: Iterable[Open]) -> Machine:
        """The state of a checkpoint."""
        machine = Machine((File.of(item) for item in base.descriptors), state_id)
        machine.exhausted = base.exhausted
        for place in base.finished:
            machine._file(place.name).finish(place.offset, place.size)
        for item in sessions:
            machine._open(
                OpenSession(item.id, item.last_change, item.topic, item.attempts, item.place, [item.data])
            )
        return machine

    def base(self) -> tuple[Base, Iterator[Open]]:
        """The state as a checkpoint."""
        descriptors = tuple(self.descriptors())
        finished = [
            Place(item.name, offset, size)
            for item in descriptors
            for offset, size in sorted(self.files[item.name].finished.items())
        ]
        opened = (
            Open(item.id, item.last_change, item.topic, item.attempts, item.place, item.data)
            for _, item in sorted(self.sessions.items())
        )
        return Base(len(self.sessions), self.exhausted, descriptors, tuple(finished)), opened

    def copy(self) -> Machine:
        """A copy of the state, to change on its own."""
        base, sessions = self.base()
        copy = Machine.of(self.last, base, sessions)
        for file in copy.files.values():
            file.last_time = self.files[file.name].last_time
        return copy

    def descriptors(self) -> list[Descriptor]:
        """All descriptors in the order of creation."""
        return sorted((file.descriptor() for file in self.files.values()), key=lambda item: item.id)

    def tail(self, delay: int) -> File | None:
        """The file of this delay that is being written."""
        chain = self.chains.get(delay)
        return chain[-1] if chain and chain[-1].written else None

    def latest_time(self, delay: int) -> int:
        """No new session of this delay may be due before this time: a chain is in the order of time."""
        chain = self.chains.get(delay)
        return chain[-1].last_time if chain else 0

    def is_spent(self, file: File) -> bool:
        """Is a file read to its end, so that it may go? The last name of a delay stays: no name is used twice."""
        if file.written or file.offset < file.length:
            return False
        return file.name != max((other.name for other in self.chains[file.delay]), key=lay.name_key)

    # One operation

    def apply(self, state_id: StateID, operation: Operation) -> list[Effect]:
        """Change the state; returns the effects. An operation that does not fit raises and changes nothing."""
        if state_id <= self.last:
            raise MalformedError("order", f"it comes after {self.last}")
        last = state_id
        if isinstance(operation, ops.Put):
            last = state_id.following(operation.number - 1)
            if last.index > lay.UINT64_MAX or last < state_id:
                raise MalformedError("number", f"{operation.number} sessions have no ids from {state_id} on")
        effects = self._apply(state_id, operation)
        self.last = last
        return effects

    def _apply(self, state_id: StateID, operation: Operation) -> list[Effect]:
        match operation:
            case ops.Put(delay, number, records):
                return [self._append(state_id.following(number - 1), delay, records)]
            case ops.Store(session, delay, replay_time):
                return self._store(state_id, session, delay, replay_time)
            case ops.Finish(place):
                self._finish(place)
                return []
            case ops.Again(place, delay, records):
                self._check(place)
                effect = self._append(state_id, delay, records)
                self._finish(place)
                return [effect]
            case ops.New(topic, data):
                self._open(OpenSession(state_id, state_id, topic, 0, None, [data] if data else []))
                return []
            case ops.Append(session, data):
                item = self._session(session)
                item.parts.append(data)
                item.last_change = state_id
                return []
            case ops.Replace(session, data):
                item = self._session(session)
                item.parts = [data]
                item.last_change = state_id
                return []
            case ops.Drop(session):
                self._close(self._session(session))
                return []
            case ops.Take(place, record):
                self._take(state_id, place, record)
                return []
            case ops.Exhaust(place, records):
                self._finish(place)
                effect = SetAside(self.exhausted, records)
                self.exhausted += len(records)
                return [effect]
            case _:
                return self.apply_change(state_id, operation)

    def apply_change(self, state_id: StateID, change: lay.Change) -> list[Effect]:
        """Apply one of the five changes of descriptors."""
        event = Logged(lay.EVENT.encode(state_id, lay.encode_change(change)))
        match change:
            case lay.Create(delay, now):
                if self.tail(delay) is not None:
                    raise MalformedError(
                        "two-writers", f"the delay of {delay} s has a file that is being written"
                    )
                name = lay.data_name(delay, now, [file.name for file in self.chains.get(delay, ())])
                replay = now + delay
                self._add(File(name, delay, state_id, state_id, lay.WRITTEN, 0, 0, replay, replay))
                return [event, Created(name)]
            case lay.StopWriting(name):
                file = self._file(name)
                if not file.written:
                    raise MalformedError("not-written", f"{name} is not being written")
                file.flags &= ~lay.WRITTEN
                file.last_id = state_id
                return [event]
            case lay.Delete(name):
                if name in self.files:
                    file = self.files.pop(name)
                    self.chains[file.delay].remove(file)
                return [event, Removed(name)]
            case lay.OpenToRead(name):
                file = self._file(name)
                file.flags |= lay.READ
                file.last_id = state_id
                return [event]
            case lay.Shift(name, size):
                file = self._file(name)
                if file.offset + size > file.length:
                    raise MalformedError(
                        "shift",
                        f"{name} is read up to byte {file.offset} of {file.length}, and {size} more cannot be",
                    )
                file.shift(size)
                file.last_id = state_id
                return [event]

    def merge(self, state_id: StateID, files: Sequence[File], name: str) -> None:
        """Replace neighbouring files by one that holds exactly their unread records."""
        first, last = files[0], files[-1]
        merged = replace(first, name=name, last_id=state_id, offset=0, length=0, last_time=last.last_time)
        merged.finished, merged._finished_ends = {}, {}
        for file in files:
            merged.flags |= file.flags & lay.READ
            for begin, end in file.unread():
                self._move(file.name, begin, end, name, merged.length)
                merged.length += end - begin
            del self.files[file.name]
        chain = self.chains[first.delay]
        at = chain.index(first)
        chain[at : at + len(files)] = [merged]
        self.files[name] = merged
        self.last = state_id

    def rename(self, file: File, name: str) -> None:
        """Give a file another name; no operation of a leader does this."""
        self._move(file.name, 0, file.length, name, 0)
        del self.files[file.name]
        self.files[name] = file
        file.name = name
        file.last_id = self.last  # so that the snapshot is not older than the change log

    def _move(self, name: str, begin: int, end: int, target: str, offset: int) -> None:
        """Note that the open sessions between two places wait in another file now."""
        for key, session in list(self.taken.items()):
            if key[0] == name and begin <= key[1] < end:
                assert session.place is not None
                del self.taken[key]
                session.place = Place(target, offset + key[1] - begin, session.place.size)
                self.taken[target, session.place.offset] = session

    # Sessions

    def _session(self, session: StateID) -> OpenSession:
        found = self.sessions.get(session)
        if found is None:
            raise MalformedError("session", f"there is no open session {session}")
        return found

    def _open(self, session: OpenSession) -> None:
        self.sessions[session.id] = session
        if session.place is not None:
            self.taken[session.place.name, session.place.offset] = session

    def _close(self, session: OpenSession) -> None:
        del self.sessions[session.id]
        if session.place is not None:
            del self.taken[session.place.name, session.place.offset]

    def _take(self, state_id: StateID, place: Place, raw: bytes) -> None:
        self._check(place)
        record, _ = lay.read_record(raw, 0)
        self._open(OpenSession(record.id, state_id, record.topic, record.attempts, place, [record.data]))

    def _store(self, state_id: StateID, session: StateID, delay: int, replay_time: int) -> list[Effect]:
        item = self._session(session)
        record = lay.encode_record(Record(replay_time, item.id, item.topic, item.attempts, item.data))
        effect = self._append(state_id, delay, record)
        self._close(item)
        return [effect]

    # Files

    def _add(self, file: File) -> None:
        self.files[file.name] = file
        self.chains.setdefault(file.delay, []).append(file)

    def _file(self, name: str) -> File:
        found = self.files.get(name)
        if found is None:
            raise MalformedError("file", f"{name} is not known")
        return found

    def _append(self, state_id: StateID, delay: int, records: Bytes) -> Effect:
        """Add records that are all due at the same time, behind the others of their delay."""
        file = self.tail(delay)
        if file is None:
            raise MalformedError("no-file", f"no file of the delay of {delay} s is being written")
        due = int.from_bytes(records[:8], "little")
        if not 0 < due <= lay.TIME_MAX:
            raise MalformedError("time", f"{due} is not a time in seconds")
        if due < file.last_time:
            raise MalformedError(
                "time", f"{file.name} has sessions due at {file.last_time}, and these are due at {due}"
            )
        effect = Written(file, file.length, records)
        file.length += len(records)
        file.last_id = state_id
        file.last_time = due
        return effect

    def _check(self, place: Place) -> File:
        file = self._file(place.name)
        if place.offset < file.offset or place.offset + place.size > file.length or place.size == 0:
            raise MalformedError("place", f"{place.name} has no unread records at byte {place.offset}")
        return file

    def _finish(self, place: Place) -> None:
        file = self._check(place)
        file.finish(place.offset, place.size)
        first = self.taken.get((place.name, place.offset))
        if first is not None:
            self._close(first)
            if first.place == place:
                return
        end = place.offset + place.size
        for (name, offset), session in list(self.taken.items()):
            if name == place.name and place.offset < offset < end:
                self._close(session)
