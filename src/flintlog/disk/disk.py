"""The only door to the file system, with the discipline that makes writes durable.

A file's bytes are durable after `File.sync`. A name (created, renamed, removed) is durable after `sync_directory` of
its parent, and a new directory's own name needs the same one floor up. `publish` and `make_directory` do all of it;
with the single calls the caller decides what to sync.
"""

from __future__ import annotations

import atexit
import errno
import mmap
import os
import posixpath
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Literal, TypeVar

from flintlog.disk import forks
from flintlog.disk.kernel import Access, Kernel, LocalKernel, Mapped, Stat
from flintlog.disk.limits import allow_more_files
from flintlog.errors import ClosedError, DiskError, ForkedError, RefusedError, UsageError

Buffer = bytes | bytearray | memoryview
Mode = Literal["read", "write", "create"]
Progress = Callable[[int, int], None]  # called with (bytes done, bytes in all)
T = TypeVar("T")

FLAGS: dict[Mode, int] = {
    "read": os.O_RDONLY,
    "write": os.O_RDWR | os.O_NOFOLLOW,  # a link may lead out of the directory
    "create": os.O_RDWR | os.O_NOFOLLOW | os.O_CREAT,
}
# A mapped file that another process cuts kills the reader (SIGBUS). So a file that may still be cut is copied, up to
# this size.
COPY_BYTES_MAX = 64 << 20
_WRITE_BYTES_MAX = 1 << 30
_COPY_CHUNK = 8 << 20
_NO_RESERVE = 0x4000 if sys.platform == "linux" else 0  # MAP_NORESERVE; Python names it from 3.13 on


_ROOT = 0
_CLOSED = -1  # stands for a handle
_FORKED = -2


def no_progress(done: int, total: int) -> None:
    """The progress for callers that do not watch."""


