"""Looking at a directory that somebody may be writing to. Readers never lock, so they may catch a writer half-way.

What a crash leaves looks the same as what a writer is just about to finish. Only the second is gone a moment
later, so whoever sees such a thing looks again before saying that it is wrong.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace

from flintlog.core.finding import Finding, Severity
from flintlog.core.inventory import Inventory
from flintlog.disk import Disk
from flintlog.errors import DiskError, RefusedError

_LOOKS_MAX = 5
_PAUSE_SECONDS = 0.02


@contextmanager
def suppress_gone() -> Iterator[None]:
    """What was removed while we look counts no more."""
    try:
        yield
    except DiskError as error:
        if error.errno != errno.ENOENT:
            raise


def look(
    disk: Disk,
    path: str,
    first: Callable[[], Inventory],
    again: Callable[[], Inventory],
    passing: Collection[str],
) -> Inventory:
    """A look at a directory; findings whose code is `passing` and that a second look does not see become notes.

    The second look may be a quick one, as long as it sees everything that can pass.
    """
    found = _while_files_go(path, first)
    if not any(_may_pass(finding, passing) for finding in found.findings):
        return found
    disk.pause(_PAUSE_SECONDS)
    stands = {_place(finding) for finding in _while_files_go(path, again).findings}
    return replace(
        found,
        findings=tuple(
            _passed(finding) if _may_pass(finding, passing) and _place(finding) not in stands else finding
            for finding in found.findings
        ),
    )


def _may_pass(finding: Finding, passing: Collection[str]) -> bool:
    return finding.code in passing and finding.severity is not Severity.NOTE


def _place(finding: Finding) -> tuple[str, str | None, int | None]:
    return finding.code, finding.file, finding.offset


def _passed(finding: Finding) -> Finding:
    message = f"{finding.message}; gone a moment later, so somebody is writing here"
    return replace(finding, severity=Severity.NOTE, message=message)


def _while_files_go(path: str, look: Callable[[], Inventory]) -> Inventory:
    """Look again when a file was removed between its listing and its reading."""
    for _ in range(_LOOKS_MAX):
        try:
            return look()
        except DiskError as error:
            if error.errno != errno.ENOENT:
                raise
    raise RefusedError(
        "files are removed faster than they can be read",
        file=path,
        advice="Try again, or close the store that writes here",
    )
