"""Large values in files of their own, named by entries of the log (shipped edition)."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager

import numpy as np

from flintlog.core import threads
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone import scan
from flintlog.dialects.limestone.layout import Edition
from flintlog.dialects.limestone.survey import Survey
from flintlog.disk import Buffer, Disk
from flintlog.errors import RefusedError, UsageError


def referenced(found: Survey) -> set[int]:
    """Every blob that an entry of any file names, whether the entry still counts or not."""
    named: set[int] = set()
    walks = [(name, walk.snippets, False) for name, walk in found.base_walks.items()]
    walks += [(read.file.name, read.snippets, read.file.active) for read in found.logs]
    for name, snippets, active in walks:
        view = found.view(name, active=active)
        for entries in scan.read_entries(view, snippets):
            for at in np.flatnonzero(entries.type == lay.PUT_BLOBS).tolist():
                named.update(lay.decode(view, int(entries.offset[at]))[0].blobs)
    return named


class Blobs:
    """Numbers and files. A blob is durable before its number is given out."""

    def __init__(
        self,
        disk: Disk,
        path: str,
        edition: Edition,
        largest: int,
        guard: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._disk = disk
        self._guard = guard  # the store's, around every change of a file
        self._edition = edition
        self._path = path
        self._lock = threads.lock()
        self._largest = largest

    def add(self, chunks: bytes | Iterable[bytes]) -> int:
        """Write a blob; durable on return. Returns its number, for `put(..., blobs=[number])`."""
        if self._edition != "shipped":
            raise RefusedError(
                "the designed edition has no blobs", advice="Make the directory with edition='shipped'"
            )
        with self._guard(), self._lock:
            self._largest += 1
            number = self._largest
        path = self.path(number)
        with self._guard():
            self._disk.make_directory(posixpath.dirname(path))
            file = self._disk.create_scratch(path)
        with file:
            end = 0
            for chunk in [chunks] if isinstance(chunks, bytes) else chunks:
                data = _bytes_of(chunk)
                with self._guard():  # not around the iterator: what it raises is the caller's own
                    file.pwrite(data, end)
                end += len(data)
            with self._guard():
                file.sync()
                self._disk.sync_directory(posixpath.dirname(path))
        return number

    def read(self, number: int) -> bytes:
        """What a blob holds."""
        path = self.path(number)
        stat = self._disk.stat(path)
        if stat is None:
            raise RefusedError(f"there is no blob {number}", file=path)
        return self._disk.read(path, stat.size)

    def path(self, number: int) -> str:
        """Where a blob stands."""
        lay.check_number("blob number", number)
        return posixpath.join(self._path, lay.blob_path(number))


def _bytes_of(chunk: Buffer) -> memoryview:
    """A piece of a blob by its bytes; anything else is refused before a file is touched."""
    try:
        return memoryview(chunk).cast("B")
    except TypeError as error:
        raise UsageError(
            f"a blob is bytes, or pieces that are bytes, not {type(chunk).__name__}: {error}"
        ) from None


def collect(found: Survey, there: Collection[int]) -> int:
    """Remove those of the blobs that no entry of any file names; returns the largest number that is or was in use.

    Only while a directory is opened: no caller has a number then that is not logged yet.
    """
    largest = found.catalog.max_blob or 0
    if not there:
        return largest
    named = referenced(found)
    for number in there:
        if number not in named:
            found.disk.unlink(found.place(lay.blob_path(number)))
    return max([largest, *there, *named])