class File:
    """An open file. Reads and writes name their offset; there is no cursor to share."""

    def __init__(self, kernel: Kernel, path: str, handle: int) -> None:
        self._kernel = kernel
        self._handle = handle
        self.path = path
        self.is_locked = False
        self.scratch: str | None = None  # a name to remove when a `with` block fails

    def size(self) -> int:
        return self.stat().size

    def stat(self) -> Stat:
        return self._call("stat", self._kernel.stat_handle, self._handle)

    def pread(self, size: int, offset: int) -> bytes:
        """The bytes at `offset`; fewer than `size` only where the file ends."""
        first = self._call("read", self._kernel.pread, self._handle, size, offset)
        if len(first) == size or not first:
            return first
        parts = [first]
        done = len(first)
        while done < size:
            part = self._call("read", self._kernel.pread, self._handle, size - done, offset + done)
            if not part:
                break
            parts.append(part)
            done += len(part)
        return b"".join(parts)

    def chunks(self, begin: int, end: int) -> Iterator[bytes]:
        """The bytes between two offsets, in pieces that fit in memory."""
        for at in range(begin, end, _COPY_CHUNK):
            yield self.pread(min(_COPY_CHUNK, end - at), at)

    def pwrite(self, data: Buffer, offset: int) -> None:
        """Write all of `data`, however many calls it takes, or raise."""
        view = memoryview(data)
        while view:
            done = self._call("write", self._kernel.pwrite, self._handle, view[:_WRITE_BYTES_MAX], offset)
            view = view[done:]
            offset += done

    def truncate(self, size: int) -> None:
        self._call("truncate", self._kernel.truncate, self._handle, size)

    def sync(self) -> None:
        """Return when the bytes and the size are on the device."""
        self._call("fsync", self._kernel.sync, self._handle)

    def view(self, *, copy: bool = False, begin: int = 0, end: int | None = None) -> memoryview:
        """The whole file as one read-only buffer: mapped, or copied if it may be cut meanwhile.

        Pass `begin` and `end` to read only that range; the other bytes may be zeros.
        """
        size = self.size()
        end = size if end is None else min(end, size)
        if not (copy and end - begin <= COPY_BYTES_MAX):
            try:
                return self._call("map", self._kernel.map, self._handle, size)
            except ValueError:
                return self.view(copy=copy, begin=begin, end=end)  # it got shorter after its size was read
            except DiskError as error:
                if error.errno != errno.ENODEV:
                    raise
        if end - begin == size or not size:
            return memoryview(self.pread(size, 0))
        return self._part(size, begin, end)

    def _part(self, size: int, begin: int, end: int) -> memoryview:
        """A buffer as long as the file with one range read; the rest is zeros, which take no memory."""
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE)
        at = begin
        for piece in self.chunks(begin, end):
            pages[at : at + len(piece)] = piece
            at += len(piece)
        return memoryview(pages).toreadonly()

    def window(self, start: int, end: int) -> memoryview:
        """The bytes between two offsets as one read-only buffer, mapped; for large files and little address space."""
        return self._call("map", self._kernel.map_range, self._handle, start, min(end, self.size()))

    def lock(self) -> bool:
        """Take the advisory lock of this file until it is closed; False when another process has it."""
        forks.remember(self)
        self.is_locked = self._call("lock", self._kernel.lock, self._handle)
        return self.is_locked

    def be_like(self, other: Stat | None) -> None:
        """Give the file the owner and the permissions of another one, or stricter ones if this process may not."""
        mine = self.stat().access if other is not None and other.access is not None else None
        if other is None or other.access is None or mine is None or mine == other.access:
            return
        wanted = other.access
        strict = Access(wanted.mode & ~0o077, mine.owner, mine.group)
        if not (self._may_have(wanted) or self._may_have(wanted._replace(owner=mine.owner))):
            self._call("chmod", self._kernel.set_access, self._handle, strict)

    def _may_have(self, access: Access) -> bool:
        try:
            self._call("chmod", self._kernel.set_access, self._handle, access)
        except DiskError as error:
            if error.errno != errno.EPERM:
                raise
            return False
        return True

    def close(self) -> None:
        if self._handle >= 0:
            handle, self._handle = self._handle, _CLOSED
            forks.forget(self)
            _retried("close", self.path, self._kernel.close, handle)

    def _fork(self) -> None:
        if self._handle >= 0:
            handle, self._handle = self._handle, _FORKED
            with suppress(OSError):  # go on with the other files
                self._kernel.close(handle)

    def __enter__(self) -> File:
        return self

    def __exit__(self, kind: object = None, *exc: object) -> None:
        if kind is not None and self.scratch is not None:
            with suppress(OSError):
                self._kernel.unlink(self.scratch)
        self.close()

    def _call(self, name: str, call: Callable[..., T], *arguments: object) -> T:
        if self._handle < 0:
            raise self._unusable()
        return _retried(name, self.path, call, *arguments)

    def _unusable(self) -> ClosedError | ForkedError:
        if self._handle == _CLOSED:
            return ClosedError("this file is closed", file=self.path, advice="Open the store again")
        return ForkedError(
            "this file is open in the process that this one is a fork of",
            file=self.path,
            advice="Open the store after the fork",
        )


