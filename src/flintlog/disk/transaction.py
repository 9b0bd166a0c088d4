"""All of the work, or nothing: what every writing verb and plan runs in.

A transaction writes down the opposite of each call. An error or Ctrl-C takes back what was done so far, from the last
call to the first, each opposite durable before the next. So a crash on the way back leaves what a crash on the way
there would have left. The transaction holds the writer's lock until the way back is over.

There are two policies for what a call gives up (writes over, replaces or removes):

| policy | what the call gives up | an error after it |
|---|---|---|
| take back | is gone: the call is final | the work can only be finished, or run again |
| keep originals | `Originals` copies it aside first | the original is put back |

Once a call is final, the first Ctrl-C waits for the end of the work. The second one stops at once, which is as safe as
a crash. Removing what an earlier run left under a scratch name is never final.
"""

from __future__ import annotations

import errno
import posixpath
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Protocol, TypeVar

from flintlog.disk.disk import FLAGS, Disk
from flintlog.disk.interrupts import DEFERRED
from flintlog.disk.kernel import Kernel, KernelInFront, Stat
from flintlog.errors import DiskError, FlintlogError, tell

T = TypeVar("T")
Opposite = Callable[[], None]
SCRATCH = ".new"  # the end of a name under which something is made

NOTHING_CHANGED = "Nothing was changed"
WHOLE = "Everything is whole, as it was or with the work done, and it is safe to run it again"
FINISHED = "It came when the work could only be finished, and so that was done"


class Originals(Protocol):
    """Keeps the files that a transaction changes."""

    def keep(self, path: str) -> list[Opposite]:
        """Copy a file, or every file below a directory, aside. Returns how to put back those not kept before."""

    def discard(self) -> str:
        """Remove the copies, because everything was put back. Returns a sentence on what is there now."""

    def cannot(self, error: FlintlogError) -> str:
        """The sentence for the operator when the way back has failed."""


@contextmanager
def transaction(
    disk: Disk, *, publishes: bool = False, by_workers: bool = False, originals: Originals | None = None
) -> Iterator[Disk]:
    """Do all of the block through the disk that this gives, or nothing.

    `publishes`: others see a file as soon as it gets its name, so that step is final. `by_workers`: workers use the
    plain disk, and their work is not taken back. A transaction inside another one joins it.
    """
    outer = disk.kernel
    if isinstance(outer, TransactionKernel):
        outer.join(publishes, originals)
        yield disk
        return
    patience = _Patience()
    kernel = TransactionKernel(disk.kernel, publishes=publishes, originals=originals, on_final=patience.begin)
    kernel.final = by_workers
    with patience:
        try:
            yield disk if by_workers else Disk(kernel, disk.progress)
        except BaseException as error:
            if kernel.touched or isinstance(error, KeyboardInterrupt | DiskError):
                patience.begin()
                with DEFERRED:
                    tell(error, kernel.end())
            raise
        finally:
            kernel.release()


