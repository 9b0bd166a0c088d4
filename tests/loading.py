"""A load as Spark plays it, in this process: a plan, a task for each frame, one commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from flintlog.core.load import Batch, Staged, new_job, staged_name, sweep
from flintlog.disk import Disk


class Loading:
    """One load of a directory; the parts can be called one by one."""

    def __init__(self, room: Any, path: object, edition: str | None = None, **options: bool) -> None:
        self.room = room
        self.disk = Disk()
        self.job = new_job()
        self.plan = room.plan(self.disk, str(path), edition, **options)

    def stage(self, part: int, frame: dict[str, Any]) -> Staged:
        place = staged_name(self.plan, self.job)
        return self.room.stage(self.disk, self.plan, place, part, [pa.record_batch(frame)])

    def commit(self, staged: Sequence[Staged], batch: Batch | None = None) -> bool:
        is_new = self.room.commit(self.disk, self.plan, staged, batch)
        sweep(self.disk, self.plan.scratch, self.job)
        return is_new

    def all(self, *frames: dict[str, Any], batch: Batch | None = None) -> bool:
        return self.commit([self.stage(part, frame) for part, frame in enumerate(frames)], batch)
