"""State files: typed properties in MessagePack maps, one after the other; each map holds what changed.

A record never crosses a sector: empty maps, which change nothing, fill the sector up, and a record larger than
a sector rolls the file. So a record that a crash leaves half written is a beginning of a map and then the end
of the file, or zeros; neither looks like a whole one.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import msgpack

from flintlog.columns.zeros import SECTOR_SIZE
from flintlog.core.finding import Finding
from flintlog.dialects.zmqraft import layout as lay
from flintlog.dialects.zmqraft.findings import CODES
from flintlog.disk import File
from flintlog.errors import DamageError

STATE_SIZE_MAX = 64 << 20
EMPTY_MAP = b"\x80"
_ZEROS_MAX = 2 * SECTOR_SIZE  # at most a record and what fills the sector before it


@dataclass(frozen=True, slots=True)
class Property:
    """A name, its default, and whether a value is valid."""

    name: str
    default: Any
    is_valid: Callable[[Any], bool]


def is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= lay.NUMBER_MAX


def _is_peers(value: Any) -> bool:
    if isinstance(value, dict):
        return set(value) == {"old", "new"} and all(isinstance(side, list) for side in value.values())
    return isinstance(value, list)


RAFT_PROPERTIES = (
    Property("currentTerm", 0, is_number),
    Property("votedFor", None, lambda value: value is None or isinstance(value, str)),
    Property("peers", [], _is_peers),
    Property(
        "peersUpdateRequest",
        None,
        lambda value: value is None or (isinstance(value, str) and len(value) == 16),
    ),
    Property("peersIndex", None, lambda value: value is None or is_number(value)),
)
APPLIED_PROPERTIES = (Property("lastApplied", 0, is_number),)
PROPERTIES_OF = {lay.RAFT_STATE_FILE: RAFT_PROPERTIES, lay.APPLIED_STATE_FILE: APPLIED_PROPERTIES}
_PEERS_OWN = {prop.name for properties in PROPERTIES_OF.values() for prop in properties}


@dataclass(frozen=True, slots=True)
class Loaded:
    """A state file that was read: the values, where its good part ends, and its findings."""

    values: dict[str, Any]
    end: int
    findings: tuple[Finding, ...]


def load(raw: bytes, properties: Iterable[Property], name: str) -> Loaded:
    """Read a state file; a torn tail is a finding, damage an error."""
    known = {prop.name: prop for prop in properties}
    values = {prop.name: prop.default for prop in known.values()}
    kept = len(raw.rstrip(b"\x00"))
    unpacker = msgpack.Unpacker(max_buffer_size=STATE_SIZE_MAX, strict_map_key=False)
    unpacker.feed(raw)
    at = 0
    findings: list[Finding] = []
    while at < len(raw):
        if at >= kept:
            findings.append(_torn(raw, at, known, name, "zeros behind the last record"))
            break
        try:
            record = unpacker.unpack()
        except msgpack.OutOfData:
            findings.append(_torn(raw, at, known, name, "the last record is not whole"))
            break
        except Exception:
            raise _damage(
                name, at, "state-format", "no MessagePack object begins here", "a map", f"byte {raw[at]:02x}"
            ) from None
        end = unpacker.tell()
        wrong = problem_of(record, known)
        if wrong is not None and end > kept:
            findings.append(_torn(raw, at, known, name, "the last record is filled with zeros"))
            break
        if wrong is not None:
            raise _damage(name, at, "state-record", wrong, "a map of known properties", _shown(record))
        if isinstance(record, dict):
            values.update({key: _whole(value) for key, value in record.items() if key in known})
        elif record is not None:
            findings.append(
                CODES.finding("state-array", "an array among the maps; it changes nothing", name, at)
            )
        at = end
    return Loaded(values, at, tuple(findings))


def load_file(file: File, properties: Iterable[Property]) -> Loaded:
    """The same of an open file; raises when it is too large for a state file."""
    name = posixpath.basename(file.path)
    size = file.size()
    if size > STATE_SIZE_MAX:
        expected, found = f"at most {STATE_SIZE_MAX} bytes", f"{size} bytes"
        raise _damage(name, 0, "state-size", "too large for a state file", expected, found)
    return load(file.pread(size, 0), properties, name)


def read_state(file: File, properties: Iterable[Property]) -> Loaded:
    """Read a state file in place; an error for damage names it."""
    try:
        return load_file(file, properties)
    except DamageError as error:
        raise CODES.of(error).error(posixpath.dirname(file.path)) from None


def problem_of(record: Any, known: Mapping[str, Property]) -> str | None:
    """Why this cannot be a record, or None."""
    if record is None or isinstance(record, list):
        return None
    if not isinstance(record, dict):
        return "an object that is not a map"
    for key, value in record.items():
        if key in known and not known[key].is_valid(_whole(value)):
            return f"{key} cannot be {value!r}"
        if key not in known and key in _PEERS_OWN:
            return f"{key} belongs to another file"
    return None


def _whole(value: Any) -> Any:
    """The original writes numbers from 2^31 on as floats; this makes them integers."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _shown(record: Any) -> str:
    text = repr(record)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _torn(raw: bytes, at: int, known: Mapping[str, Property], name: str, message: str) -> Finding:
    """A crash can only tear the last record; raises for more than that."""
    later = next((place for place in map(raw.find, _beginnings(known), repeat(at + 1)) if place > 0), None)
    if later is not None:
        text = "a record is not whole, and others stand behind it"
        raise _damage(name, at, "state-format", text, "a record", f"the next one at byte {later}")
    zeros = len(raw) - max(len(raw.rstrip(b"\0")), at)
    if zeros > _ZEROS_MAX:
        text = "more zeros than one record leaves"
        raise _damage(name, at, "state-format", text, f"at most {_ZEROS_MAX}", f"{zeros} zeros")
    return CODES.finding("torn-state", f"torn tail: {message}", name, at)


def _beginnings(known: Mapping[str, Property]) -> Iterator[bytes]:
    """How a record that sets a property can begin."""
    for count in range(1, len(known) + 1):
        for name in known:
            yield bytes((EMPTY_MAP[0] + count,)) + msgpack.packb(name)


def _damage(name: str, at: int, code: str, message: str, expected: str, found: str) -> DamageError:
    return DamageError(message, code=code, file=name, offset=at, expected=expected, found=found)
