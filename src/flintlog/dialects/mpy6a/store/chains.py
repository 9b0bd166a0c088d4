"""The data files of every delay, as a store writes them: it begins one behind a full one, and removes read ones."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING

from flintlog.dialects.mpy6a import compaction, distributed
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a.compaction import Merge
from flintlog.dialects.mpy6a.files import list_files
from flintlog.dialects.mpy6a.replay import File
from flintlog.dialects.mpy6a.store.engine import Engine, Work
from flintlog.disk import DEFERRED
from flintlog.disk import File as DiskFile

if TYPE_CHECKING:
    from flintlog.core.workers import Workers


class Chains:
    """The data files that a store writes. The caller holds the engine's lock in every call."""

    def __init__(self, engine: Engine, *, file_bytes: int, file_seconds: int | None) -> None:
        self._engine = engine
        self.file_bytes = file_bytes
        self._file_seconds = file_seconds

    def make_room(self, work: Work, delay: int, due: int) -> None:
        """Make sure that a file of this delay is being written and has room."""
        tail = self._engine.machine.tail(delay)
        if tail is None or tail.length >= self.file_bytes or self._is_old(tail, due - delay):
            self.begin_file(work, delay, due)

    def begin_file(self, work: Work, delay: int, due: int) -> None:
        """Begin the next file of a delay, then delete read ones: a new name must come behind all living ones."""
        if (tail := self._engine.machine.tail(delay)) is not None:
            self._engine.do(work, lay.StopWriting(tail.name))
        self._engine.do(work, lay.Create(delay, due - delay))
        for file in list(self._engine.machine.chains[delay]):
            self._drop_if_read(work, file)

    def let_go(self, work: Work, now: float, due_after: Callable[[int], int]) -> None:
        """Begin new files for delays whose file is old and read to its end: they may never get another session."""
        for delay in list(self._engine.machine.chains) if self._file_seconds is not None else ():
            tail = self._engine.machine.tail(delay)
            if tail is not None and tail.offset == tail.length and self._is_old(tail, now):
                self.begin_file(work, delay, due_after(delay))

    def advance(self, work: Work, name: str) -> None:
        """Shift the read position over records that are done."""
        file = self._engine.machine.files[name]
        while (size := file.finished.get(file.offset)) is not None:
            self._engine.do(work, lay.Shift(name, size))
        self._drop_if_read(work, file)

    def merge(self, in_use: set[str], workers: Workers | None) -> int:
        """Merge the unread remains of files that are no longer written; returns how many bytes that frees."""
        engine = self._engine
        engine.drain()
        merges = compaction.plan(engine.machine, self.file_bytes, in_use)
        if not merges:
            return 0
        freed = sum(merge.dead_bytes for merge in merges)
        with ExitStack() as stack:
            with engine.failstop.preparing(), DEFERRED.lifted():
                written = stack.enter_context(
                    distributed.merged_files(workers, engine.disk, engine.path, merges)
                )
            names = [self._publish(*item) for item in zip(merges, written, strict=True)]
            for merge, name in zip(merges, names, strict=True):
                engine.machine.merge(engine.machine.last.following(), merge.files, name)
            engine.rebase(engine.machine, [file.name for merge in merges for file in merge.files])
        return freed

    def _publish(self, merge: Merge, written: DiskFile) -> str:
        """Give a synced merged file its name; file and name count from the next `rebase`."""
        engine = self._engine
        # It counts as created with the first file. Its name comes behind the delay's last name, which always lives:
        # any other may have been used before.
        living = [*engine.machine.files, *list_files(engine.disk, engine.path).data]
        chain = engine.machine.chains[merge.files[0].delay]
        name = lay.name_behind(max((file.name for file in chain), key=lay.name_key), living)
        engine.announce(name)
        with engine.failstop.guard():
            engine.disk.rename(written.path, f"{engine.path}/{name}")
        return name

    def _is_old(self, file: File, now: float) -> bool:
        """Does the file have sessions, and is it at least `file_seconds` old?"""
        seconds = self._file_seconds
        return seconds is not None and file.length > 0 and now - (file.replay - file.delay) >= seconds

    def _drop_if_read(self, work: Work, file: File) -> None:
        if self._engine.machine.is_spent(file):
            self._engine.do(work, lay.Delete(file.name))
