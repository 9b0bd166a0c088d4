"""Files walked by tasks: snippets window by window, with a sample of the keys."""

from __future__ import annotations

import functools
import posixpath
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from flintlog.core.live import Mark, mark_of
from flintlog.core.workers import Workers
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone import scan
from flintlog.dialects.limestone.candidates import Ints, Words
from flintlog.dialects.limestone.replay import OF_KEYS
from flintlog.dialects.limestone.scan import Around, Entries, Snippets, Stop, Walk
from flintlog.dialects.limestone.survey import Survey, survey
from flintlog.disk import COPY_BYTES_MAX, Disk, File, Progress

WINDOW_BYTES = 64 << 20
SAMPLE_BYTES = 72  # of each sampled key

_SLACK = 1 << 16  # behind a window, for the record that crosses its end
_SAMPLES_MAX = 256  # of each window
_SAMPLES_MIN = 16
_SAMPLES = 1 << 16  # of all windows


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file of a directory, for a task."""

    disk: Disk
    path: str
    name: str
    active: bool

    def open(self) -> File:
        return self.disk.open(posixpath.join(self.path, self.name))

    def window(self, file: File, start: int, end: int) -> memoryview:
        """Some bytes. An active log may be cut meanwhile, so that they are copied while it is small."""
        if self.active and file.size() <= COPY_BYTES_MAX:
            return memoryview(file.pread(end - start, start))
        return file.window(start, end)


@dataclass(frozen=True, slots=True)
class LogWindow:
    """A window of a file: its snippets, how many entries of keys and which storages; a sample of the keys."""

    start: int
    end: int
    snippets: Snippets  # one that began before the window has its entries in the window only
    carried: bool  # the first one did
    storages: tuple[int, ...]
    sample_storage: Words
    sample: NDArray[np.uint8]  # the first bytes of each key, filled with zeros
    sample_length: Ints
    changes: tuple[Entries, Snippets] | None  # what happened to whole storages


@dataclass(frozen=True, slots=True)
class Looked:
    """A file that was looked at."""

    pieces: tuple[LogWindow, ...]
    stop: Stop

    @property
    def walk(self) -> Walk:
        """The walk over the whole file."""
        return Walk(_joined([(piece.snippets, piece.carried) for piece in self.pieces]), self.stop)


def look(file: LogFile, window_bytes: int = WINDOW_BYTES, samples: int = _SAMPLES_MAX) -> Looked:
    """Walk a file window by window, with so many sampled keys of each."""
    pieces: list[LogWindow] = []
    at, around = 0, None
    with file.open() as opened:
        size = opened.size()
        while True:
            view, walk = _walk_window(file, opened, at, size, window_bytes, around)
            pieces.append(_piece(view, walk, at, around is not None, samples))
            stop = walk.stop
            at += stop.offset
            if not stop.good or at >= size:
                return Looked(tuple(pieces), replace(stop, offset=at))
            around = None
            if stop.inside:
                last = pieces[-1].snippets[-1:]
                around = Around(int(last.offset[0]), int(last.epoch[0]), int(last.kind[0]))


def samples_of(windows: int) -> int:
    """How many keys are sampled of each of so many windows."""
    return max(_SAMPLES_MIN, min(_SAMPLES_MAX, _SAMPLES // max(windows, 1)))


def _walk_window(
    file: LogFile, opened: File, at: int, size: int, window_bytes: int, around: Around | None
) -> tuple[memoryview, Walk]:
    """A window from `at` on, and the walk over it; offsets count from its beginning."""
    here = None if around is None else replace(around, offset=around.offset - at)
    room = window_bytes + _SLACK
    while True:
        end = min(at + room, size)
        view = file.window(opened, at, end)
        walk = scan.walk(view, 0, window_bytes, here)
        if walk.stop.reason == scan.CUT and end < size:
            needed = walk.stop.offset + (lay.record_size(view, walk.stop.offset) or 0)
            if walk.stop.offset:
                return view, replace(walk, stop=replace(walk.stop, reason=scan.PAUSED))
            if at + needed <= size:
                room = (
                    needed + lay.BLOB_COUNT.size
                )  # where the number of its blobs stands, it says how long it is
                continue
        if walk.stop.reason == scan.EDGE and end < size:
            return view, replace(walk, stop=replace(walk.stop, reason=scan.PAUSED))
        return view, walk


def _piece(view: memoryview, walk: Walk, start: int, carried: bool, samples: int) -> LogWindow:
    good = walk.snippets[walk.snippets.kind == lay.BEGIN]
    step = max(int(good.entries.sum()) // samples, 1)
    storages: set[int] = set()
    sampled: list[Entries] = []
    changed: list[Entries] = []
    seen = 0
    for entries in scan.read_entries(view, good, end=walk.stop.offset):
        of_keys = OF_KEYS[entries.type]
        if not of_keys.all():
            changed.append(entries[~of_keys])
            entries = entries[of_keys]
        if not len(entries):
            continue
        if bool((entries.storage == entries.storage[0]).all()):
            storages.add(int(entries.storage[0]))
        else:
            storages.update(np.unique(entries.storage).tolist())
        sampled.append(entries[-seen % step :: step])
        seen += len(entries)
    some = Entries.join(sampled)
    keys = np.zeros((len(some), SAMPLE_BYTES), np.uint8)
    for row, (begin, length) in enumerate(zip(some.key.tolist(), some.key_length.tolist(), strict=True)):
        used = min(length, SAMPLE_BYTES)
        keys[row, :used] = np.frombuffer(view[begin : begin + used], np.uint8)
    return LogWindow(
        start,
        start + walk.stop.offset,
        shifted(walk.snippets, start),
        carried,
        tuple(sorted(storages)),
        some.storage,
        keys,
        some.key_length,
        (Entries.join(changed), good) if changed else None,
    )


def shifted(snippets: Snippets, by: int) -> Snippets:
    return replace(snippets, offset=snippets.offset + by, end=snippets.end + by)


def _joined(parts: Sequence[tuple[Snippets, bool]]) -> Snippets:
    """The snippets of windows as those of the file: one that goes on in the next window is one."""
    done: list[Snippets] = []
    for snippets, carried in parts:
        if carried:
            before, first = done[-1], snippets[:1]
            for name in ("end", "closed", "end_epoch"):
                getattr(before, name)[-1] = getattr(first, name)[0]
            before.entries[-1] += first.entries[0]
            snippets = snippets[1:]
            if not len(snippets):
                continue
        done.append(Snippets(*(getattr(snippets, name).copy() for name in Snippets.types())))
    return Snippets.join(done)


class Looks:
    """Files as workers saw them. A file whose bytes are as they were is not looked at again."""

    def __init__(self, workers: Workers, window_bytes: int = WINDOW_BYTES) -> None:
        self.workers = workers
        self._window_bytes = window_bytes
        self._seen: dict[Mark, Looked] = {}

    @classmethod
    def of(cls, workers: Workers | Looks) -> Looks:
        """The looks of workers, or those that were taken already."""
        return workers if isinstance(workers, Looks) else cls(workers)

    def walks(self, found: Survey, names: Sequence[str]) -> Iterator[Walk]:
        """How the files of a survey are walked."""
        return (looked.walk for looked in self.files(found, names))

    def files(self, found: Survey, names: Sequence[str]) -> Iterator[Looked]:
        """Files of a survey."""
        active = {log.name for log in found.listing.logs if log.active}
        items = [LogFile(found.disk, found.path, name, name in active) for name in names]
        begin = time.time_ns()
        marks = [mark_of(found.disk.stat(posixpath.join(found.path, name)), begin) for name in names]
        new = [item for item, mark in zip(items, marks, strict=True) if mark not in self._seen]
        samples = samples_of(found.size // self._window_bytes + len(names))
        task = functools.partial(look, window_bytes=self._window_bytes, samples=samples)
        looked = self.workers.map(task, new)
        kept: dict[Mark, Looked] = {}
        for mark in marks:
            known = None if mark is None else self._seen.get(mark)
            file = next(looked) if known is None else known
            if mark is not None:
                kept[mark] = file
            yield file
        self._seen = kept


class Looking:
    """A look at a directory by workers: a survey, and what its state needs besides."""

    def __init__(self, looks: Looks, disk: Disk, path: str, *, progress: Progress | None = None) -> None:
        self.workers = looks.workers
        self.files: dict[str, Looked] = {}
        self._looks = looks
        self.survey = survey(disk, path, progress=progress, walker=self._walks)

    def _walks(self, found: Survey, names: Sequence[str]) -> Iterator[Walk]:
        for name, looked in zip(names, self._looks.files(found, names), strict=True):
            self.files[name] = looked
            yield looked.walk
