"""Directories with one thing wrong in each: those of the golden set, and more made in the same way."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Callable
from pathlib import Path

from tests.golden_cases import materialise

from flintlog import RaftStore
from flintlog.dialects.zmqraft.layout import Entry, index_path

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


def with_snapshot(peer: Path) -> None:
    """Files of four entries; the snapshot covers the first two and a part of the third."""
    with RaftStore(peer, capacity=4) as store:
        store.append([Entry(1, b"entry %d" % number) for number in range(14)])
        store.snapshot(9, b"state", prune=False)


def left_over(peer: Path) -> None:
    with_snapshot(peer)
    (peer / index_path(4)).unlink()


def closed_in_part(peer: Path) -> None:
    """The bytes ran out; the size has shrunk, the capacity has not, the next file is not yet there."""
    with RaftStore(peer, capacity=8, data_size_max=200) as store:
        store.append([Entry(1, bytes(20))] * 5)
    (peer / index_path(5)).unlink()
    poke(ONE, 12, struct.pack("<I", 7))(peer)


def overlapping(peer: Path) -> None:
    """The second file says that it begins three indexes earlier."""
    path = peer / index_path(5)
    (peer / index_path(8)).rename(path)
    poke(index_path(5), 16, b"\x05")(peer)


def terms(*terms: int, capacity: int = 16, **state: int) -> Callable[[Path], None]:
    def make(peer: Path) -> None:
        with RaftStore(peer, capacity=capacity) as store:
            store.append([Entry(term, b"data") for term in terms])
            store.set_hard_state(**state)

    return make


def applied_beyond(peer: Path) -> None:
    """The last entry was applied, and is gone with its file."""
    with RaftStore(peer, capacity=4) as store:
        store.append([Entry(1, b"entry %d" % number) for number in range(14)])
        store.set_hard_state(term=1, applied=14)
    (peer / index_path(12)).unlink()


def rolled_back_in_part(peer: Path) -> None:
    """The first slot of the rollback reached the disk."""
    with RaftStore(peer, capacity=16) as store:
        store.append([Entry(1, b"entry %d" % number) for number in range(9)])
        store.set_hard_state(term=1)
    slot(1, 5, 0)(peer)


def made_in_part(peer: Path) -> None:
    """The newest file was being made."""
    terms(*[1] * 14, term=1, capacity=4)(peer)
    cut(index_path(12), 20)(peer)


def moved(first: int, *names: str) -> Callable[[Path], None]:
    """Files of four entries; the one that begins at `first` stands elsewhere in the log."""

    def make(peer: Path) -> None:
        terms(*[1] * 14, term=1, applied=14, capacity=4)(peer)
        source = (peer / index_path(first)).read_bytes()
        (peer / index_path(first)).unlink()
        for name in names:
            (peer / "log" / name).parent.mkdir(parents=True, exist_ok=True)
            (peer / "log" / name).write_bytes(source)

    return make


SHORT = (b"short", Entry(2, b"whole").encode(), b"x", bytes(19))


def short_entries(peer: Path) -> None:
    """Behind one entry, others of which some have less than the 20 bytes of a head."""
    terms(1, term=2, capacity=8)(peer)
    size = len(Entry(1, b"data").encode())
    for at, data in enumerate(SHORT, 1):
        size += len(data)
        add(ONE, data)(peer)
        slot(1, at, size)(peer)


def state_missing(peer: Path) -> None:
    terms(1, term=1)(peer)
    (peer / "raft.pers").unlink()


def too_large(peer: Path) -> None:
    terms(1, term=1)(peer)
    with (peer / "state.pers").open("r+b") as file:
        file.truncate((64 << 20) + 1)


def golden(case: str, *damages: Callable[[Path], None]) -> Callable[[Path], None]:
    """A directory of the original, or one made from it, with more done to it."""

    def make(peer: Path) -> None:
        shutil.copytree(lay_out(case, peer.parent / "laid"), peer)
        for damage in damages:
            damage(peer)

    return make


BY_CODE: tuple[tuple[str, Callable[[Path], None]], ...] = (
    ("torn-state", golden("d32_pers_torn_last")),
    ("torn-state", golden("d36_pers_zero_tail")),
    ("torn-file", made_in_part),
    ("index-dirty", rolled_back_in_part),
    ("unfinished-close", closed_in_part),
    ("empty-file", golden("d21_empty_last_prev_not_full")),
    ("empty-file", golden("d46_stuck_at_the_size_limit")),
    ("leftover", left_over),
    ("log-superseded", golden("d47_crash_between_snap_and_log_rename")),
    ("log-missing", golden("d31_log_missing")),
    ("snapshot-missing", golden("d28_snap_missing_full_log")),
    ("index-short", golden(MANY, cut(index_path(0x10), 10))),
    ("index-short", golden(MANY, cut(index_path(0x30), 40))),
    ("index-token", golden("d15_wrong_magic")),
    ("index-misplaced", moved(12, "00000/00/01/0000000000000c.rlog")),
    ("index-misplaced", moved(12, "00000/00/00/0000000000000C.rlog")),
    ("index-version", golden("d16_wrong_version")),
    ("index-capacity", golden("d18_capacity_mismatch")),
    ("index-first", golden(MANY, poke(index_path(0x10), 16, b"\x09"))),
    ("index-marker", golden(MANY, cut(ONE, 60))),
    ("index-offsets", golden("d06_offsets_non_monotonic")),
    ("index-offsets", golden("d07_offsets_equal")),
    ("entry-missing", golden("d08_offset_huge_last")),
    ("entry-missing", golden("d10_last_entry_header_missing")),
    ("entry-short", short_entries),
    ("entry-term", golden("d19_entry_term_too_big")),
    ("log-start", golden("d13_first_file_missing")),
    ("log-gap", golden("d12_middle_file_missing")),
    ("log-gap", golden("d14_middle_file_not_full")),
    ("log-overlap", golden(MANY, overlapping)),
    ("snapshot-short", golden("d24_snap_header_cut")),
    ("snapshot-marker", golden("d26_snap_magic")),
    ("snapshot-version", golden(FEW, poke("snap", 8, b"\x02"))),
    ("snapshot-version", golden(PRUNED, poke("snap", 8, b"\x02"))),
    ("snapshot-number", golden(PRUNED, poke("snap", 12, b"\xff" * 8))),
    ("snapshot-short", golden(PRUNED, cut("snap", 98))),
    ("snapshot-size", golden("d22_snap_short")),
    ("snapshot-size", golden("d23_snap_long")),
    ("state-format", golden("d34_pers_garbage_tail_c1")),
    ("state-record", golden("d35_pers_scalar_tail")),
    ("state-record", golden("d38_pers_bad_type")),
    ("state-size", too_large),
    ("state-missing", state_missing),
    ("state-array", golden("d39_pers_array_tail")),
    ("term-falls", terms(3, 2, term=3)),
    ("term-behind", terms(3)),
    ("applied-beyond", applied_beyond),
    ("leftover", golden("d40_tmp_leftovers")),
    ("foreign", golden("d41_foreign_names")),
)


def lay_out(case: str, tmp_path: Path) -> Path:
    """A writable copy of a golden directory, or of one that is made damaged here."""
    if case not in MADE:
        return materialise(case, tmp_path, dialect="zmqraft")
    source, damage = MADE[case]
    peer = materialise(source, tmp_path, dialect="zmqraft")
    damage(peer)
    return peer
