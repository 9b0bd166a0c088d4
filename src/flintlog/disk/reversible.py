"""Work that can be taken back as long as nothing was given up for it.

What makes, renames and appends is written down together with its opposite. The first call that gives something up
(writes over it, puts a file over it, removes it) is final: from then on the work can only be finished. What an earlier
run left under a scratch name is not missed.

The opposites go from the last to the first, each durable before the next. So a crash on the way back leaves what a
crash on the way there would have left. The writer's lock is held until the way back is over, also when the one who
took it has let it go.
"""

from __future__ import annotations

import errno
import posixpath
from collections.abc import Callable
from typing import TypeVar

from flintlog.disk.disk import FLAGS, Disk
from flintlog.disk.kernel import Kernel, KernelInFront, Stat

T = TypeVar("T")
SCRATCH = ".new"  # the end of a name under which something is made


class ReversibleKernel(KernelInFront):
    """Hands every call on, and remembers how to take it back.

    With `publishes` a file that was made here gets its name for others to see: that is final too. `on_final` is
    called once, before the first such call.
    """

    def __init__(
        self, kernel: Kernel, *, publishes: bool = False, on_final: Callable[[], None] = lambda: None
    ) -> None:
        super().__init__(kernel)
        self.final = False
        self._publishes = publishes
        self._on_final = on_final
        self._disk = Disk(kernel)
        self._opposites: list[Callable[[], None]] = []
        self._ours: set[str] = set()  # made here, so nobody misses them
        self._paths: dict[int, str] = {}  # of files that are open
        self._ends: dict[int, int] = {}  # of those that were there and are open for writing: where they ended
        self._locked: set[int] = set()
        self._kept_locks: dict[str, int] = {}

    @property
    def touched(self) -> bool:
        """Was anything done that must be taken back or finished?"""
        return self.final or bool(self._opposites)

    # The way back

    def take_back(self) -> None:
        """Leave everything as it was."""
        while self._opposites:
            self._opposites[-1]()
            self._opposites.pop()

    def release(self) -> None:
        """Let go of the locks that were kept for the way back."""
        while self._kept_locks:
            _, handle = self._kept_locks.popitem()
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
            self._kept_locks[path] = handle
        else:
            self._kernel.close(handle)

    def lock(self, handle: int) -> bool:
        if self._paths[handle] in self._kept_locks:
            return True
        if not self._kernel.lock(handle):
            return False
        self._locked.add(handle)
        return True

    def pwrite(self, handle: int, data: memoryview, offset: int) -> int:
        end = self._ends.get(handle)
        if end is not None:
            if offset < end:
                self._be_final()
            elif not self.final:
                del self._ends[handle]  # what is behind the end goes with the first opposite
                path = self._paths[handle]
                self._opposites.append(lambda: self._cut(path, end))
        return self._kernel.pwrite(handle, data, offset)

    def truncate(self, handle: int, size: int) -> None:
        if self._paths[handle] not in self._ours and size < self._kernel.stat_handle(handle).size:
            self._be_final()
        self._kernel.truncate(handle, size)

    def mkdir(self, path: str) -> None:
        if self._stat(path) is None:
            self._make(path, self._kernel.mkdir, path)
        else:
            self._kernel.mkdir(path)

    def rename(self, source: str, target: str) -> None:
        ours = source in self._ours
        if (self._publishes and ours) or (self._stat(target) is not None and target not in self._ours):
            self._be_final()
            self._kernel.rename(source, target)
        else:
            self._do(lambda: self._rename_back(source, target), self._kernel.rename, source, target)
        self._ours.discard(target)
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
        """A call with its opposite, which is written down first: an interruption may come between them."""
        self._opposites.append(opposite)
        try:
            return call(*arguments)
        except OSError:
            self._opposites.remove(opposite)
            raise

    def _give_up(self, path: str) -> None:
        if path in self._ours:
            self._ours.discard(path)
        elif not any(name.endswith(SCRATCH) for name in path.split("/")):
            self._be_final()

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
