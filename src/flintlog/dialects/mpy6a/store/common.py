"""What the calls of a `SessionStore` share: topics, files that are begun and go, sessions with two handles."""

from __future__ import annotations

import logging
from collections.abc import Callable

import numpy as np

from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import operations as ops
from flintlog.dialects.mpy6a.compaction import Merge
from flintlog.dialects.mpy6a.files import list_files
from flintlog.dialects.mpy6a.layout import Record
from flintlog.dialects.mpy6a.operations import Place
from flintlog.dialects.mpy6a.replay import File
from flintlog.dialects.mpy6a.store.engine import Engine, Work
from flintlog.dialects.mpy6a.store.errors import TopicUnknownError
from flintlog.dialects.mpy6a.store.reader import DueReader, Piece
from flintlog.dialects.mpy6a.store.session import Topic, check_delay
from flintlog.disk import File as DiskFile

_log = logging.getLogger(__name__)


class Common:
    """The lock is held in every call."""

    topics: dict[int, Topic]
    _engine: Engine
    _reader: DueReader
    _listed: set[Place]
    _file_bytes: int
    _file_seconds: int | None
    _on_exhausted: Callable[[Record], None]

    def _make_room(self, work: Work, delay: int, due: int) -> None:
        """See to it that a file of this delay is written and not full."""
        tail = self._engine.machine.tail(delay)
        if tail is None or tail.length >= self._file_bytes or self._is_old(tail, due - delay):
            self._begin_file(work, delay, due)

    def _is_old(self, file: File, now: float) -> bool:
        """Was a file that has sessions begun `file_seconds` ago?"""
        seconds = self._file_seconds
        return seconds is not None and file.length > 0 and now - (file.replay - file.delay) >= seconds

    def _begin_file(self, work: Work, delay: int, due: int) -> None:
        """Begin the next file of a delay. Only then those go that are read: a new name comes behind all living ones."""
        if (tail := self._engine.machine.tail(delay)) is not None:
            self._engine.do(work, lay.StopWriting(tail.name))
        self._engine.do(work, lay.Create(delay, due - delay))
        for file in list(self._engine.machine.chains[delay]):
            self._drop_if_read(work, file)

    def _advance(self, work: Work, name: str) -> None:
        """Shift the read position over what is done with."""
        file = self._engine.machine.files[name]
        while (size := file.finished.get(file.offset)) is not None:
            self._engine.do(work, lay.Shift(name, size))
        self._drop_if_read(work, file)

    def _drop_if_read(self, work: Work, file: File) -> None:
        if self._engine.machine.is_spent(file):
            self._engine.do(work, lay.Delete(file.name))

    def _spent(self, pieces: list[Piece]) -> np.ndarray:
        """Which rows of all pieces were replayed too often."""
        limits = [(item.number, item.attempts_max) for item in self.topics.values() if item.attempts_max]
        spent = [np.zeros(len(piece.records), np.bool_) for piece in pieces]
        for piece, mine in zip(pieces, spent, strict=True):
            for number, most in limits:
                mine |= (piece.records.topic == number) & (piece.records.attempts >= most)
        return np.concatenate(spent) if spent else np.zeros(0, np.bool_)

    def _set_aside(self, work: Work, pieces: list[Piece], spent: np.ndarray) -> None:
        """Move what was replayed too often to the file of exhausted sessions."""
        begin = 0
        for piece in pieces:
            for row in np.flatnonzero(spent[begin : begin + len(piece.records)]).tolist():
                self._engine.do(work, ops.Exhaust(piece.place(row), lay.encode_record(piece.record(row))))
                self._advance(work, piece.file)
            begin += len(piece.records)

    def _was_ended(self, place: Place | None) -> bool:
        """Was a session that had two handles ended with the other one?"""
        return place in self._listed and (place.name, place.offset) not in self._engine.machine.taken

    def _forget(self, place: Place) -> None:
        """A session is ended that `due` perhaps did not hand out yet."""
        if place in self._listed:
            self._reader.forget(place)

    def _in_use(self) -> set[str]:
        return self._reader.in_use() | {place.name for place in self._listed}

    def _put_merged(self, merge: Merge, written: DiskFile) -> str:
        """Give a merged file, which is synced, its name; it counts with the next `rebase`, and so does the name."""
        engine = self._engine
        # It counts as created when the first of them was. Its name comes behind the last one, which always lives: any
        # other may have been given out before.
        living = [*engine.machine.files, *list_files(engine.disk, self._engine.path).data]
        chain = engine.machine.chains[merge.files[0].delay]
        name = lay.name_behind(max((file.name for file in chain), key=lay.name_key), living)
        engine.announce(name)
        with engine.failstop.guard():
            engine.disk.rename(written.path, f"{self._engine.path}/{name}")
        return name

    def delay_of(self, topic: int, delay: int | None) -> int:
        """How long a session waits: as it is told, or as its topic says."""
        return check_delay(delay) if delay is not None else self._topic(topic).delay

    def _topic(self, number: int) -> Topic:
        topic = self.topics.get(number) if isinstance(number, int) else None
        if topic is None:
            known = ", ".join(map(str, sorted(self.topics))) or "none"
            raise TopicUnknownError(
                f"there is no topic {number}", advice=f"Known: {known}. Name it in `topics`"
            )
        return topic

    def _tell(self, record: Record) -> bool:
        """Hand an exhausted session to the callback, whose failure must not hold up the others. Did it succeed?"""
        try:
            self._on_exhausted(record)
        except Exception:
            _log.exception("the callback for exhausted sessions failed for session %s", record.id)
            return False
        return True

    def _with_changes(self, piece: Piece) -> Piece:
        """The piece with what was done to its sessions before the store was opened."""
        for (name, offset), session in self._engine.machine.taken.items():
            if name == piece.file:
                piece = piece.changed(offset, session.data)
        return piece
