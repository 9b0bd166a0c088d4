"""Sessions that tasks write to files of their own, and how such files become logs of the directory.

A staged file is a log of one session. It is whole and durable before it gets the name of a rotated log, and its epoch
is recorded as durable when all files of the load have their names. A crash between these steps leaves sessions that
are not durable, which the next opening marks as it does with all others.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Sequence

from flintlog.dialects.limestone import batch, files
from flintlog.dialects.limestone import layout as lay
from flintlog.disk import Buffer, Disk, File

_CHUNK = 8 << 20
_CHANNELS_MAX = 1 << 62  # names have room for more, and no writer makes so many


def write(disk: Disk, place: str, root: str, epoch: int, parts: Iterable[Buffer], *, end: bool) -> int:
    """Write a session to a new file, durable on return; returns its size. `end` asks for an end marker."""
    with disk.create_scratch(place) as file:
        file.be_like(disk.stat(posixpath.join(root, lay.MANIFEST_FILE)))
        at = _write(file, lay.encode_begin(epoch), 0)
        for part in parts:
            at = _write(file, part, at)
        if end:
            at = _write(file, lay.encode_end(epoch), at)
        file.sync()
    return at


def _write(file: File, data: Buffer, at: int) -> int:
    file.pwrite(data, at)
    return at + len(data)


def changes_of(disk: Disk, place: str, epoch: int) -> memoryview:
    """The puts and removals of a small staged file, as those of an epoch."""
    with disk.open(place) as file:
        data = bytearray(file.pread(file.size() - lay.MARKER_SIZE, lay.MARKER_SIZE))
    return memoryview(data)[: batch.stamp(data, epoch)]  # without the end marker


def take_in(disk: Disk, root: str, places: Sequence[str], epoch: int, milliseconds: int) -> None:
    """Give staged files the names of rotated logs, as sessions of this epoch; durable on return."""
    logs = files.list_files(disk, root).logs
    taken = [log.channel for log in logs if log.channel is not None and log.channel < _CHANNELS_MAX]
    first = max(taken, default=-1) + 1  # none of theirs: in a channel the order of the files means something
    for number, place in enumerate(places, first):
        _restamp(disk, place, epoch)
        disk.rename(place, posixpath.join(root, lay.rotated_name(number, milliseconds)))
    disk.sync_directory(root)


def _restamp(disk: Disk, place: str, epoch: int) -> None:
    """Let a session be of this epoch, with versions that win over all before it: the log may have moved on."""
    with disk.open(place, "write") as file:
        if lay.decode_marker(file.pread(lay.MARKER_SIZE, 0), 0) == epoch:
            return
        size, room = file.size(), _CHUNK
        at = lay.MARKER_SIZE
        while at < size:
            data = bytearray(file.pread(min(room, size - at), at))
            done = batch.stamp(data, epoch)
            if not done and len(data) == room:
                room *= 2  # one entry is larger
                continue
            if not done:
                break  # the end marker
            file.pwrite(memoryview(data)[:done], at)
            at += done
        file.pwrite(lay.encode_begin(epoch), 0)
        if at < size:
            file.pwrite(lay.encode_end(epoch), at)
        file.sync()
