"""Changes files of a log directory, each only after its original is kept aside.

What repair does in every dialect: hold the writer's lock, copy an original to `kept/<time>-<reason>/`, and put
new content in its place by one rename. A crash leaves the old file or the new one, and the copy in any case.
What fails on the way is taken back at once, and what is done can be taken back later (`undo.py`). So that nothing is
forgotten, the keeper's disk copies every file of the directory aside before its first change, whoever makes it.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from flintlog.core.finding import Finding, Severity
from flintlog.core.kept import KEPT_DIRECTORY, check_kept
from flintlog.core.plan import Step
from flintlog.core.undo import (
    RECORD_FILE,
    Record,
    age,
    digest,
    digests,
    give_back,
    kept_files,
    tree,
)
from flintlog.disk import Disk, File, Kernel, KernelInFront, Mode, Stat, take_lock
from flintlog.disk.disk import FLAGS
from flintlog.errors import FlintlogError, LockedError, RefusedError, tell

REPAIR_SCRATCH = "repair.new"


@dataclass(slots=True)
class Draft:
    """A repair in the making: what an operator reads, and what is then done."""

    steps: list[Step] = field(default_factory=list)
    actions: list[Callable[[Keeper], None]] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    refusal: str | None = None

    def add(self, action: str, file: str, reason: str, act: Callable[[Keeper], None]) -> None:
        self.steps.append(Step(action, file, reason))
        self.actions.append(act)

    def carry_out(self, keeper: Keeper, then: Callable[[Disk], str | None] | None = None) -> str:
        """Take every action under the keeper's lock, then do what `then` does on its disk; all of it, or nothing.

        Returns one line that says what was done.
        """
        if self.refusal is not None:
            raise RefusedError(self.refusal, file=keeper.root)
        more = None
        try:
            with keeper:
                for act in self.actions:
                    act(keeper)
            if then is not None:
                more = then(keeper.disk)
            keeper.finish()
        except BaseException as error:
            tell(error, keeper.take_back())
            raise
        done = f"repaired; the original files are in {keeper.directory}" if keeper.has_kept else "repaired"
        return f"{done}; {more}" if more else done


def kept_name(now: float, findings: Sequence[Finding]) -> str:
    """The name of the place for the originals: when, and what was wrong first."""
    worst = next((item.code for item in findings if item.severity is not Severity.NOTE), "nothing")
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(now))}-{worst}"


class Keeper:
    """The files of one directory, while its writer's lock is held."""

    def __init__(self, disk: Disk, root: str, name: str, *, lock: str, lock_mode: Mode, scratch: str) -> None:
        self.disk = Disk(_KeepingKernel(disk.kernel, self._before_change), disk.progress)
        self.root = root
        self.directory = posixpath.join(root, KEPT_DIRECTORY, name)
        self._plain = disk
        self._scratch = scratch
        self._lock_place = (lock, lock_mode)
        self._lock: File | None = None
        self._before: dict[str, bool] | None = (
            None  # the files that were there, and whether each is kept by now
        )

    @property
    def has_kept(self) -> bool:
        return any((self._before or {}).values())

    def __enter__(self) -> Keeper:
        try:
            self._begin()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _begin(self) -> None:
        check_kept(self._plain, self.root)
        was_there = self._plain.stat(self._lock_place[0]) is not None
        self._lock = take_lock(self._plain, *self._lock_place, self.root)
        self._plain.make_passing_directory(self._scratch)
        self.directory = self._unused(self.directory)
        made = None if was_there else posixpath.relpath(self._lock_place[0], self.root)  # by taking the lock
        self._before = {name: False for name in tree(self._plain, self.root) if name != made}
        self._write(Record("begun", list(self._before)))

    def __exit__(self, *exc: object) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def _unused(self, directory: str) -> str:
        """Repairs of one second are numbered: none writes over the originals of another, and their order is known."""
        stamp = posixpath.basename(directory).partition("-")[0]
        there = [age(name) for name in self._plain.list(posixpath.dirname(directory))]
        numbers = [number for moment, number, _ in there if moment == stamp]
        return f"{directory}-{max(numbers) + 1}" if numbers else directory

    def keep(self, name: str) -> None:
        """Copy a file aside, durable on return."""
        if self._before is None or self._before.get(name, True):
            return
        with self.open(name) as source:
            self._set_aside(name, source.chunks(0, source.size()), source.stat())
        self._before[name] = True

    def open(self, name: str) -> File:
        """A file of the directory, to read."""
        return self._plain.open(posixpath.join(self.root, name))

    def replace(self, name: str, chunks: Iterable[bytes]) -> None:
        """Put new content in the place of a file."""
        self.keep(name)
        self._publish(posixpath.join(self.root, name), chunks)

    def remove(self, name: str) -> None:
        """Take a file away; whether a crash brings it back is left open until `settle`."""
        self.disk.unlink(posixpath.join(self.root, name))

    def settle(self, directory: str) -> None:
        """Make the removals in a directory durable."""
        self._plain.sync_directory(posixpath.join(self.root, directory))

    def finish(self) -> None:
        """Write down what the repair left, so that it can be told from what comes later."""
        try:
            lock = take_lock(self._plain, *self._lock_place, self.root)
        except LockedError:
            return  # somebody writes already: nobody can tell any more
        with lock:
            before = self._before or {}
            originals = {
                name: digest(self._plain, posixpath.join(self.directory, name))
                for name, kept in before.items()
                if kept
            }
            self._write(Record("done", list(before), digests(self._plain, self.root), originals))

    def take_back(self) -> str:
        """Undo what was done so far, after an error; returns a sentence on what is there now."""
        if self._before is None:
            self._leave_nothing()
            return "Nothing was changed"
        try:
            lock = self._lock or take_lock(self._plain, *self._lock_place, self.root)
            with lock:
                give_back(self._plain, self.root, self.directory, list(self._before))
                for name in (
                    *kept_files(self._plain, self.directory),
                    RECORD_FILE,
                ):  # no writing: it may be full
                    if self._plain.stat(posixpath.join(self.directory, name)) is not None:
                        self._plain.unlink(posixpath.join(self.directory, name))
                self._leave_nothing()
        except FlintlogError as error:
            return (
                f"The files could not all be put back ({error.what()}); they are in {self.directory}, and "
                "`repair --undo --force` puts them back"
            )
        return "Nothing was changed"

    def _leave_nothing(self) -> None:
        """Remove the place for the originals, where nothing is in it any more."""
        with suppress(FlintlogError):
            if not any(tree(self._plain, self.directory)):
                self._plain.remove_directory(self.directory)
            if not self._plain.list(posixpath.dirname(self.directory)):
                self._plain.remove_directory(posixpath.dirname(self.directory))

    def _before_change(self, path: str) -> None:
        """Keep a file, or every file below a directory."""
        name = posixpath.relpath(path, self.root)
        for each in self._before or ():
            if each == name or each.startswith(f"{name}/"):
                self.keep(each)

    def _write(self, record: Record) -> None:
        self._set_aside(RECORD_FILE, [record.encode()])

    def _set_aside(self, name: str, chunks: Iterable[bytes], like: Stat | None = None) -> None:
        target = posixpath.join(self.directory, name)
        self._plain.make_directory(posixpath.dirname(target))
        self._publish(target, chunks, like)

    def _publish(self, target: str, chunks: Iterable[bytes], like: Stat | None = None) -> None:
        self._plain.publish(target, chunks, scratch=posixpath.join(self._scratch, REPAIR_SCRATCH), like=like)


class _KeepingKernel(KernelInFront):
    """Hands every call on, and says which file is about to change."""

    def __init__(self, kernel: Kernel, before_change: Callable[[str], None]) -> None:
        super().__init__(kernel)
        self._before_change = before_change
        self._untouched: dict[int, str] = {}  # open for writing, and not written to yet

    def open(self, path: str, flags: int) -> int:
        handle = self._kernel.open(path, flags)
        if flags & FLAGS["write"]:
            self._untouched[handle] = path
        return handle

    def close(self, handle: int) -> None:
        self._untouched.pop(handle, None)
        self._kernel.close(handle)

    def pwrite(self, handle: int, data: memoryview, offset: int) -> int:
        self._touch(handle)
        return self._kernel.pwrite(handle, data, offset)

    def truncate(self, handle: int, size: int) -> None:
        self._touch(handle)
        self._kernel.truncate(handle, size)

    def rename(self, source: str, target: str) -> None:
        self._before_change(source)
        self._before_change(target)
        self._kernel.rename(source, target)

    def unlink(self, path: str) -> None:
        self._before_change(path)
        self._kernel.unlink(path)

    def _touch(self, handle: int) -> None:
        path = self._untouched.pop(handle, None)
        if path is not None:
            self._before_change(path)
