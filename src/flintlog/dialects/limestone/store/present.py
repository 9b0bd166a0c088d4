"""What is durable now: sorted places, and on top of them an index of what became durable since.

The places are those of the state at opening, and after a compaction those of its compacted files. The index has for
each newer key its version and where its record stands; keys are in memory, values stay in the logs. A read brings it
up to the durable epoch, from the sessions that the logs have got: writing costs nothing more. A compaction begins a
new one.

The rules are those of recovery (`survey.py`): entries of logs count by their versions, of equal ones the later in its
channel or that of the higher channel; every one of them beats a compacted file.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from flintlog.core import threads
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone import scan
from flintlog.dialects.limestone.files import LogFile, log_file
from flintlog.dialects.limestone.layout import Entry, Version
from flintlog.dialects.limestone.replay import OF_KEYS, Cleared, State
from flintlog.dialects.limestone.scan import Entries, Snippets
from flintlog.dialects.limestone.store.places import Place, Places
from flintlog.dialects.limestone.survey import counted
from flintlog.disk import Disk, File, give_back


class Tail:
    """A log that sessions come from. No store cuts one while it is open, so that it can be mapped."""

    def __init__(self, log: LogFile, file: File, at: int) -> None:
        self.log = log
        self.file = file
        self.at = at  # up to here it was read
        self.view = memoryview(b"")


class Newer(NamedTuple):
    """The newest entry of a key above the places. Of two the greater (version, channel) counts."""

    version: Version
    channel: int
    tail: Tail | None  # None: a removal below the places
    offset: int
    removed: bool

    def entry(self) -> Entry:
        assert self.tail is not None
        return lay.decode(self.tail.view, self.offset)[0]


@dataclass(slots=True)
class Base:
    """Places that hold all up to an epoch, and the index above them. Files without a channel are compacted ones."""

    places: Places
    channels: list[int | None]
    epoch: int
    cleared: Cleared
    state: State | None = None  # what the places came from, as long as a removal in it may count
    newer: dict[int, dict[bytes, Newer]] = field(default_factory=dict)
    reached: int = -1  # the epoch up to which the index is complete

    def place_of(self, wanted: Place, storage: int) -> int | None:
        """Which record of the places is that of a key, if it was not cleared since."""
        at = self.places.find(wanted)
        return at if at is not None and self._lives(at, storage) else None

    def newer_of(self, storage: int, key: bytes, at: int | None) -> Newer | None:
        """The entry above the places, where it counts more than the record at `at`."""
        found = self.newer.get(storage, {}).get(key)
        return found if found is not None and self.beats(found, at) else None

    def beats(self, newer: Newer, at: int | None) -> bool:
        """Does an entry count more than a record of the places?"""
        channel = None if at is None else self.channels[self.places.record(at)[0]]
        if at is None or channel is None:
            return True
        return newer[:2] >= (self.places.entry(at).version, channel)

    def is_gone(self, storage: int, newer: Newer) -> bool:
        return newer.removed or self.cleared.hides(storage, newer.version, base=False)

    def _lives(self, at: int, storage: int) -> bool:
        if not self.cleared:
            return True
        base = self.channels[self.places.record(at)[0]] is None
        return not self.cleared.hides(storage, self.places.entry(at).version, base=base)

    def add(self, tail: Tail, entries: Entries, snippets: Snippets) -> None:
        """Take in entries of a log."""
        of_keys = OF_KEYS[entries.type]
        if not of_keys.all():
            self.cleared.note(entries[~of_keys], snippets, self.epoch)
            entries = entries[of_keys]
        rows = zip(
            entries.storage.tolist(),
            entries.key.tolist(),
            entries.key_length.tolist(),
            entries.major.tolist(),
            entries.minor.tolist(),
            entries.offset.tolist(),
            (entries.type == lay.REMOVE).tolist(),
            strict=True,
        )
        view, channel = tail.view, tail.log.order[0]
        if len(entries):
            self._know_removals((int(entries.major.min()), 0))
        for storage, at, length, major, minor, offset, removed in rows:
            keys = self.newer.setdefault(storage, {})
            key = bytes(view[at : at + length])
            known = keys.get(key)
            if known is None or known[:2] <= ((major, minor), channel):
                keys[key] = Newer((major, minor), channel, tail, offset, removed)

    def _know_removals(self, version: Version) -> None:
        """Before an entry comes whose version a removal below the places may beat: put all those into the index. A
        writer that names no versions never comes here, because its versions rise."""
        if self.state is None or self.state.removed is None or self.state.removed < version:
            return
        for entry, channel in self.state.removals():
            keys = self.newer.setdefault(entry.storage, {})
            known = keys.get(entry.key)
            if known is None or known[:2] < (entry.version, channel):
                keys[entry.key] = Newer(entry.version, channel, None, 0, True)
        self.state = None


class Present:
    """Reads what is durable. `durable` says up to which epoch that is."""

    def __init__(self, disk: Disk, path: str, base: Base, durable: Callable[[], int]) -> None:
        self._disk = disk
        self._path = path
        self._durable = durable
        self._lock = threads.rlock()  # held while logs change their names, and while they are read
        self._base = base
        self._settled = frozenset[str]()  # logs that get nothing more
        self._tails: dict[str, Tail] = {}
        logs = self._logs()
        self._settled = frozenset(log.name for log in logs if not log.active)
        for log in logs:
            if log.active:
                self._follow(log)
                self._tails[log.name].at = self._tails[log.name].file.size()

    def entry(self, storage: int, key: bytes) -> Entry | None:
        """The entry of a key; None when there is none."""
        base = self._caught_up()
        at = base.place_of(base.places.place(storage, key), storage)
        newer = base.newer_of(storage, key, at)
        if newer is not None:
            return None if base.is_gone(storage, newer) else newer.entry()
        return None if at is None else base.places.entry(at)

    def scan(self, storage: int | None, start: bytes, stop: bytes | None) -> Iterator[Entry]:
        """Entries in the order of their keys, all of one epoch."""
        with self._lock:
            base = self._caught_up()
            above = {
                base.places.place(number, key): (number, newer)
                for number in ([storage] if storage is not None else base.newer)
                for key, newer in base.newer.get(number, {}).items()
                if storage is None or (key >= start and (stop is None or key < stop))
            }
            base = replace(base, cleared=base.cleared.copy())
        places = base.places
        first = 0 if storage is None else places.first(places.place(storage, start))
        end = None if storage is None or stop is None else places.place(storage, stop)
        upcoming = sorted(above, reverse=True)
        for at in range(first, len(places)):
            entry = places.entry(at)
            place = places.place(entry.storage, entry.key)
            if (storage is not None and entry.storage != storage) or (end is not None and place >= end):
                break
            while upcoming and upcoming[-1] < place:
                yield from _live(base, *above[upcoming.pop()])
            if upcoming and upcoming[-1] == place and base.beats(above[place][1], at):
                yield from _live(base, *above[upcoming.pop()])
                continue
            if upcoming and upcoming[-1] == place:
                upcoming.pop()
            if base.place_of(place, entry.storage) is not None:
                yield entry
        while upcoming:
            yield from _live(base, *above[upcoming.pop()])

    @contextmanager
    def changing(self) -> Iterator[dict[str, str]]:
        """Around changes of the logs: reads wait meanwhile. Takes the new names of the logs that got one."""
        with self._lock:
            renamed: dict[str, str] = {}
            yield renamed
            for old, new in renamed.items():
                if old in self._tails:
                    tail = self._tails[new] = self._tails.pop(old)
                    tail.log = log_file(new, 0)

    def rebase(self, base: Base, superseded: Collection[str]) -> None:
        """Read compacted files, and above them what the logs hold behind their epoch."""
        with self._lock:
            self.close()
            self._base = base
            self._settled = frozenset(superseded)

    def close(self) -> None:
        with self._lock:
            for tail in self._tails.values():
                tail.file.close()
            self._tails = {}

    def _caught_up(self) -> Base:
        """What is durable now."""
        base = self._base  # once: a rebase may put another in its place
        if self._durable() <= base.reached:
            return base
        with self._lock:
            durable = self._durable()
            for log in self._logs():
                if log.name not in self._tails and log.name not in self._settled:
                    self._follow(log)
            for tail in sorted(self._tails.values(), key=lambda tail: tail.log.order):
                self._read(tail, durable)
            self._base.reached = max(self._base.reached, durable)
            return self._base

    def _logs(self) -> list[LogFile]:
        return [log_file(name, 0) for name in self._disk.list(self._path) if lay.is_wal_name(name)]

    def _follow(self, log: LogFile) -> None:
        self._tails[log.name] = Tail(log, self._disk.open(posixpath.join(self._path, log.name)), 0)

    def _read(self, tail: Tail, durable: int) -> None:
        """Take in the sessions of a log that became durable. Its sessions come in the order of their epochs."""
        if tail.file.size() == tail.at:
            return
        tail.view = tail.file.view()
        snippets = counted(scan.walk(tail.view, tail.at).snippets, self._base.epoch, durable)
        for entries in scan.read_entries(tail.view, snippets, tail.at):
            self._base.add(tail, entries, snippets)
        if len(snippets):
            begin, tail.at = tail.at, int(snippets.end[-1])
            give_back(tail.view, begin, tail.at)


def _live(base: Base, storage: int, newer: Newer) -> Iterator[Entry]:
    if not base.is_gone(storage, newer):
        yield newer.entry()
