"""mpy6a directories, read from the design note and the format page with the standard library alone.

`read` takes the files of a directory (name and content) and returns what they say, or raises `DamagedError`. The note's
files are the snapshot, the change log and the data files. Where `operations.log` stands beside them, it decides;
`read_note` leaves it aside.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

from tests.independent.pieces import DamagedError, Pieces, crc32_mpeg2, require

Id = tuple[int, int]  # term and index of an operation, or of the session that it began

_NAME = re.compile(r"([1-9]\d*)@(\d{10})(?:-([1-9]\d*))?\.data")
_WRITTEN, _READ = 1, 2
_YEAR_10000 = 253402300800


@dataclass(frozen=True)
class Record:
    due: int
    id: Id
    topic: int
    attempts: int
    data: bytes


@dataclass(frozen=True)
class Waiting:
    record: Record
    delay: int
    file: str
    offset: int


@dataclass
class Open:
    """A session that is open. One that waited before has the file and offset at which it stood."""

    topic: int
    data: bytes
    attempts: int = 0
    place: tuple[str, int, int] | None = None


@dataclass
class File:
    """A data file as its descriptor tells it, with its bytes."""

    name: str
    id: Id
    last_id: Id
    flags: int
    offset: int
    length: int
    bound: int
    data: bytes = b""

    @property
    def delay(self) -> int:
        return int(self.name.partition("@")[0])

    def records(self) -> dict[int, tuple[int, Record]]:
        """Size and content of each record, by its offset."""
        pieces = Pieces(self.data[: self.length], self.name)
        found = {}
        while pieces.left:
            at, record = pieces.at, _record(pieces)
            found[at] = pieces.at - at, record
        return found


@dataclass
class State:
    files: dict[str, File] = field(default_factory=dict)
    opened: dict[Id, Open] = field(default_factory=dict)
    done: list[tuple[str, int, int]] = field(default_factory=list)  # places: file, offset and size
    exhausted: list[Record] = field(default_factory=list)

    def chains(self) -> dict[int, list[File]]:
        """The files of each delay, by the bound of their replay times."""
        chains: dict[int, list[File]] = {}
        for file in sorted(self.files.values(), key=lambda file: (file.bound, file.id)):
            chains.setdefault(file.delay, []).append(file)
        return chains

    def waiting(self) -> list[Waiting]:
        """What is not done with, in the order of replay; a session that was taken shows what it holds now."""
        taken = {one.place[:2]: one for one in self.opened.values() if one.place is not None}
        done = {(name, at) for name, begin, size in self.done for at in range(begin, begin + size)}
        found = []
        for delay, chain in self.chains().items():
            for file in chain:
                for offset, (_, record) in file.records().items():
                    if offset < file.offset or (file.name, offset) in done:
                        continue
                    if (file.name, offset) in taken:
                        now = taken[file.name, offset]
                        record = Record(record.due, record.id, now.topic, now.attempts, now.data)
                    found.append(Waiting(record, delay, file.name, offset))
        return sorted(found, key=lambda one: (one.record.due, -one.delay))


def read(files: Mapping[str, bytes]) -> State:
    """The state of a directory."""
    if "operations.log" not in files:
        return read_note(files)
    state = _replay(files)
    _check(state)
    return state


def read_note(files: Mapping[str, bytes]) -> State:
    """What the note's files say: they do not know which sessions are open, nor what is done with out of turn."""
    state = State()
    for file in _descriptors(Pieces(files.get("state.snapshot", b""), "state.snapshot")):
        require(file.name not in state.files, f"state.snapshot: {file.name} is described twice")
        state.files[file.name] = file
    latest = max((file.last_id for file in state.files.values()), default=(0, 0))
    closed = {name for name, file in state.files.items() if not file.flags & _WRITTEN}
    for at, payload in events(files.get("state.log", b""), "state.log"):
        if at > latest:
            latest = at
            code = payload.number("<I")
            require(1 <= code <= 5, f"{payload.what}: no operation has the code {code}")
            _change(state, at, code, payload)
            require(not payload.left, f"{payload.what}: {payload.left} bytes follow the operation")
    for name, file in state.files.items():
        _fill(file, files.get(name, b""), grew=name not in closed)
    records = Pieces(files.get("exhausted.sessions", b""), "exhausted.sessions")
    while records.left:
        state.exhausted.append(_record(records))
    _check(state)
    return state


# Records, descriptors, events


def _id(pieces: Pieces) -> Id:
    term, index = pieces.numbers("<QQ")
    require(term >= 1, f"{pieces.what}: byte {pieces.at - 16}: term 0")
    return term, index


def _record(pieces: Pieces) -> Record:
    due = pieces.number("<Q")
    require(0 < due < _YEAR_10000, f"{pieces.what}: byte {pieces.at - 8}: a replay time of {due}")
    session, topic, attempts = _id(pieces), pieces.number("<i"), pieces.uvarint()
    return Record(due, session, topic, attempts, pieces.take(pieces.uvarint()))


def _name(pieces: Pieces) -> str:
    name = pieces.take(pieces.uvarint()).decode("ascii", "replace")
    require(_NAME.fullmatch(name) is not None, f"{pieces.what}: {name!r} names no data file")
    return name


def _descriptors(pieces: Pieces) -> Iterator[File]:
    while pieces.left:
        name, created, last, flags = _name(pieces), _id(pieces), _id(pieces), pieces.number("B")
        offset, length, bound = pieces.uvarint(), pieces.uvarint(), pieces.number("<Q")
        require(flags <= _WRITTEN | _READ, f"{pieces.what}: {name}: flags {flags}")
        require(created <= last, f"{pieces.what}: {name}: last touched before it was made")
        require(offset <= length, f"{pieces.what}: {name}: read up to {offset} of {length} bytes")
        yield File(name, created, last, flags, offset, length, bound)


def events(data: bytes, name: str) -> Iterator[tuple[Id, Pieces]]:
    """State id and payload of each event. None crosses the end of a frame; zeros fill it."""
    if not data:
        return
    frame, most = Pieces(data, name).numbers("<QQ")
    require(most >= 18 and frame >= most, f"{name}: frames of {frame} bytes, payloads up to {most}")
    for begin in range(16, len(data), frame):
        pieces = Pieces(data[: begin + frame], name, begin)
        while pieces.left:
            if not any(pieces.data[pieces.at : pieces.at + 8]) or pieces.left < 18:
                require(
                    not any(pieces.take(pieces.left)), f"{name}: byte {pieces.at}: no event, and not zero"
                )
                break
            offset, at = pieces.at, _id(pieces)
            size = pieces.uvarint()
            require(0 < size <= most, f"{name}: byte {offset}: a payload of {size} bytes")
            payload = pieces.take(size)
            if name == "operations.log":
                event = pieces.data[offset : pieces.at - 4]
                require(
                    payload[-4:] == crc32_mpeg2(event).to_bytes(4, "little"),
                    f"{name}: byte {offset}: checksum",
                )
                payload = payload[:-4]
            yield at, Pieces(payload, f"{name}: byte {offset}: operation {at}")


# The five operations of the change log


def _change(state: State, at: Id, code: int, pieces: Pieces) -> None:
    if code == 1:
        delay, now = pieces.numbers("<IQ")
        require(delay > 0, f"{pieces.what}: a delay of 0 seconds")
        require(0 < now + delay < _YEAR_10000, f"{pieces.what}: a time of {now}")
        chain = state.chains().get(delay, [])
        require(not any(file.flags & _WRITTEN for file in chain), f"{pieces.what}: a second file is written")
        file = File(_next_name(state, delay, now), at, at, _WRITTEN, 0, 0, now + delay)
        state.files[file.name] = file
        return
    name = _name(pieces)
    if code == 3:
        state.files.pop(name, None)
        return
    require(name in state.files, f"{pieces.what}: no file {name}")
    file = state.files[name]
    if code == 2:
        require(file.flags & _WRITTEN != 0, f"{pieces.what}: {name} is not written")
        file.flags &= ~_WRITTEN
    elif code == 4:
        file.flags |= _READ
    else:
        file.offset += pieces.uvarint()
    file.last_id = max(file.last_id, at)


def _next_name(state: State, delay: int, now: int) -> str:
    """The hour of the beginning; behind the living ones of that hour."""
    hour = datetime.fromtimestamp(now, UTC).strftime("%Y%m%d%H")
    living = [match for name in state.files if (match := _NAME.fullmatch(name))]
    numbers = [int(match[3] or 0) for match in living if (int(match[1]), match[2]) == (delay, hour)]
    return f"{delay}@{hour}.data" if not numbers else f"{delay}@{hour}-{max(numbers) + 1}.data"


def _fill(file: File, data: bytes, *, grew: bool) -> None:
    """The bytes of a file without an operation log. One that grew counts up to where its records end."""
    told = file.length
    require(len(data) >= told, f"{file.name}: {len(data)} bytes, {told} are told")
    require(grew or len(data) == told, f"{file.name}: a closed file is longer than told")
    if file.flags & _WRITTEN:
        pieces = Pieces(data, file.name)
        while pieces.left and any(data[pieces.at :]):
            _record(pieces)
        require(pieces.at >= told, f"{file.name}: zeros below its length")
        data = data[: pieces.at]
    file.data, file.length = data, len(data)


def _check(state: State) -> None:
    """What must hold of all files together."""
    for chain in state.chains().values():
        before = 0
        for file in chain:
            records = file.records()
            times = [record.due for _, record in records.values()]
            require(
                not times or file.bound <= times[0], f"{file.name}: the first record is due before the bound"
            )
            require(
                times == sorted(times) and before <= min(times, default=before), f"{file.name}: times go back"
            )
            require(
                file.offset in (*records, file.length), f"{file.name}: the read position is inside a record"
            )
            require(not file.flags & _WRITTEN or file is chain[-1], f"{file.name}: written, and not the last")
            ends = {offset + size for offset, (size, _) in records.items()}
            for _, begin, size in (place for place in state.done if place[0] == file.name):
                require(begin in records and begin + size in ends, f"{file.name}: byte {begin}: no records")
            before = max(times, default=before)


