"""What a figure depends on: cores, processor, file system, versions. No names and no paths."""

from __future__ import annotations

import os
import platform
import sqlite3
import zlib
from importlib import metadata


def facts(directory: str) -> dict[str, str]:
    """What to state beside the figures."""
    packages = (
        "numpy",
        "numba",
        "persist-queue",
        "litequeue",
        "localqueue",
        "pysyncobj",
        "huey",
        "rocksdict",
    )
    versions = [f"{name} {metadata.version(name)}" for name in packages]
    return {
        "cores": str(len(os.sched_getaffinity(0))),
        "processor": processor(),
        "file system of the working files": file_system(directory),
        "versions": ", ".join(
            [
                f"Python {platform.python_version()}",
                f"SQLite {sqlite3.sqlite_version}",
                f"zlib {zlib.ZLIB_RUNTIME_VERSION}",
                *versions,
            ]
        ),
    }


def processor() -> str:
    """Model and family as the system names them."""
    found: dict[str, str] = {}
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                name, _, value = line.partition(":")
                found.setdefault(name.strip(), value.strip())
    except OSError:
        return platform.machine()
    return f"{found.get('model name', platform.machine())}, family {found.get('cpu family', 'unknown')}"


def file_system(directory: str) -> str:
    """The type of the file system under a directory."""
    real = os.path.realpath(directory)
    best, kind = "", "unknown"
    try:
        with open("/proc/mounts") as file:
            mounts = [line.split()[1:3] for line in file]
    except OSError:
        return kind
    for place, found in mounts:
        inside = real == place or real.startswith(place.rstrip("/") + "/")
        if inside and len(place) >= len(best):
            best, kind = place, found
    return kind
