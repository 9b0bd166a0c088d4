"""Field tables: what stands in a record, said once.

A table gives the encoder and the decoder of its record, the fields that `dump --hex` shows, the maps of the format
pages and the values of the property tests. Scan kernels take sizes and offsets from it. A field has a name and a type:

    u8, u64, i32 ..   a number of so many bits
    uvarint           a number, 7 bits a byte, low group first, high bit set while more follows
    12B               so many bytes
    [n], [4*c]        as many bytes as letters behind earlier numbers say; [-n%4] are zeros up to a multiple of 4
    *                 the bytes up to the fields behind it

`u32 n` is a number that later fields call n. If one of them has the type [n], the number is its length: the encoder
counts it.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Literal, NamedTuple

from flintlog.core.lazy import lazy
from flintlog.errors import RefusedError

Bytes = bytes | bytearray | memoryview

UINT64_MAX = (1 << 64) - 1
_TYPE = re.compile(r"([ui]\d+|uvarint|\d+B|\[.+\]|\*)(?: ([a-z]))?")
_CODES = {"u8": "B", "u32": "I", "u64": "Q", "i32": "i", "i64": "q"}
_CUT = {"u32": "a number of four bytes", "u64": "a number of eight bytes"}
_BYTES_SHOWN = 64


class MalformedError(RefusedError):
    """Bytes or an operation that mean nothing here; the caller adds the file and the offset.

    `field` names the field of a table inside which the bytes end.
    """

    def __init__(self, code: str, message: str, field: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.field = field


class Span(NamedTuple):
    """One field by its place in a file; `end` is behind its last byte."""

    begin: int
    end: int
    name: str
    meaning: str


def shown(raw: Bytes, begin: int = 0, end: int | None = None) -> str:
    """The first bytes of a range as a person can read them."""
    end = len(raw) if end is None else end
    return repr(bytes(raw[begin : min(end, begin + _BYTES_SHOWN)]))[1:]


def uvarint(value: int) -> bytes:
    """A number in the shortest form."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_uvarint(buffer: Bytes, at: int) -> tuple[int, int]:
    """The value at `at`, and where it ends; longer forms than needed are accepted."""
    value = 0
    for count in range(10):
        if at + count >= len(buffer):
            raise MalformedError("cut", "the bytes end inside a number")
        byte = buffer[at + count]
        value |= (byte & 0x7F) << (7 * count)
        if byte < 0x80:
            if value > UINT64_MAX:
                break
            return value, at + count + 1
    raise MalformedError("number", "a number has more than 64 bits")


@dataclass(eq=False)
class Field:
    """A row of a table."""

    name: str
    type: str
    meaning: str | Callable[[Any], str] = ""  # of the number or the bytes as they stand in the file
    words: str = ""  # what a map shows in place of the type
    write: Callable[[Any], Any] | None = None  # what stands in the file for a value
    read: Callable[[Any], Any] | None = None  # the value of what stands there
    of: Table | None = None  # the bytes are records of this table
    value: Any = None  # a constant: the encoder does not take it, the decoder does not give it

    def __post_init__(self) -> None:
        assert _TYPE.fullmatch(self.type), self.type
        self.kind, _, self.letter = self.type.partition(" ")
        self.length = self.kind[1:-1] if self.kind[0] == "[" else ""  # the n of [n]
        self.count = compile(self.length or "None", self.name, "eval")
        self.is_bytes = self.kind[-1] in "B]*"
        self.is_zeros = self.length.startswith("-")
        self.size: int | None = None  # in bytes; None where it varies
        if self.kind[1:].isdigit():
            self.size = int(self.kind[1:]) // 8
        elif self.kind[-1] == "B":
            self.size = int(self.kind[:-1])
        self.code = _CODES.get(self.kind, f"{self.size}s")  # for `struct`

    def tell(self, value: Any) -> str:
        """What a number or bytes mean to a person."""
        if callable(self.meaning):
            return self.meaning(value)
        return (self.meaning or "{}").format(shown(value) if self.is_bytes else value)

    def cut(self, size: int, left: int) -> MalformedError:
        """The error for bytes that end inside this field."""
        message = f"{size} bytes are announced, {left} follow"
        if self.size is not None:
            message = f"the bytes end inside {_CUT.get(self.kind, self.name)}"
        return MalformedError("cut", message, self.name)


