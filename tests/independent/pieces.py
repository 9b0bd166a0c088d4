"""What the independent decoders share: bytes read piece by piece, and the checksum of two of the formats."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any


class DamagedError(Exception):
    """The bytes break the rules of their format."""


def require(fact: bool, words: str) -> None:
    if not fact:
        raise DamagedError(words)


class Pieces:
    """Bytes from front to back. Asking for more than there is is damage."""

    def __init__(self, data: bytes, what: str, at: int = 0) -> None:
        self.data = data
        self.what = what
        self.at = at

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, count: int) -> bytes:
        require(
            0 <= count <= self.left, f"{self.what}: byte {self.at}: {count} bytes wanted, {self.left} left"
        )
        self.at += count
        return self.data[self.at - count : self.at]

    def numbers(self, form: str) -> tuple[Any, ...]:
        return struct.unpack(form, self.take(struct.calcsize(form)))

    def number(self, form: str) -> int:
        [found] = self.numbers(form)
        return int(found)

    def uvarint(self) -> int:
        """7 bits a byte, the low ones first; at most 64 bits."""
        value = shift = 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                require(value < 1 << 64, f"{self.what}: byte {self.at}: a number of more than 64 bits")
                return value
            require(shift < 70, f"{self.what}: byte {self.at}: a number of more than 10 bytes")


def _table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte << 24
        for _ in range(8):
            value = (value << 1) ^ (0x04C11DB7 if value & 0x80000000 else 0)
        table.append(value & 0xFFFFFFFF)
    return table


_TABLE = _table()


def crc32_mpeg2(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value = (value << 8 & 0xFFFFFFFF) ^ _TABLE[value >> 24 ^ byte]
    return value


def files_of(directory: Path | str) -> dict[str, bytes]:
    """Every file below a directory: relative path and content."""
    root = Path(directory)
    return {
        path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }
