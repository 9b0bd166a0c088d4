"""Changes files of a log directory, each only after its original is kept aside.

What repair does in every dialect: hold the writer's lock, copy an original to `kept/<time>-<reason>/`, and put
new content in its place by one rename. A crash leaves the old file or the new one, and the copy in any case.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from flintlog.core.finding import Finding, Severity
from flintlog.core.plan import Step
from flintlog.disk import Disk, File, Mode, take_lock
from flintlog.errors import RefusedError

KEPT_DIRECTORY = "kept"
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

    def carry_out(self, keeper: Keeper) -> str:
        """Take every action under the keeper's lock; returns one line that says what was done."""
        if self.refusal is not None:
            raise RefusedError(self.refusal, file=keeper.root)
        with keeper:
            for act in self.actions:
                act(keeper)
        return f"repaired; the original files are in {keeper.directory}" if keeper.has_kept else "repaired"


def kept_name(now: float, findings: Sequence[Finding]) -> str:
    """The name of the place for the originals: when, and what was wrong first."""
    worst = next((item.code for item in findings if item.severity is not Severity.NOTE), "nothing")
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(now))}-{worst}"


class Keeper:
    """The files of one directory, while its writer's lock is held."""

    def __init__(self, disk: Disk, root: str, name: str, *, lock: str, lock_mode: Mode, scratch: str) -> None:
        self.disk = disk
        self.root = root
        self.directory = posixpath.join(root, KEPT_DIRECTORY, name)
        self._scratch = scratch
        self._lock_place = (lock, lock_mode)
        self._lock: File | None = None
        self.has_kept = False

    def __enter__(self) -> Keeper:
        self._lock = take_lock(self.disk, *self._lock_place, self.root)
        self.disk.make_passing_directory(self._scratch)
        self.directory = self._unused(self.directory)
        return self

    def __exit__(self, *exc: object) -> None:
        if self._lock is not None:
            self._lock.close()

    def _unused(self, directory: str) -> str:
        """A second repair in the same second must not write over the originals of the first."""
        number = 1
        found = directory
        while self.disk.stat(found) is not None:
            number += 1
            found = f"{directory}-{number}"
        return found

    def keep(self, name: str) -> None:
        """Copy a file aside, durable on return."""
        target = posixpath.join(self.directory, name)
        self.disk.make_directory(posixpath.dirname(target))
        with self.open(name) as source:
            self._publish(target, source.chunks(0, source.size()))
        self.has_kept = True

    def open(self, name: str) -> File:
        """A file of the directory, to read."""
        return self.disk.open(posixpath.join(self.root, name))

    def replace(self, name: str, chunks: Iterable[bytes]) -> None:
        """Put new content in the place of a file."""
        self._publish(posixpath.join(self.root, name), chunks)

    def remove(self, name: str) -> None:
        """Take a file away; whether a crash brings it back is left open until `settle`."""
        self.disk.unlink(posixpath.join(self.root, name))

    def settle(self, directory: str) -> None:
        """Make the removals in a directory durable."""
        self.disk.sync_directory(posixpath.join(self.root, directory))

    def _publish(self, target: str, chunks: Iterable[bytes]) -> None:
        self.disk.publish(target, chunks, scratch=posixpath.join(self._scratch, REPAIR_SCRATCH))