class Table:
    """The fields of a record, in their order. The decoder calls `make` with the values, or gives them as a tuple."""

    def __init__(
        self, order: Literal["big", "little"], *fields: Field, make: Callable[..., Any] | None = None
    ) -> None:
        self.order = order
        self.fields = fields
        self.make = make
        self._data = {field.length: number for number, field in enumerate(fields) if field.length}

    @lazy
    def asked(self) -> tuple[Field, ...]:
        """The fields whose values the encoder takes and the decoder gives: no lengths, no zeros, no constants."""
        return tuple(
            field
            for field in self.fields
            if field.letter not in self._data and not field.is_zeros and field.value is None
        )

    def __add__(self, other: Table) -> Table:
        return Table(self.order, *self.fields, *other.fields)

    @lazy
    def size(self) -> int:
        """The size of all fields that have one, in bytes."""
        return sum(field.size or 0 for field in self.fields)

    @lazy
    def head(self) -> struct.Struct:
        """The fields in front of the first one whose size varies."""
        fixed = [field.size is not None for field in self.fields]
        return self._struct(self.fields[: [*fixed, False].index(False)])

    def offset(self, name: str) -> int:
        """Where a field of the head begins, or the first one behind it."""
        names = [field.name for field in self.fields]
        return self._struct(self.fields[: names.index(name)]).size

    def _struct(self, fields: tuple[Field, ...]) -> struct.Struct:
        assert all(field.size is not None for field in fields)
        return struct.Struct(
            ("<" if self.order == "little" else ">") + "".join(field.code for field in fields)
        )

    # Field by field

    def walk(self, view: Bytes, at: int = 0) -> Iterator[tuple[Field, int, int, Any]]:
        """Each field from `at` on: where it begins and ends, and the number or the bytes in it."""
        known: dict[str, Any] = {"__builtins__": {}}
        for field in self.fields:
            begin, value, size = at, 0, field.size
            if field.kind == "uvarint":
                value, at = read_uvarint(view, at)
            elif field.kind == "*":
                behind = self.fields[self.fields.index(field) + 1 :]
                at = max(at, len(view) - sum(item.size or 0 for item in behind))
            else:
                size = eval(field.count, known) if size is None else size
                if not 0 <= size <= len(view) - at:
                    raise field.cut(size, len(view) - at)
                at += size
            if not field.is_bytes and size is not None:
                value = int.from_bytes(view[begin:at], self.order, signed=field.kind[0] == "i")
            known[field.letter] = value
            yield field, begin, at, view[begin:at] if field.is_bytes else value

    def spans(
        self, view: Bytes, at: int = 0, base: int = 0, told: Mapping[str, str] | None = None
    ) -> Iterator[Span]:
        """The fields from `at` on with their meanings; `told` replaces some. `base` is where `view` begins."""
        for field, begin, end, value in self.walk(view, at):
            inside = 0
            while field.of is not None and inside < len(value):
                for span in field.of.spans(value, inside):
                    yield span._replace(begin=base + begin + span.begin, end=base + begin + span.end)
                    inside = span.end
            if field.of is None and not (field.is_zeros and begin == end):
                meaning = told[field.name] if told and field.name in told else field.tell(value)
                yield Span(base + begin, base + end, field.name, meaning)

    # Values and bytes. The functions are written when they are first asked for, as a dataclass writes its own.

    @lazy
    def encode(self) -> Callable[..., bytes]:
        """The bytes of a record, by the values of its fields."""
        return self._encoder("join(({},))")

    @lazy
    def parts(self) -> Callable[..., tuple[Bytes, ...]]:
        """The same bytes in pieces, not copied."""
        return self._encoder("{},")

    def _encoder(self, result: str) -> Callable[..., Any]:
        known: dict[str, Any] = {"uvarint": uvarint, "join": b"".join}
        arguments, lines, parts = list[str](), list[str](), list[str]()
        for number, field in enumerate(self.fields):
            name = field.letter or f"v{number}"
            if field.letter in self._data:
                lines.append(f" {name} = len(v{self._data[field.letter]})")
            elif field in self.asked:
                arguments.append(name)
            known[name] = field.value
            if field.write is not None:
                known[f"write_{name}"] = field.write
                lines.insert(0, f" {name} = write_{name}({name})")
        for first, names, fixed, fields in self._runs():
            if fixed:
                known[f"pack{first}"] = self._struct(fields).pack
                parts.append(f"pack{first}({', '.join(names)})")
                continue
            for name, field in zip(names, fields, strict=True):
                part = f"bytes({field.length})" if field.is_zeros else name
                parts.append(f"uvarint({name})" if field.kind == "uvarint" else part)
        lines.append(f" return {result.format(', '.join(parts))}")
        return _written("encode", arguments, lines, known)

    def _runs(self) -> Iterator[tuple[int, list[str], bool, tuple[Field, ...]]]:
        """Runs of neighbouring fields with a fixed size, and single fields without one; each with its name."""
        for fixed, run in groupby(enumerate(self.fields), lambda item: item[1].size is not None):
            numbers, fields = zip(*run, strict=True)
            names = [field.letter or f"v{number}" for number, field in zip(numbers, fields, strict=True)]
            yield numbers[0], names, fixed, fields

    @lazy
    def decode(self) -> Callable[..., tuple[Any, int]]:
        """The record at an offset of a buffer, and where it ends."""
        known: dict[str, Any] = {"read_uvarint": read_uvarint, "ended": self._ended, "make": self.make}
        lines, values = [" begin, end = at, len(buffer)"], list[str]()
        for first, names, fixed, fields in self._runs():
            if fixed:
                head = self._struct(fields)
                known[f"unpack{first}"] = head.unpack_from
                lines.append(f" if at + {head.size} > end: ended(buffer, begin)")
                lines.append(f" {', '.join(names)}, = unpack{first}(buffer, at); at += {head.size}")
            for name, field in zip(names, fields, strict=True):
                if field.kind == "uvarint":
                    lines.append(f" {name}, at = read_uvarint(buffer, at)")
                elif field.size is None:
                    size = field.length or "end - at"
                    lines.append(f" if not 0 <= {size} <= end - at: ended(buffer, begin)")
                    raw = f"buffer[at : at + {size}]"
                    lines.append(f" {name} = {raw if field.read else f'bytes({raw})'}; at += {size}")
                if field.read is not None:
                    known[f"read_{name}"] = field.read
                    lines.append(f" {name} = read_{name}({name})")
                if field in self.asked:
                    values.append(name)
        made = f"make({', '.join(values)})" if self.make is not None else f"({', '.join(values)},)"
        return _written("decode", ["buffer", "at=0"], [*lines, f" return {made}, at"], known)

    def _ended(self, buffer: Bytes, begin: int) -> None:
        """Raise the error that says in which field the bytes end."""
        for _ in self.walk(buffer, begin):
            pass


def _written(name: str, arguments: list[str], lines: list[str], known: dict[str, Any]) -> Callable[..., Any]:
    exec("\n".join([f"def {name}({', '.join(arguments)}):", *lines]), known)
    made: Callable[..., Any] = known[name]
    return made
