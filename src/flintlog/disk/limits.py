"""What the system lets this process have."""

from __future__ import annotations

import resource


def allow_more_files() -> bool:
    """Raise the limit of open files to the highest that this process may set; False when it stands there already.

    A log of many files has all of them mapped at once, and each mapping holds one of them open.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == hard:
        return False
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError):
        return False
    return True
