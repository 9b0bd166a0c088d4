"""limestone: a key-value log with parallel channels, epochs and group commit."""

from __future__ import annotations

from flintlog.core.dialect import Dialect
from flintlog.core.position import Position
from flintlog.disk import Disk
from flintlog.errors import UsageError


class Limestone(Dialect):
    """A position is an epoch."""

    name = "limestone"
    stream = "storage"
    unit = "epoch"
    has_editions = True
    has_versions = True

    def recognise(self, disk: Disk, path: str) -> bool:
        found: bool = self.room("files").recognise(disk, path)
        return found

    def edition(self, disk: Disk, root: str) -> str | None:
        found = self.room("survey").survey(disk, root, walk=False)
        return None if found.manifest is None else found.edition

    def parse(self, position: Position) -> int:
        epoch: int = super().parse(position)
        if epoch > self.room("layout").NUMBER_MAX:
            raise UsageError(f"{epoch} is not an epoch", advice="Epochs are numbers of 64 bits")
        return epoch


DIALECT = Limestone()
