"""From entries to state: the one replay of the live store, the command line and Spark.

The state is every key with its newest value, given as pointers: the file and the offset of each record.
Storages come in the order of their numbers, or in that of their bytes on disk (`merge.by_bytes`), as files of the
original have them; keys come in the order of their bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from flintlog.columns.table import Columns
from flintlog.core.live import ChangedError
from flintlog.core.workers import threads_for
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone import scan
from flintlog.dialects.limestone.candidates import (
    BASE,
    LENGTH_MAX,
    REMOVE,
    Candidates,
    Groups,
    Keyed,
    Source,
    Sources,
)
from flintlog.dialects.limestone.layout import Entry, Version
from flintlog.dialects.limestone.merge import Merge, numeric
from flintlog.dialects.limestone.passes import MEMORY_BYTES, Passes
from flintlog.dialects.limestone.scan import Entries, Ints, Snippets, Words
from flintlog.dialects.limestone.survey import Survey
from flintlog.disk import give_back

T = TypeVar("T")

OF_KEYS = np.zeros(256, bool)  # the types of entries that have a key
OF_KEYS[[lay.PUT, lay.REMOVE, lay.PUT_BLOBS]] = True


@dataclass(frozen=True, slots=True)
class Live(Columns):
    """Some live entries in key order: the number of each one's file among those of the state, and its offset."""

    file: NDArray[np.int32]
    offset: Ints
    storage: Words
    major: Words
    minor: Words
    key_length: Ints
    length: Ints  # of the whole record


@dataclass(frozen=True, slots=True)
class Reading:
    """One file and the snippets in it that count."""

    name: str
    snippets: Snippets
    channel: int | None  # None: it is a compacted file
    active: bool

    @property
    def base(self) -> bool:
        return self.channel is None


