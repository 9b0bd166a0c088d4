"""Facts of the machine: file system, free space, and what else is installed. Only reads."""

from __future__ import annotations

import mmap
import os
import re
import shutil
import subprocess

PAGE_BYTES = mmap.PAGESIZE
_MOUNTS = "/proc/self/mountinfo"
_JAVA_SECONDS_MAX = 20


def mount_of(path: str) -> tuple[str | None, str | None, str | None]:
    """The file system of a path, its mount options, and where it is mounted; None if the system does not tell."""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="replace") as file:
            lines = file.read().splitlines()
    except OSError:
        return None, None, None
    path = os.path.realpath(path)
    best: tuple[str | None, str | None, str | None] = (None, None, None)
    for line in lines:
        before, _, behind = line.partition(" - ")
        fields, kinds = before.split(), behind.split()
        if len(fields) < 6 or len(kinds) < 3:
            continue
        mount = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), fields[4])
        if os.path.commonpath([path, mount]) == mount and len(mount) >= len(best[2] or ""):
            best = (kinds[0], ",".join(dict.fromkeys([*fields[5].split(","), *kinds[2].split(",")])), mount)
    return best


def room(path: str) -> dict[str, int]:
    """Size and free space, files and free files, of the file system of a path."""
    found = os.statvfs(path)
    return {
        "size_bytes": found.f_frsize * found.f_blocks,
        "free_bytes": found.f_frsize * found.f_bavail,
        "files": found.f_files,
        "free_files": found.f_favail,
    }


def compiled_cache(module: str) -> str | None:
    """Where compiled code is kept between processes, if anywhere."""
    chosen = os.environ.get("NUMBA_CACHE_DIR")
    places = [chosen] if chosen else [os.path.join(os.path.dirname(module), "__pycache__"), _user_cache()]
    for place in places:
        there = place
        while not os.path.exists(there) and os.path.dirname(there) != there:
            there = os.path.dirname(there)
        if os.access(there, os.W_OK):
            return place
    return None


def _user_cache() -> str:
    return os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "numba")


def java_command() -> str | None:
    """The Java that Spark would start, if any."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which(os.path.join(home, "bin", "java") if home else "java")


def java_version() -> str | None:
    """Its version."""
    command = java_command()
    if command is None:
        return None
    try:
        said = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=_JAVA_SECONDS_MAX, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "([^"]+)"', said.stderr + said.stdout)
    return found[1] if found else None
