"""Looking at a directory that a store may be writing to. Readers never lock, so they may catch a writer half-way.

What a crash left looks the same as a write that is not finished yet. Only the second is gone a moment later, so a
reader looks again before it calls it wrong.
"""

from __future__ import annotations

import errno
import posixpath
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import TypeVar

from flintlog.core.finding import Finding, Severity
from flintlog.core.inventory import Inventory
from flintlog.core.kept import KEPT_DIRECTORY
from flintlog.disk import FLAGS, Disk, Kernel, KernelInFront, Stat
from flintlog.disk.remote import RemoteKernel
from flintlog.errors import DamageError, DiskError, RefusedError

T = TypeVar("T")
_LOOKS_MAX = 5
_PAUSE_SECONDS = 0.02
_LOOKS_AGAIN = 3  # at a small directory
_SMALL_BYTES = 64 << 20
_HANDLES_MAX = 200  # some systems allow a process 256
_TICK_NANOSECONDS = 100_000_000  # two changes within one tick of the file system's clock look like one


class ChangedError(RefusedError):
    """The directory changed during a look, so its parts do not fit together. Look again."""


Mark = tuple[tuple[int, int], int, int]


def mark_of(found: Stat | None, now: int) -> Mark | None:
    """Equal marks mean equal bytes, whatever the file's name; None where the file system cannot tell."""
    if found is None or found.written is None or found.written >= now - _TICK_NANOSECONDS:
        return None
    return found.identity, found.size, found.written


class Moment:
    """A directory as it is now. While the moment lasts, a second look would see what the first one saw."""

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._path = path
        now = time.time_ns()
        self._tells = not isinstance(
            disk.kernel, RemoteKernel
        )  # asking for each file costs more than another look
        self._seen = self._look() if self._tells else {}
        self._tells = self._tells and all(
            found.is_directory or (found.changed is not None and found.changed < now - _TICK_NANOSECONDS)
            for found in self._seen.values()
        )

    def lasts(self) -> bool:
        """Is the directory as it was? False where the file system cannot tell."""
        return self._tells and self._look() == self._seen

    def _look(self) -> dict[str, Stat]:
        seen: dict[str, Stat] = {}
        left = [self._path]
        while left:
            path = left.pop()
            found = self._disk.stat(path)
            if found is None:
                continue
            seen[path] = found
            if not found.is_directory:
                continue
            seen[path] = replace(found, changed=None)  # its names show a change
            if path == self._path or not self._disk.is_link(path):
                left += [
                    posixpath.join(path, name) for name in self._disk.list(path) if name != KEPT_DIRECTORY
                ]
        return seen


def settled(disk: Disk, path: str, read: Callable[[], T]) -> T:
    """The result of `read` on a directory that a store may be writing to.

    It calls `read` again when a file went between listing and reading, when the parts were not of one moment
    (`ChangedError`), and when there is damage: an unfinished write looks like it, and is gone a moment later.
    """
    seen: tuple[str, str | None, int | None] | None = None
    for attempt in range(_LOOKS_MAX):
        try:
            return read()
        except ChangedError:
            pass
        except DamageError as error:
            place = error.code, error.file, error.offset
            if place == seen:
                raise
            seen = place
        except DiskError as error:
            if error.errno != errno.ENOENT:
                raise
        disk.pause(_PAUSE_SECONDS * (attempt + 1))
    raise too_fast(path)


@contextmanager
def holding(disk: Disk, path: str) -> Iterator[Disk]:
    """A disk for reading, on which `path` and the directories below it keep the names that they have now.

    It holds their files open, so that removed or replaced ones can still be read; files may grow. It does not hold more
    than some hundred files, nor remote ones: asking for each costs more than looking again.
    """
    if isinstance(disk.kernel, RemoteKernel):
        yield disk
        return
    kernel = _HeldKernel(disk.kernel)
    try:
        kernel.hold(path, disk.list(path))
        yield Disk(kernel, disk.progress)
    except DamageError as error:
        if kernel.has_changed():
            raise ChangedError(
                "the directory changed while it was read", file=path, advice="Try again"
            ) from error
        raise
    finally:
        kernel.release()