class State:
    """The state of a directory at an epoch. Iterating reads the files and gives the live entries in batches."""

    def __init__(
        self,
        survey: Survey,
        as_of: int | None = None,
        *,
        order: Callable[[int], int] = numeric,
        memory_bytes: int = MEMORY_BYTES,
    ) -> None:
        survey.refuse_damage()
        self.epoch = epoch_of(survey, as_of)
        self._survey = survey
        self._memory_bytes = memory_bytes
        self._readings = list(readings(survey, self.epoch))
        self.names = [reading.name for reading in self._readings]
        self.views = [survey.view(reading.name, active=reading.active) for reading in self._readings]
        self.channels = [reading.channel for reading in self._readings]
        self._sources = _sources(self.views)
        self._merge = Merge(Sources(self._sources), threads_for(sum(map(len, self.views))), order)
        self.cleared = Cleared()
        self.entries = sum(int(reading.snippets.entries.sum()) for reading in self._readings)
        self._seen = [0] * len(self._readings)  # entries of each file in this pass
        self._removed: list[Version] = []  # the highest version of a removal in each batch; threads add to it

    def __iter__(self) -> Iterator[Live]:
        return self.mapped(lambda live: live)

    def mapped(self, function: Callable[[Live], T]) -> Iterator[T]:
        """Call a function with each batch of live entries, in several threads; gives its results in key order."""
        return self._passes().mapped(lambda winners: function(self._live(winners)))

    @property
    def removed(self) -> Version | None:
        """The highest version of a removal that counts, as far as the batches went."""
        return max(self._removed, default=None)

    def removals(self) -> Iterator[tuple[Entry, int]]:
        """The removals that count, each with its channel. Reads the files again."""
        for live in self._passes().mapped(lambda all_: self._found(all_[(all_.flags & REMOVE) != 0])):
            for which, offset in zip(live.file.tolist(), live.offset.tolist(), strict=True):
                channel = self.channels[which]
                assert channel is not None  # compacted files have no removals
                yield lay.decode(self.views[which], offset)[0], channel

    def _passes(self) -> Passes:
        return Passes(self._merge, self._streams, self._memory_bytes, self._tell)

    def numbers(self, live: Live) -> Words:
        """Where entries stand when the files are laid end to end."""
        return live.offset.astype(np.uint64) + self._merge.sources.starts[live.file]

    def _live(self, winners: Candidates) -> Live:
        removed = (winners.flags & REMOVE) != 0
        if removed.any():
            major, minor = winners.major[removed], winners.minor[removed]
            highest = major.max()
            self._removed.append((int(highest), int(minor[major == highest].max())))
        return self._found(winners[self.cleared.is_live(winners, self._merge.groups)])

    def _found(self, live: Candidates) -> Live:
        file = self._merge.sources.of(live.address)
        offset = (live.address - self._merge.sources.starts[file]).astype(np.int64)
        return Live(
            file,
            offset,
            self._merge.groups.storage_of(live.group),
            live.major,
            live.minor,
            live.key_length.astype(np.int64),
            lengths_of(self._merge.sources, live),
        )

    def _tell(self) -> None:
        """Report how far this pass over the files is, as if all entries had one size."""
        size = sum(len(view) for view in self.views)
        self._survey.disk.progress(sum(self._seen) * size // max(self.entries, 1), size)

    def _streams(self, merge: Merge) -> list[Iterator[Candidates]]:
        return [self._stream(merge, which) for which in range(len(self._readings))]

    def _stream(self, merge: Merge, which: int) -> Iterator[Candidates]:
        """The candidates of one file."""
        reading, source = self._readings[which], self._sources[which]
        seen = 0
        for entries in scan.read_entries(source.buffer, reading.snippets):
            seen += len(entries)
            self._seen[which] = seen
            of_keys = OF_KEYS[entries.type]
            if not of_keys.all():
                self.cleared.note(entries[~of_keys], reading.snippets, self._survey.low)
                entries = entries[of_keys]
            if len(entries):
                yield merge.candidates(source, columns_of(entries, base=reading.base))
                give_back(source.buffer, int(entries.offset[0]), int(entries.offset[-1]))
        if seen != int(reading.snippets.entries.sum()):
            raise ChangedError(
                "this file was changed while it was read",
                file=f"{self._survey.path}/{reading.name}",
                advice="Read the directory again",
            )


def epoch_of(survey: Survey, as_of: int | None) -> int:
    """The epoch of the state asked for: the durable one, or an earlier one whose state is still there."""
    if as_of is None:
        return survey.durable
    survey.refuse_missing(as_of)
    return min(as_of, survey.durable)  # compacted files may reach further than the epoch files


class Cleared:
    """The storages that were cleared or removed, and with which version."""

    def __init__(self) -> None:
        self._versions: dict[int, Version] = {}
        self._emptied: set[int] = set()  # storages whose entries in the base are gone

    def note(self, entries: Entries, snippets: Snippets, low: int) -> None:
        """Note the operations on storages among some entries; the base reaches up to epoch `low`."""
        for at in np.flatnonzero(~OF_KEYS[entries.type] & (entries.type != lay.ADD_STORAGE)).tolist():
            storage = int(entries.storage[at])
            version = (int(entries.major[at]), int(entries.minor[at]))
            self._versions[storage] = max(self._versions.get(storage, (0, 0)), version)
            if int(snippets.epoch[entries.snippet[at]]) > low:
                self._emptied.add(storage)

    def __bool__(self) -> bool:
        return bool(self._versions)

    def copy(self) -> Cleared:
        copied = Cleared()
        copied._versions, copied._emptied = self._versions.copy(), self._emptied.copy()
        return copied

    def hides(self, storage: int, version: Version, *, base: bool) -> bool:
        """Has a clearing taken this entry away? `base` says that it stands in a compacted file."""
        if base:
            return storage in self._emptied
        return version < self._versions.get(storage, version)

    def is_live(self, winners: Candidates, groups: Groups) -> NDArray[np.bool_]:
        """Which winners are neither removed nor cleared. An entry with the same version as a clearing stays."""
        live: NDArray[np.bool_] = (winners.flags & REMOVE) == 0
        if not self._versions:
            return live
        storage = groups.storage_of(winners.group)
        base = (winners.flags & BASE) != 0
        for number, (major, minor) in self._versions.items():
            mine = storage == np.uint64(number)
            older = (winners.major < np.uint64(major)) | (
                (winners.major == np.uint64(major)) & (winners.minor < np.uint64(minor))
            )
            live &= ~(mine & ~base & older)
            if number in self._emptied:
                live &= ~(mine & base)
        return live


def lengths_of(sources: Sources, part: Candidates) -> Ints:
    """The lengths of candidates' records; very long ones are read from the records."""
    length = part.length.astype(np.int64)
    for at in np.flatnonzero(part.length == np.uint32(LENGTH_MAX)).tolist():
        begin = part.address[at : at + 1]
        size, needed = 0, lay.PUT_HEADER.size
        while size < needed:  # the head says where the number of blobs is, which says where the end is
            size = needed
            _, buffer, start = next(sources.chunks(begin, begin + np.uint64(size)))
            offset = int(begin[0]) - start
            needed = lay.record_size(buffer[: offset + size], offset) or size
        length[at] = size
    return length


def columns_of(entries: Entries, *, base: bool) -> Keyed:
    """Entries with keys, as a merge takes them."""
    flags = np.where(entries.type == lay.REMOVE, REMOVE, 0).astype(np.uint8)
    if base:
        flags |= np.uint8(BASE)
    return Keyed(
        entries.storage,
        entries.offset,
        entries.length,
        entries.key,
        entries.key_length,
        entries.prefix,
        entries.major,
        entries.minor,
        flags,
    )


def readings(survey: Survey, epoch: int) -> Iterator[Reading]:
    """The files and snippets that make the state at an epoch; the base first."""
    for name in survey.base:
        snippets = survey.base_walks[name].snippets
        yield Reading(name, snippets[snippets.kind == lay.BEGIN], None, False)
    low = -1 if survey.all_history else survey.low
    for read in survey.logs:
        counted = read.counted(low, epoch)
        if len(counted):
            yield Reading(read.file.name, counted, read.file.order[0], read.file.active)


def _sources(views: list[memoryview]) -> list[Source]:
    sources = []
    start = 0
    for view in views:
        sources.append(Source(view, start))
        start += len(view)
    return sources