class Disk:
    """Files and names of one machine, through one `Kernel`. Long reads report to `progress`."""

    def __init__(self, kernel: Kernel | None = None, progress: Progress = no_progress) -> None:
        self.kernel: Kernel = kernel or LocalKernel()
        self.progress = progress

    @staticmethod
    def resolve(path: str | bytes | os.PathLike[str]) -> str:
        """The absolute path, so that a later change of the working directory moves nothing.

        An empty path raises: it is a mistake (an unset variable of a script), not the working directory.
        """
        text = os.fsdecode(path)
        if not text:
            raise UsageError("the path is empty", advice="Name a directory; . is the one you are in")
        if "\0" in text:
            raise UsageError("there is a zero byte in the path", advice="No name on a disk can hold one")
        return os.path.abspath(text)

    @staticmethod
    def borrow_directory() -> str:
        """A new directory outside of any log, removed when this process ends."""
        import tempfile  # only this call needs it, and it takes a moment to load

        folder = tempfile.TemporaryDirectory(prefix="flintlog-")
        atexit.register(folder.cleanup)
        return folder.name

    def open(self, path: str, mode: Mode = "read") -> File:
        """Open a file; `create` makes a missing one (its name still needs `sync_directory`).

        Refuses anything but a regular file, without waiting.
        """
        file = File(self.kernel, path, _retried("open", path, self.kernel.open, path, FLAGS[mode]))
        try:
            self._look_at(file, mode)
        except BaseException:
            file.close()
            raise
        if mode != "read":
            forks.remember(file)  # a forked child closes its copy: the lock is the parent's alone
        return file

    def _look_at(self, file: File, mode: Mode) -> None:
        found = file.stat()
        if found.is_special:
            raise RefusedError(
                "this is no regular file but a pipe, a socket or a device",
                file=file.path,
                advice="Nothing was read; move it away, and look where it comes from",
            )
        if mode == "create" and not found.size and found.access is not None and found.access.owner == _ROOT:
            self._give_to_owner(file, found.access)

    def _give_to_owner(self, file: File, access: Access) -> None:
        """Give a file that root makes to the owner of its directory, who must be able to use it."""
        parent = self.stat(posixpath.dirname(file.path))
        if parent is not None and parent.access is not None and parent.access.owner != _ROOT:
            file.be_like(replace(parent, access=parent.access._replace(mode=access.mode)))

    def read(self, path: str, size_max: int) -> bytes:
        """The first `size_max` bytes of a file."""
        with self.open(path) as file:
            return file.pread(min(size_max, file.size()), 0)

    def stat(self, path: str) -> Stat | None:
        """The status of this name, or None."""
        try:
            return _retried("stat", path, self.kernel.stat, path)
        except DiskError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                return None
            raise

    def is_directory(self, path: str) -> bool:
        found = self.stat(path)
        return found is not None and found.is_directory

    def is_file(self, path: str) -> bool:
        """Is there something here that is no directory?"""
        found = self.stat(path)
        return found is not None and not found.is_directory

    def is_link(self, path: str) -> bool:
        """Is this name a symbolic link?"""
        return self.kernel.is_link(path)

    def list(self, path: str) -> list[str]:
        """The names in a directory, sorted; empty when there is no such directory."""
        try:
            return sorted(_retried("list", path, self.kernel.list, path))
        except DiskError as error:
            if error.errno == errno.ENOENT:
                return []
            raise

    def rename(self, source: str, target: str) -> None:
        _retried("rename", target, self.kernel.rename, source, target)

    def link(self, source: str, target: str) -> None:
        """A second name for a file."""
        _retried("link", target, self.kernel.link, source, target)

    def unlink(self, path: str) -> None:
        _retried("unlink", path, self.kernel.unlink, path)

    def remove_directory(self, path: str) -> None:
        """Remove a directory with everything in it; of a symbolic link only the link."""
        if self.is_link(path):
            self.unlink(path)
            return
        for name in self.list(path):
            inner = posixpath.join(path, name)
            if not self.is_link(inner) and self.is_directory(inner):
                self.remove_directory(inner)
            else:
                self.unlink(inner)
        _retried("rmdir", path, self.kernel.rmdir, path)

    def sync_directory(self, path: str) -> None:
        """Return when the names in this directory are on the device."""
        _retried("fsync of directory", path, self.kernel.sync_directory, path)

    def pause(self, seconds: float) -> None:
        """Wait, so that other processes can go on with these files."""
        self.kernel.pause(seconds)

    def make_directory(self, path: str) -> None:
        """Make a directory and its ancestors, durable on return."""
        self.make_passing_directory(path)
        self.sync_ancestors(path)

    def make_passing_directory(self, path: str) -> None:
        """Make a directory and its ancestors, without syncing them."""
        if self.is_directory(path):
            return
        parent = posixpath.dirname(path)
        if parent != path:
            self.make_passing_directory(parent)
        try:
            _retried("mkdir", path, self.kernel.mkdir, path)
        except DiskError as error:
            if error.errno != errno.EEXIST:  # another process made it first
                raise
            return
        above, made = self.stat(parent), self.stat(path)
        if above is not None and made is not None and above.access is not None and made.access is not None:
            owner = above.access if made.access.owner == _ROOT else made.access
            access = owner._replace(mode=made.access.mode & (above.access.mode | 0o700))
            with self.open(path) as directory:
                directory.be_like(replace(made, access=access))

    def sync_ancestors(self, path: str) -> None:
        """Make the names on the way to `path` durable, from the top down.

        Also old ones: a process that died between making a directory and syncing it leaves a name that looks durable
        and is not.
        """
        ancestors: list[str] = []
        while (parent := posixpath.dirname(path)) != path:
            ancestors.append(parent)
            path = parent
        for directory in reversed(ancestors):
            with _permission_ignored():
                self.sync_directory(directory)

    def write_new(self, path: str, chunks: Iterable[Buffer], *, like: Stat | None = None) -> int:
        """A new file with this content, synced on return; the caller syncs its name.

        Returns its size. The file gets the access of `like`.
        """
        with self.open(path, "create") as file:
            file.be_like(like)
            size = write_all(file, chunks)
            file.sync()
        return size

    def publish(
        self, target: str, chunks: Iterable[Buffer], *, scratch: str, like: Stat | None = None
    ) -> None:
        """Put a whole file under `target`, or leave what was there. A new file gets the access of `like`."""
        with self.create_scratch(scratch) as file:
            file.be_like(like)
            write_all(file, chunks)
            self.install(file, target)

    def create_scratch(self, path: str) -> File:
        """A new empty file under a scratch name; removed when the `with` block of the file fails.

        It first removes a leftover of that name: a crash may have kept both names of a rename, and then writing to the
        scratch name would write to the published file.
        """
        if self.stat(path) is not None or self.is_link(path):
            self.unlink(path)
        file = self.open(path, "create")
        file.scratch = path
        return file

    def install(self, file: File, target: str) -> None:
        """Give a written scratch file its name: sync the bytes, then the name.

        It gets the owner and the permissions of the file that it replaces.
        """
        self.put(file, target)
        self.sync_directory(posixpath.dirname(target))

    def put(self, file: File, target: str) -> None:
        """The same without syncing the directory: until then a crash may take the name back."""
        file.be_like(self.stat(target))
        file.sync()
        self.rename(file.path, target)
        file.path, file.scratch = target, None


def give_back(view: memoryview, begin: int, end: int) -> None:
    """Give the pages of a mapped file that were read back to the system. A later read gets the same bytes."""
    if begin < end and isinstance(view.obj, Mapped) and view.nbytes == len(view.obj):
        view.obj.give_back(begin, end)


def write_all(file: File, chunks: Iterable[Buffer]) -> int:
    """Make `chunks` the whole content of `file`; returns the number of bytes."""
    file.truncate(0)
    offset = 0
    for chunk in chunks:
        file.pwrite(chunk, offset)
        offset += len(chunk)
    return offset


def _retried(name: str, path: str, call: Callable[..., T], *arguments: object) -> T:
    while True:
        try:
            return call(*arguments)
        except InterruptedError:
            continue
        except OSError as error:
            if error.errno is None:
                raise  # not from the system: a signal handler raised a TimeoutError, for example
            if error.errno == errno.EMFILE and allow_more_files():
                continue
            raise DiskError(name, path, error) from error


@contextmanager
def _permission_ignored() -> Iterator[None]:
    # We did not make an ancestor that we may not open.
    try:
        yield
    except DiskError as error:
        if error.errno not in (errno.EACCES, errno.EPERM):
            raise
