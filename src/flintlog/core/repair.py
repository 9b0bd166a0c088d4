"""Repair, as every dialect does it: a draft of the steps that an operator reads, with the action of each.

A repair runs in a transaction that keeps originals (`journal.py`): before a file changes for the first time, a copy of
it goes to `kept/<time>-<reason>/`. New content takes the place of a file by one rename. A crash leaves the old file
or the new one, and the copy in any case. An error takes the whole repair back; `repair --undo` does so later.
"""

from __future__ import annotations

import posixpath
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from flintlog.core.finding import Finding, Severity
from flintlog.core.journal import RepairJournal
from flintlog.core.kept import KEPT_DIRECTORY, check_kept
from flintlog.core.plan import Plan, Step
from flintlog.disk import Disk, File, Mode, take_lock, transaction, write_all
from flintlog.errors import LockedError

REPAIR_SCRATCH = "repair.new"
UNSUPPORTED = "a version that this release does not know is not damage; nothing is repaired"


@dataclass(frozen=True, slots=True)
class Files:
    """The files of a log directory, for the actions of a repair. What changes is kept first."""

    disk: Disk
    root: str
    scratch: str

    def open(self, name: str) -> File:
        """A file of the directory, to read."""
        return self.disk.open(posixpath.join(self.root, name))

    def replace(self, name: str, chunks: Iterable[bytes]) -> None:
        """Put new content in the place of a file; a crash may bring the old one back until its directory is synced."""
        with self.disk.create_scratch(posixpath.join(self.scratch, REPAIR_SCRATCH)) as file:
            write_all(file, chunks)
            self.disk.put(file, posixpath.join(self.root, name))

    def remove(self, name: str) -> None:
        """Remove a file; a crash may bring it back until its directory is synced."""
        self.disk.unlink(posixpath.join(self.root, name))


Action = Callable[[Files], None]


def opening_does_it(files: Files) -> None:
    """Do nothing: the repair opens the directory at its end, and that heals it."""


@dataclass(slots=True)
class Draft:
    """A repair in the making."""

    steps: list[Step] = field(default_factory=list)
    actions: list[Action] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    refusal: str | None = None

    def add(self, action: str, file: str, reason: str, act: Action = opening_does_it) -> None:
        self.steps.append(Step(action, file, reason))
        self.actions.append(act)

    def aside(self, name: str, reason: str, action: str = "move aside") -> None:
        """Take a file out of the log; its copy stays in `kept/`."""
        self.add(action, name, reason, lambda files: files.remove(name))

    def replace(self, action: str, name: str, reason: str, *content: bytes) -> None:
        """Put new content in the place of a file."""
        self.add(action, name, reason, lambda files: files.replace(name, content))

    def rewrite(
        self, action: str, name: str, reason: str, content: Callable[[File], Iterable[bytes]]
    ) -> None:
        """Put new content, made from the old one, in the place of a file."""

        def act(files: Files) -> None:
            with files.open(name) as source:
                files.replace(name, content(source))

        self.add(action, name, reason, act)

    def plan(
        self,
        dialect: str,
        disk: Disk,
        root: str,
        findings: Sequence[Finding],
        *,
        lock: tuple[str, Mode],
        scratch: str = KEPT_DIRECTORY,
        then: Callable[[Disk], object] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> Plan:
        """The plan of this repair. After all actions `then` opens the directory once."""
        if any(finding.severity is Severity.UNSUPPORTED for finding in findings):
            self.refusal = self.refusal or UNSUPPORTED
        refused = self.refusal is not None

        def act(work: Disk) -> str:
            journal = RepairJournal(disk, root, kept_name(clock(), findings))
            with transaction(work, originals=journal) as work:
                check_kept(disk, root)
                made = None if disk.stat(lock[0]) is not None else posixpath.relpath(lock[0], root)
                with take_lock(work, *lock, root):
                    journal.begin(made)
                    work.make_passing_directory(posixpath.join(root, scratch))
                    files = Files(work, root, posixpath.join(root, scratch))
                    for action in self.actions:
                        action(files)
                if then is not None:
                    then(work)
                with (
                    suppress(LockedError),
                    take_lock(work, *lock, root),
                ):  # unless a store has opened it meanwhile
                    journal.finish()
            where = f"; the original files are in {journal.directory}" if journal.has_kept else ""
            return f"repaired{where}"

        return Plan(
            "repair",
            dialect,
            root,
            () if refused else tuple(self.steps),
            act,
            () if refused else tuple(self.lost),
            tuple(findings),
            self.refusal,
            disk=disk,
        )


def kept_name(now: float, findings: Sequence[Finding]) -> str:
    """The name of the place for the originals: when, and what was wrong first."""
    worst = next((item.code for item in findings if item.severity is not Severity.NOTE), "nothing")
    return f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(now))}-{worst}"
