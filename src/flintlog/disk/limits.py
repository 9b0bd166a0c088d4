"""Limits that the system sets this process."""

from __future__ import annotations

import resource


def allow_more_files() -> bool:
    """Raise the limit of open files to the highest that this process may set; False when it is there already.

    A log of many files is mapped all at once, and each mapping holds a file open.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return False
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        return False
    return True
