"""Files of an object store or another remote file system: to read logs there, and to write exports.

Paths are addresses (`s3://bucket/directory`), so that every error names one. It believes a listing of a directory until
the next one: that spares a request for each file.
"""

from __future__ import annotations

import errno
import hashlib
import os
import posixpath
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from flintlog.disk.kernel import Access, ReadOnly, Stat

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo, FileSystem


class RemoteKernel(ReadOnly):
    """A file system of pyarrow as a `Kernel`. `prefix` is what an address has in front of a path of it."""

    refusal = "a remote file system is only read"

    def __init__(self, files: FileSystem, prefix: str) -> None:
        self._files = files
        self._prefix = prefix
        self._open: dict[int, tuple[Any, Stat]] = {}
        self._next = 3
        self._listed: dict[str, dict[str, Stat]] = {}

    def open(self, path: str, flags: int) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            self._refuse()
        with _as_os_errors():
            file = self._files.open_input_file(self._inside(path))
            size = file.size()
        handle, self._next = self._next, self._next + 1
        self._open[handle] = file, Stat(False, size, (0, handle))
        return handle

    def close(self, handle: int) -> None:
        file, _ = self._open.pop(handle)
        with _as_os_errors():
            file.close()

    def pread(self, handle: int, size: int, offset: int) -> bytes:
        file, stat = self._open[handle]
        if offset >= stat.size or not size:
            return b""
        with _as_os_errors():
            data: bytes = file.read_at(min(size, stat.size - offset), offset)
        return data

    def map(self, handle: int, size: int) -> memoryview:
        raise OSError(errno.ENODEV, "a remote file cannot be mapped")

    def map_range(self, handle: int, start: int, end: int) -> memoryview:
        return memoryview(self.pread(handle, end - start, start))

    def stat_handle(self, handle: int) -> Stat:
        return self._open[handle][1]

    def stat(self, path: str) -> Stat:
        parent, name = posixpath.split(path.rstrip("/"))
        if parent in self._listed:
            if name not in self._listed[parent]:
                raise FileNotFoundError(errno.ENOENT, "there is no such name")
            return self._listed[parent][name]
        with _as_os_errors():
            found = self._files.get_file_info(self._inside(path))
        return _stat(found)

    def is_link(self, path: str) -> bool:
        return False

    def list(self, path: str) -> list[str]:
        from pyarrow.fs import FileSelector

        with _as_os_errors():
            found = self._files.get_file_info(FileSelector(self._inside(path)))
        names = {posixpath.basename(info.path.rstrip("/")): _stat(info) for info in found}
        self._listed[path.rstrip("/")] = names
        return list(names)

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def sync(self, handle: int) -> None:
        """Do nothing: the server keeps what was written."""

    def sync_directory(self, path: str) -> None:
        """Do nothing: the server keeps a name with its file."""

    def __reduce__(self) -> tuple[type[RemoteKernel], tuple[FileSystem, str]]:
        return type(self), (self._files, self._prefix)  # handles of another process mean nothing here

    def _inside(self, path: str) -> str:
        return path.removeprefix(self._prefix)


class RemoteTarget(RemoteKernel):
    """The same for writing new files: each once, from its beginning to its end. There are no locks."""

    def __init__(self, files: FileSystem, prefix: str) -> None:
        super().__init__(files, prefix)
        self._written: dict[int, tuple[Any, int]] = {}  # each file's stream, and its size so far

    def open(self, path: str, flags: int) -> int:
        if not flags & os.O_CREAT:
            return super().open(path, flags)
        with _as_os_errors():
            stream = self._files.open_output_stream(self._inside(path))
        self._listed.clear()
        handle, self._next = self._next, self._next + 1
        self._written[handle] = stream, 0
        return handle

    def stat_handle(self, handle: int) -> Stat:
        if handle not in self._written:
            return super().stat_handle(handle)
        return Stat(False, self._written[handle][1], (0, handle))

    def pwrite(self, handle: int, data: memoryview, offset: int) -> int:
        if handle not in self._written:
            self._refuse()
        stream, size = self._written[handle]
        if offset != size or stream.closed:
            raise OSError(errno.ESPIPE, "a remote file is written once, from its beginning to its end")
        with _as_os_errors():
            stream.write(data)
        self._written[handle] = stream, size + len(data)
        return len(data)

    def truncate(self, handle: int, size: int) -> None:
        if self.stat_handle(handle).size != size:
            self._refuse()

    def set_access(self, handle: int, access: Access) -> None:
        """Do nothing: the server decides who may read."""

    def sync(self, handle: int) -> None:
        if handle in self._written:
            with _as_os_errors():
                self._written[handle][0].close()  # the server keeps a file once it has it whole

    def close(self, handle: int) -> None:
        if handle not in self._written:
            super().close(handle)
            return
        try:
            self.sync(handle)
        finally:
            del self._written[handle]

    def mkdir(self, path: str) -> None:
        self._change(self._files.create_dir, path)

    def rename(self, source: str, target: str) -> None:
        self._change(self._files.move, source, target)

    def unlink(self, path: str) -> None:
        self._change(self._files.delete_file, path)

    def rmdir(self, path: str) -> None:
        self._change(self._files.delete_dir, path)

    def _change(self, call: Callable[..., object], *paths: str) -> None:
        self._listed.clear()
        with _as_os_errors():
            call(*map(self._inside, paths))


def _stat(info: FileInfo) -> Stat:
    from pyarrow.fs import FileType

    if info.type == FileType.NotFound:
        raise FileNotFoundError(errno.ENOENT, "there is no such name")
    # A file with another name, time or size is another file: nothing remote is renamed, only written anew.
    written = f"{info.path} {info.mtime_ns} {info.size}"
    digest = hashlib.blake2b(written.encode(errors="surrogateescape"), digest_size=8).digest()
    return Stat(info.type == FileType.Directory, info.size or 0, (0, int.from_bytes(digest)))


@contextmanager
def _as_os_errors() -> Iterator[None]:
    """Turn the errors of any file system into `OSError`s."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileNotFoundError(errno.ENOENT, str(error)) from error
    except OSError as error:
        raise OSError(error.errno or errno.EREMOTE, error.strerror or str(error)) from error
    except Exception as error:
        raise OSError(errno.EREMOTE, f"{type(error).__name__}: {error}") from error