# The operation log


def _replay(files: Mapping[str, bytes]) -> State:
    log = events(files["operations.log"], "operations.log")
    state = State()
    try:
        latest, base = next(log)
    except StopIteration:
        raise DamagedError("operations.log: no checkpoint") from None
    require(base.number("<I") == 32, f"{base.what}: it is no checkpoint")
    opened, places, exhausted = base.uvarint(), base.uvarint(), base.number("<Q")
    for file in _descriptors(Pieces(base.take(base.uvarint()), base.what)):
        state.files[file.name] = file
        file.data = files.get(file.name, b"")[: file.length]
    for _ in range(places):
        state.done.append(_place(base))
    aside = Pieces(files.get("exhausted.sessions", b"")[:exhausted], "exhausted.sessions")
    require(aside.left == exhausted, f"exhausted.sessions: shorter than {exhausted} bytes")
    while aside.left:
        state.exhausted.append(_record(aside))
    for at, pieces in log:
        code = pieces.number("<I")
        if code == 33:
            opened -= 1
            _open(state, pieces)
            continue
        require(opened == 0, f"{pieces.what}: {opened} open sessions are missing")
        require(at > latest, f"{pieces.what}: it comes after {latest}")
        latest = at
        _operate(state, at, code, pieces)
        require(not pieces.left, f"{pieces.what}: {pieces.left} bytes follow the operation")
    require(opened == 0, f"operations.log: {opened} open sessions are missing")
    for file in state.files.values():
        require(len(file.data) == file.length, f"{file.name}: shorter than the checkpoint tells")
        there = files.get(file.name, b"")
        common = min(len(there), len(file.data))
        require(there[:common] == file.data[:common], f"{file.name}: other bytes than the operations tell")
        require(not any(there[common:]), f"{file.name}: bytes that no operation tells")
    return state


def _place(pieces: Pieces) -> tuple[str, int, int]:
    return _name(pieces), pieces.uvarint(), pieces.uvarint()


def _open(state: State, pieces: Pieces) -> None:
    session, _, topic, attempts = _id(pieces), _id(pieces), pieces.number("<i"), pieces.uvarint()
    name = pieces.take(pieces.uvarint()).decode("ascii")
    place = name, pieces.uvarint(), pieces.uvarint()
    state.opened[session] = Open(topic, pieces.take(pieces.left), attempts, place if name else None)


def _operate(state: State, at: Id, code: int, pieces: Pieces) -> None:
    if code <= 5:
        _change(state, at, code, pieces)
    elif code == 6:
        state.opened[at] = Open(pieces.number("<i"), pieces.take(pieces.left))
    elif code <= 10:
        session = _id(pieces)
        require(session in state.opened, f"{pieces.what}: {session} is not open")
        one = state.opened[session]
        if code == 7:
            one.data += pieces.take(pieces.left)
        elif code == 8:
            one.data = pieces.take(pieces.left)
        else:
            del state.opened[session]
            if code == 10:
                delay, due = pieces.numbers("<IQ")
                attempts = one.attempts + (one.place is not None)
                _append(state, delay, _encoded(Record(due, session, one.topic, attempts, one.data)))
            if one.place is not None:
                state.done.append(one.place)
    elif code == 11:
        delay, count = pieces.number("<I"), pieces.uvarint()
        records = pieces.take(pieces.left)
        require(_append(state, delay, records) == count, f"{pieces.what}: not {count} records")
    elif code == 12:
        place = _place(pieces)
        record = _record(pieces)
        state.opened[record.id] = Open(record.topic, record.data, record.attempts, place)
    elif code == 13:
        state.done.append(_place(pieces))
    elif code == 14:
        place, delay = _place(pieces), pieces.number("<I")
        _append(state, delay, pieces.take(pieces.left))
        state.done.append(place)
    elif code == 15:
        place = _place(pieces)
        while pieces.left:
            state.exhausted.append(_record(pieces))
        state.done.append(place)
    else:
        raise DamagedError(f"{pieces.what}: no operation has the code {code}")


def _encoded(record: Record) -> bytes:
    fixed = record.due.to_bytes(8, "little") + b"".join(part.to_bytes(8, "little") for part in record.id)
    numbers = _uvarint(record.attempts) + _uvarint(len(record.data))
    return fixed + record.topic.to_bytes(4, "little", signed=True) + numbers + record.data


def _uvarint(value: int) -> bytes:
    return bytes([value]) if value < 0x80 else bytes([value & 0x7F | 0x80]) + _uvarint(value >> 7)


def _append(state: State, delay: int, records: bytes) -> int:
    """Behind the last record of a delay; how many they are."""
    chain = state.chains().get(delay, [])
    require(bool(chain) and chain[-1].flags & _WRITTEN != 0, f"no file of the delay {delay} is written")
    pieces, count = Pieces(records, chain[-1].name), 0
    while pieces.left:
        _record(pieces)
        count += 1
    chain[-1].data += records
    chain[-1].length += len(records)
    return count
