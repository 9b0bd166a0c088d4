"""Zeros in a file: written ahead, or what a crash leaves of sectors that did not arrive."""

from __future__ import annotations

SECTOR_SIZE = 512
_CHUNK = 1 << 20


def zeros_from(buffer: memoryview, at: int) -> int:
    """The smallest offset >= `at` from which there is nothing but zeros."""
    end = len(buffer)
    while end > at:
        start = max(at, end - _CHUNK)
        kept = bytes(buffer[start:end]).rstrip(b"\x00")
        if kept:
            return start + len(kept)
        end = start
    return at


def has_zero_sector(buffer: memoryview, start: int, end: int) -> bool:
    """Is a whole sector between two offsets zero, or the rest of the sector in which the record at `start` begins?"""
    first = -(-start // SECTOR_SIZE) * SECTOR_SIZE
    zero = bytes(SECTOR_SIZE)
    return any(
        buffer[at : at + SECTOR_SIZE] == zero for at in range(first, end - SECTOR_SIZE + 1, SECTOR_SIZE)
    ) or (first - start >= 4 and first <= end and not any(buffer[start + 4 : first]))
