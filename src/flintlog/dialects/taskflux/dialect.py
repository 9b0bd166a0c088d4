"""taskflux: durable priority queues, in a segmented Raft log of deltas, a snapshot, metadata."""

from __future__ import annotations

import posixpath

from flintlog.core.dialect import Dialect
from flintlog.core.inside import inner_directory
from flintlog.dialects.taskflux import files, layout
from flintlog.disk import Disk, Mode
from flintlog.errors import NotALogError, RefusedError, SettingsError


class Taskflux(Dialect):
    """The directory you name may be the root of a data directory; its settings may put that elsewhere."""

    name = "taskflux"
    stream = "queue"
    unit = "LSN"
    has_editions = True

    def home(self, disk: Disk, path: str) -> str:
        found = self._locate(disk, path)
        if found is None:
            raise NotALogError(
                "this is not a taskflux directory", file=path, advice="Name its root or its data directory"
            )
        if found != path:
            inner_directory(disk, found)
        return found

    def recognise(self, disk: Disk, path: str) -> bool:
        try:
            found = self._locate(disk, path)
        except (SettingsError, RefusedError):  # unreadable settings are reported later
            data = posixpath.join(path, "data")
            found = data if files.is_data(disk, data) else None
        # A scratch directory alone is no evidence, but a store may use a directory that has one.
        return found is not None and disk.list(found) != [layout.SHIPPED.scratch]

    def edition(self, disk: Disk, root: str) -> str | None:
        found = files.detect_layout(disk, files.list_files(disk, root))
        return None if found is None else found.edition

    def lock(self, root: str) -> tuple[str, Mode]:
        return posixpath.join(root, layout.METADATA_FILE), "create"

    def _locate(self, disk: Disk, path: str) -> str | None:
        from flintlog.dialects.taskflux.settings import locate

        return locate(disk, path)


DIALECT = Taskflux()