class TransactionKernel(KernelInFront):
    """Hands every call on, and remembers how to take it back. It calls `on_final` once, before the first final call."""

    def __init__(
        self,
        kernel: Kernel,
        *,
        publishes: bool = False,
        originals: Originals | None = None,
        on_final: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(kernel)
        self.final = False
        self._publishes = publishes
        self._originals = originals
        self._on_final = on_final
        self._disk = Disk(kernel)
        self._opposites: list[Opposite] = []
        self._ours: set[str] = set()  # made here
        self._paths: dict[int, str] = {}  # of files that are open
        self._ends: dict[int, int] = {}  # sizes of files that were there, and are open for writing
        self._locked: set[int] = set()
        self._kept_locks: dict[int, str] = {}

    @property
    def touched(self) -> bool:
        """Did the work do anything that must be taken back or finished?"""
        return self.final or bool(self._opposites) or self._originals is not None

    def join(self, publishes: bool, originals: Originals | None) -> None:
        """Add the policies of a transaction inside this one."""
        self._publishes = self._publishes or publishes
        self._originals = self._originals or originals

    # The way back

    def end(self) -> str:
        """Take the work back, unless it is final; returns a sentence on what is there now."""
        if self.final:
            return WHOLE
        try:
            self.take_back()
        except FlintlogError as error:
            if self._originals is not None:
                return self._originals.cannot(error)
            return f"It could not all be taken back ({error.what()}). {WHOLE}"
        return NOTHING_CHANGED if self._originals is None else self._originals.discard()

    def take_back(self) -> None:
        """Leave everything as it was."""
        while self._opposites:
            self._opposites[-1]()
            self._opposites.pop()

    def release(self) -> None:
        """Release the locks that were kept for the way back."""
        while self._kept_locks:
            handle, _ = self._kept_locks.popitem()
            with suppress(OSError):  # its writes are synced; the system releases the lock
                self._kernel.close(handle)

    def _remove(self, path: str) -> None:
        found = self._disk.stat(path)
        if found is None:
            return
        if not found.is_directory:
            self._disk.unlink(path)
        elif not self._disk.list(path):  # others may have put something there
            self._disk.remove_directory(path)
        self._disk.sync_directory(posixpath.dirname(path))

    def _rename_back(self, source: str, target: str) -> None:
        if self._disk.stat(source) is not None or self._disk.stat(target) is None:
            return
        self._disk.rename(target, source)
        for folder in {posixpath.dirname(source), posixpath.dirname(target)}:
            self._disk.sync_directory(folder)

    def _cut(self, path: str, size: int) -> None:
        with self._disk.open(path, "write") as file:
            if file.size() > size:
                file.truncate(size)
                file.sync()

    # The calls

    def open(self, path: str, flags: int) -> int:
        if not flags & FLAGS["write"]:
            handle = self._kernel.open(path, flags)
            self._paths[handle] = path
            return handle
        before = self._stat(path)
        handle = (
            self._make(path, self._kernel.open, path, flags)
            if before is None
            else self._kernel.open(path, flags)
        )
        self._paths[handle] = path
        if path not in self._ours and before is not None:
            self._ends[handle] = before.size
        return handle

    def close(self, handle: int) -> None:
        path = self._paths.pop(handle, "")
        self._ends.pop(handle, None)
        if handle in self._locked:
            self._locked.discard(handle)
            self._kept_locks[handle] = path
        else:
            self._kernel.close(handle)

    def lock(self, handle: int) -> bool:
        if self._paths[handle] in self._kept_locks.values():
            return True
        if not self._kernel.lock(handle):
            return False
        self._locked.add(handle)
        return True

    def pwrite(self, handle: int, data: memoryview, offset: int) -> int:
        end = self._ends.get(handle)
        if end is not None:
            path = self._paths[handle]
            if self._keep(path):
                del self._ends[handle]
            elif offset < end:
                self._be_final()
            elif not self.final:
                del self._ends[handle]  # one opposite cuts all that is behind the end
                self._opposites.append(lambda: self._cut(path, end))
        return self._kernel.pwrite(handle, data, offset)

    def truncate(self, handle: int, size: int) -> None:
        path = self._paths[handle]
        if path not in self._ours and not self._keep(path) and size < self._kernel.stat_handle(handle).size:
            self._be_final()
        self._kernel.truncate(handle, size)

    def mkdir(self, path: str) -> None:
        if self._stat(path) is None:
            self._make(path, self._kernel.mkdir, path)
        else:
            self._kernel.mkdir(path)

    def rename(self, source: str, target: str) -> None:
        replaces = self._stat(target) is not None and target not in self._ours
        kept = all([self._keep(source), self._keep(target)])
        if not kept and (replaces or (self._publishes and source in self._ours)):
            self._be_final()
        if replaces or self.final:
            self._kernel.rename(source, target)
        else:
            self._do(lambda: self._rename_back(source, target), self._kernel.rename, source, target)
        self._ours.discard(target)
        for paths in (
            self._paths,
            self._kept_locks,
        ):  # the replaced file has no name now
            paths.update({handle: "" for handle, path in paths.items() if path == target})
        for handle, path in [*self._paths.items()]:
            if _is_inside(path, source):
                self._paths[handle] = target + path[len(source) :]
        for path in [path for path in self._ours if _is_inside(path, source)]:
            self._ours.discard(path)
            self._ours.add(target + path[len(source) :])

    def link(self, source: str, target: str) -> None:
        self._make(target, self._kernel.link, source, target)

    def unlink(self, path: str) -> None:
        self._give_up(path)
        self._kernel.unlink(path)

    def rmdir(self, path: str) -> None:
        self._give_up(path)
        self._kernel.rmdir(path)

    def _make(self, path: str, call: Callable[..., T], *arguments: object) -> T:
        made = self._do(lambda: self._remove(path), call, *arguments)
        self._ours.add(path)
        return made

    def _do(self, opposite: Callable[[], None], call: Callable[..., T], *arguments: object) -> T:
        """Make a call. Writes down its opposite first, because an interrupt may come between the two."""
        self._opposites.append(opposite)
        try:
            return call(*arguments)
        except OSError:
            self._opposites.remove(opposite)
            raise

    def _give_up(self, path: str) -> None:
        if path in self._ours:
            self._ours.discard(path)
        elif not self._keep(path) and not any(name.endswith(SCRATCH) for name in path.split("/")):
            self._be_final()

    def _keep(self, path: str) -> bool:
        """Copy aside what a call gives up; False under the policy "take back"."""
        if self._originals is None:
            return False
        if path and path not in self._ours:  # a file without a name was kept when it lost it
            self._opposites += self._originals.keep(path)
        return True

    def _be_final(self) -> None:
        if not self.final:
            self.final = True
            self._on_final()

    def _stat(self, path: str) -> Stat | None:
        try:
            return self._kernel.stat(path)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                return None
            raise


def _is_inside(path: str, place: str) -> bool:
    return path == place or path.startswith(f"{place}/")


class _Patience:
    """From `begin` on, the first Ctrl-C waits for the end of the block."""

    def __init__(self) -> None:
        self._before: Callable[..., Any] | int | None = None
        self._came = False

    def begin(self) -> None:
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background: no Ctrl-C comes
            return
        if self._before is None and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGINT, self._wait)

    def _wait(self, *_: object) -> None:
        self._came = True
        self._restore()

    def _restore(self) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, *_: object) -> None:
        self._restore()
        if self._came and kind is None:
            raise KeyboardInterrupt(FINISHED)
