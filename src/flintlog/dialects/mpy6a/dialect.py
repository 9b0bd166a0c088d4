"""mpy6a: unfinished sessions, in a chain of files for each delay, descriptors, a change log, an operation log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flintlog.core.dialect import Dialect
from flintlog.core.position import Position
from flintlog.dialects.mpy6a import files
from flintlog.disk import Disk
from flintlog.errors import UsageError

if TYPE_CHECKING:
    from flintlog.dialects.mpy6a.layout import StateID


class Mpy6a(Dialect):
    """A position is a state id: a term and an index. A query also takes an index alone, in whatever term."""

    name = "mpy6a"
    stream = "topic"
    unit = "state id"
    not_loaded = (
        "a session gets its id and its replay time from the store that is asked to keep it",
        "Use `SessionStore.put_many` in one process",
    )

    def recognise(self, disk: Disk, path: str) -> bool:
        return files.is_ours(disk, path)

    def check_bound(self, position: Position) -> None:
        self.room("tables").check_position(position)

    def parse(self, position: Position) -> StateID:
        from flintlog.dialects.mpy6a.layout import StateID

        if len(position) != 2:
            raise UsageError("an mpy6a position has two parts", advice="Give TERM,INDEX, such as 3,17")
        self.check_bound(position)
        return StateID(*position)


DIALECT = Mpy6a()
