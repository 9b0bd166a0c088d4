"""The sessions that come due, and those that were replayed too often."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import operations as ops
from flintlog.dialects.mpy6a.operations import Place
from flintlog.dialects.mpy6a.store.chains import Chains
from flintlog.dialects.mpy6a.store.engine import Engine, Work
from flintlog.dialects.mpy6a.store.reader import DueReader
from flintlog.dialects.mpy6a.store.session import Topic
from flintlog.dialects.mpy6a.windows import Piece


class Taken(NamedTuple):
    """The rows of all pieces, numbered through: their order by due time, and which are spent."""

    pieces: list[Piece]
    order: NDArray[np.int64]
    spent: NDArray[np.bool_]  # replayed too often


class Due:
    """Hands out sessions that are due. The caller holds the engine's lock in every call."""

    def __init__(self, engine: Engine, chains: Chains, topics: Callable[[], Mapping[int, Topic]]) -> None:
        self._engine = engine
        self._chains = chains
        self._topics = topics
        self._listed: set[Place] = set()  # places of sessions that `sessions` listed, and `due` hands out too
        self.begin()

    def begin(self) -> None:
        """Read from the beginning: sessions that were handed out and not ended come again."""
        engine = self._engine
        self._reader = DueReader(engine.disk, engine.path, engine.machine)

    def next(self) -> int | None:
        """The due time of the next session; None when none waits."""
        return self._reader.next_due()

    def take(self, work: Work, now: int, limit: int) -> Taken:
        """Hand out up to `limit` sessions. Without `strict` spent ones move to the file of exhausted sessions."""
        pieces, order = self._reader.take(now, limit)
        pieces = [self._with_changes(piece) for piece in pieces]
        for piece in pieces:
            if not self._engine.machine.files[piece.file.name].flags & lay.READ:
                self._engine.do(work, lay.OpenToRead(piece.file.name))
        limited = {
            topic.number: topic.attempts_max for topic in self._topics().values() if topic.attempts_max
        }
        if not limited:
            return Taken(pieces, order, np.zeros(len(order), np.bool_))
        spent = [self._spent(piece, limited) for piece in pieces]
        if not self._engine.strict:
            for piece, mine in zip(pieces, spent, strict=True):
                self._set_aside(work, piece, mine)
        return Taken(pieces, order, np.concatenate(spent) if spent else np.zeros(0, np.bool_))

    def _with_changes(self, piece: Piece) -> Piece:
        """The piece with the data of its open sessions as they were changed."""
        taken = self._engine.machine.taken.items()
        changes = [(offset, session.data) for (name, offset), session in taken if name == piece.file.name]
        return piece.changed(changes) if changes else piece

    def _spent(self, piece: Piece, limited: Mapping[int, int]) -> NDArray[np.bool_]:
        records = piece.records
        spent = np.zeros(len(records), np.bool_)
        for topic, attempts_max in limited.items():
            spent |= (records.topic == topic) & (records.attempts >= attempts_max)
        return spent

    def _set_aside(self, work: Work, piece: Piece, spent: NDArray[np.bool_]) -> None:
        for row in np.flatnonzero(spent).tolist():
            self._engine.do(work, ops.Exhaust(piece.place(row), lay.encode_record(piece.record(row))))
            self._chains.advance(work, piece.file.name)

    # Sessions with two handles

    def list_too(self, place: Place) -> None:
        """Note that `sessions` listed the session at this place."""
        self._listed.add(place)

    def was_ended(self, place: Place | None) -> bool:
        """Was a session with two handles ended by the other one?"""
        return place in self._listed and (place.name, place.offset) not in self._engine.machine.taken

    def ended_among(self, places: list[Place]) -> Place | None:
        """A session inside these places that was ended by its other handle; None when there is none."""
        ended = filter(self.was_ended, self._listed)
        return next((place for place in ended if any(each.holds(place) for each in places)), None)

    def finish(self, work: Work, place: Place) -> None:
        """Note that a session was ended, maybe before it was handed out."""
        self._chains.advance(work, place.name)
        if place in self._listed:
            self._reader.forget(place)

    def in_use(self) -> set[str]:
        """The files whose sessions were handed out."""
        return self._reader.in_use() | {place.name for place in self._listed}