class _HeldKernel(KernelInFront):
    """Reads a directory as it was; everything else goes on to the kernel behind it."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__(kernel)
        self._names: dict[str, list[str]] = {}
        self._handles: dict[str, int] = {}

    def hold(self, folder: str, names: list[str]) -> None:
        """Hold directories first: a file beside them, such as a snapshot, is then never older than they are."""
        held = self._names[folder] = []
        files = []
        for name in sorted(names):
            path = posixpath.join(folder, name)
            try:
                if self._kernel.is_link(path):
                    pass  # it leads out of this directory, and may lead back
                elif not self._kernel.stat(path).is_directory:
                    files.append(name)
                    continue
                elif name != KEPT_DIRECTORY:
                    self.hold(path, self._kernel.list(path))
            except (FileNotFoundError, NotADirectoryError):
                continue  # it is already gone
            except OSError as error:
                _raise_failure(error, path)
            held.append(name)
        for name in files:
            try:
                if len(self._handles) < _HANDLES_MAX:
                    path = posixpath.join(folder, name)
                    self._handles[path] = self._kernel.open(path, FLAGS["read"])
            except FileNotFoundError:
                continue
            except OSError as error:
                _raise_failure(error, posixpath.join(folder, name))
            held.append(name)

    def has_changed(self) -> bool:
        """Did names come or go meanwhile? Then what looks like damage may be the work of a writer."""
        try:
            return any(
                sorted(self._kernel.list(folder)) != sorted(names) for folder, names in self._names.items()
            )
        except OSError:
            return True

    def release(self) -> None:
        for handle in self._handles.values():
            with suppress(OSError):  # it was opened for reading only
                self._kernel.close(handle)
        self._handles.clear()

    def open(self, path: str, flags: int) -> int:
        held = self._handles.get(path)
        return held if held is not None and flags == FLAGS["read"] else super().open(path, flags)

    def close(self, handle: int) -> None:
        if handle not in self._handles.values():
            super().close(handle)

    def stat(self, path: str) -> Stat:
        held = self._handles.get(path)
        return super().stat(path) if held is None else self.stat_handle(held)

    def list(self, path: str) -> list[str]:
        held = self._names.get(path)
        return super().list(path) if held is None else list(held)


def _raise_failure(error: OSError, path: str) -> None:
    """Raise when the device fails. Other errors come again when the file is needed."""
    if error.errno == errno.EIO:
        raise DiskError("open", path, error) from error


@contextmanager
def told_when_it_goes(path: str) -> Iterator[None]:
    """When a file goes before it is read, say that the directory changes too fast, not that the path is wrong."""
    try:
        yield
    except DiskError as error:
        if error.errno == errno.ENOENT and (error.file or "").startswith(f"{path}/"):
            raise too_fast(path) from error
        raise


@contextmanager
def suppress_gone() -> Iterator[None]:
    """Ignore a file that is removed while we look."""
    try:
        yield
    except DiskError as error:
        if error.errno != errno.ENOENT:
            raise


def look(
    disk: Disk,
    path: str,
    first: Callable[[], Inventory],
    again: Callable[[], Inventory],
    passing: Collection[str],
) -> Inventory:
    """Look at a directory; findings with a `passing` code that a second look does not see become notes.

    The second look may be quick, if it sees everything that can pass. A small directory gets some more looks: its
    writer may be slow.
    """
    found = settled(disk, path, first)
    looks = _LOOKS_AGAIN if sum(item.size for item in found.files) <= _SMALL_BYTES else 1
    moment: Moment | None = None
    for attempt in range(looks):
        passing_now = [item for item in found.findings if _may_pass(item, passing)]
        if not passing_now:
            break
        disk.pause(_PAUSE_SECONDS * 2**attempt)
        if moment is not None and moment.lasts():
            continue
        moment = Moment(disk, path)
        stands = {_place(finding) for finding in settled(disk, path, again).findings}
        gone = [item for item in passing_now if _place(item) not in stands]
        found = replace(
            found, findings=tuple(_passed(item) if item in gone else item for item in found.findings)
        )
    return found


def _may_pass(finding: Finding, passing: Collection[str]) -> bool:
    return finding.code in passing and finding.severity is not Severity.NOTE


def _place(finding: Finding) -> tuple[str, str | None, int | None]:
    return finding.code, finding.file, finding.offset


def _passed(finding: Finding) -> Finding:
    message = f"{finding.message}; gone a moment later, so a store is writing here"
    return replace(finding, severity=Severity.NOTE, message=message)


def too_fast(path: str) -> RefusedError:
    """The error when the directory changed during every look."""
    return RefusedError(
        "the directory changes faster than it can be read",
        file=path,
        advice="Try again, or close the store that writes here",
    )
