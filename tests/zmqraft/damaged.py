"""Directories with one thing wrong in each: those of the golden set, and more made in the same way."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

from tests.golden_cases import materialise
from tests.zmqraft.recorded import DAMAGED

from flintlog.dialects.zmqraft.layout import index_path

FEW, MANY, PRUNED = "01_few", "03_multi_files", "11_snapshot_pruned"
STREAM, STATE = "12_snapshot_stream", "14_persistence_many"
ONE = index_path(1)


def cut(name: str, size: int) -> Callable[[Path], None]:
    """Keep the first bytes of a file; a negative size takes so many from the end."""

    def damage(peer: Path) -> None:
        content = (peer / name).read_bytes()
        (peer / name).write_bytes(content[:size])

    return damage


def add(name: str, data: bytes) -> Callable[[Path], None]:
    def damage(peer: Path) -> None:
        (peer / name).write_bytes((peer / name).read_bytes() + data)

    return damage


def poke(name: str, offset: int, data: bytes) -> Callable[[Path], None]:
    def damage(peer: Path) -> None:
        content = bytearray((peer / name).read_bytes())
        content[offset : offset + len(data)] = data
        (peer / name).write_bytes(content)

    return damage


def slot(first: int, at: int, value: int) -> Callable[[Path], None]:
    return poke(index_path(first), 24 + 4 * at, struct.pack("<I", value))


def remove(name: str) -> Callable[[Path], None]:
    return lambda peer: (peer / name).unlink()


def empty(first: int, slots: int) -> Callable[[Path], None]:
    return poke(index_path(first), 24, bytes(4 * slots))


def unknown_segment(peer: Path) -> None:
    content = (peer / ONE).read_bytes()
    at = content.index(b"ITMZ")
    segment = b"XTRA" + struct.pack("<I", 5) + b"12345" + bytes(3)
    (peer / ONE).write_bytes(content[:at] + segment + content[at:])


def stuck_at_the_size_limit(peer: Path) -> None:
    """What the original leaves when the bytes run out: an empty file behind slots that are still free."""
    content = (peer / ONE).read_bytes()
    head = struct.pack("<4sIIIQ", b"RLOG", 16 + 4 * 16, 1, 16, 16)
    rest = content[24 + 4 * 15 : content.index(b"ITMZ") + 8]
    (peer / index_path(16)).write_bytes(head + bytes(4 * 16) + rest)


def foreign_snapshot(peer: Path) -> None:
    """A snapshot of another peer is in place, and the log of the old life not yet put aside."""
    content = bytearray((peer / "snap").read_bytes())
    content[12:28] = struct.pack("<QQ", 1000, 9)
    (peer / "snap").write_bytes(content)


MADE: dict[str, tuple[str, Callable[[Path], None]]] = {
    "d04_meta_cut": (FEW, cut(ONE, 0x64)),
    "d06_offsets_non_monotonic": (FEW, slot(1, 2, 0x10)),
    "d10_last_entry_header_missing": (FEW, cut(ONE, -34)),
    "d14_middle_file_not_full": (MANY, slot(0x10, 7, 0)),
    "d17_index_mismatch": (FEW, poke(ONE, 16, b"\x02")),
    "d20_empty_last_file": (MANY, empty(0x30, 8)),
    "d23_snap_long": (PRUNED, add("snap", b"abc")),
    "d27_snap_missing_pruned": (PRUNED, remove("snap")),
    "d32_pers_torn_last": (STATE, cut("raft.pers", -3)),
    "d36_pers_zero_tail": (STATE, add("raft.pers", bytes(16))),
    "d43_extra_segment": (FEW, unknown_segment),
    "d46_stuck_at_the_size_limit": (FEW, stuck_at_the_size_limit),
    "d47_crash_between_snap_and_log_rename": (STREAM, foreign_snapshot),
    "d49_last_offset_torn_zero": (FEW, add(ONE, b"data of an entry that no slot commits")),
}


def lay_out(case: str, tmp_path: Path) -> Path:
    """A writable copy of a damaged directory."""
    if case in DAMAGED:
        return materialise(case, tmp_path, dialect="zmqraft")
    source, damage = MADE[case]
    peer = materialise(source, tmp_path, dialect="zmqraft")
    damage(peer)
    return peer
