"""Where a store's data is, and which settings hold."""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass
from typing import Unpack

from flintlog.core.inside import inner_directory
from flintlog.dialects.taskflux import files
from flintlog.dialects.taskflux.settings import Arguments, Settings, load_settings
from flintlog.disk import Disk

RESERVE_BYTES_DEFAULT = 1 << 20


@dataclass(frozen=True, slots=True)
class Opening:
    """How to open: where, with which limits, and how a new directory is made."""

    data: str
    settings: Settings
    edition: str | None = None  # None: that of the directory; designed when it is new
    preallocate: bool = False
    reserve_bytes: int = RESERVE_BYTES_DEFAULT
    wait: float = 0  # seconds to wait for another writer


def opening_of(
    disk: Disk,
    path: str | os.PathLike[str],
    *,
    edition: str | None = None,
    preallocate: bool = False,
    reserve_bytes: int = RESERVE_BYTES_DEFAULT,
    wait: float = 0,
    **arguments: Unpack[Arguments],
) -> Opening:
    """`path` is the root, which has the settings and `data`; or an existing data directory itself."""
    named = disk.resolve(path)
    is_data = files.is_data(disk, named)
    root = posixpath.dirname(named) if is_data else named
    settings = load_settings(disk, root, **arguments)
    data = named if is_data else posixpath.join(settings.data_directory or root, "data")
    if data != named:
        inner_directory(disk, data)
    return Opening(data, settings, edition, preallocate, reserve_bytes, wait)
