"""`StateFile`: typed properties in MessagePack maps, one after the other; each map holds what changed.

A record never crosses a sector: empty maps, which change nothing, fill the sector up, and a record larger than
a sector rolls the file. So a record that a crash leaves half written is a beginning of a map and then the end
of the file, or zeros; both are told from a whole one, cut, and reported.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import msgpack

from flintlog.core.finding import Finding, Severity, damage_finding
from flintlog.core.kept import keep_cut
from flintlog.dialects.zmqraft import layout as lay
from flintlog.dialects.zmqraft.store.stamp import Stamps
from flintlog.disk import Disk, FailStop, File, write_all
from flintlog.errors import DamageError, UsageError

SECTOR_SIZE = 512
STATE_SIZE_MAX = 64 << 20
_EMPTY_MAP = b"\x80"
_ZEROS_MAX = 2 * SECTOR_SIZE  # a record and what fills the sector before it


@dataclass(frozen=True, slots=True)
class Property:
    """A name, what it is before anybody sets it, and whether a value can be one."""

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
    """A state file that was read: the values, where its good part ends, and what is odd about it."""

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
                Finding(Severity.NOTE, "state-array", "an array among the maps; it changes nothing", name, at)
            )
        at = end
    return Loaded(values, at, tuple(findings))


def load_file(file: File, properties: Iterable[Property]) -> Loaded:
    """The same of an open file, unless it is too large to be one."""
    name = posixpath.basename(file.path)
    size = file.size()
    if size > STATE_SIZE_MAX:
        expected, found = f"at most {STATE_SIZE_MAX} bytes", f"{size} bytes"
        raise _damage(name, 0, "state-size", "too large for a state file", expected, found)
    return load(file.pread(size, 0), properties, name)


def read_state(file: File, properties: Iterable[Property]) -> Loaded:
    """Read a state file where it stands; damage is an error that names it."""
    try:
        return load_file(file, properties)
    except DamageError as error:
        raise damage_finding(error).error(posixpath.dirname(file.path)) from None


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
    """Numbers from 2^31 on are floats in files of the original; integers stay integers here."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _shown(record: Any) -> str:
    text = repr(record)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _torn(raw: bytes, at: int, known: Mapping[str, Property], name: str, message: str) -> Finding:
    """A crash takes the last record only: where more is gone, it is damage."""
    later = next((place for place in map(raw.find, _beginnings(known), repeat(at + 1)) if place > 0), None)
    if later is not None:
        text = "a record is not whole, and others stand behind it"
        raise _damage(name, at, "state-format", text, "a record", f"the next one at byte {later}")
    zeros = len(raw) - max(len(raw.rstrip(b"\0")), at)
    if zeros > _ZEROS_MAX:
        text = "more zeros than one record leaves"
        raise _damage(name, at, "state-format", text, f"at most {_ZEROS_MAX}", f"{zeros} zeros")
    return Finding(Severity.REPAIRABLE, "torn-state", f"torn tail: {message}", name, at)


def _beginnings(known: Mapping[str, Property]) -> Iterator[bytes]:
    """How a record can begin that sets something."""
    for count in range(1, len(known) + 1):
        for name in known:
            yield bytes((_EMPTY_MAP[0] + count,)) + msgpack.packb(name)


def _damage(name: str, at: int, code: str, message: str, expected: str, found: str) -> DamageError:
    return DamageError(message, code=code, file=name, offset=at, expected=expected, found=found)


class StateFile:
    """Properties of one kind, durable when `update` returns.

    `numbers_as_original` writes numbers from 2^31 on as floats, and `fill_sectors=False` packs records without
    filling: both only for the bytes of the original.
    """

    def __init__(
        self,
        path: str,
        properties: tuple[Property, ...],
        *,
        defaults: Mapping[str, Any] | None = None,
        disk: Disk | None = None,
        stamps: Stamps | None = None,
        numbers_as_original: bool = False,
        fill_sectors: bool = True,
        failstop: FailStop | None = None,
    ) -> None:
        self._disk = disk or Disk()
        self._path = self._disk.resolve(path)
        self._directory, self._name = posixpath.split(self._path)
        self._stamps = stamps or Stamps()
        self._properties = {prop.name: prop for prop in properties}
        self._as_original = numbers_as_original
        self._fill = fill_sectors
        self._failstop = failstop or FailStop(self._path)
        self._file = self._disk.open(self._path, "create")
        try:
            loaded = self._load()
        except BaseException:
            self._file.close()
            raise
        self._values = {**loaded.values, **self._untouched(defaults or {}, loaded)}
        self.findings = loaded.findings
        self._size = loaded.end

    def _load(self) -> Loaded:
        loaded = read_state(self._file, self._properties.values())
        if loaded.end < self._file.size():
            keep_cut(self._disk, self._directory, self._file, loaded.end)
            self._file.truncate(loaded.end)
        # What was read, and the name it was read under, must not vanish under what is built on it.
        self._file.sync()
        self._disk.sync_ancestors(self._path)
        return loaded

    def _untouched(self, defaults: Mapping[str, Any], loaded: Loaded) -> dict[str, Any]:
        return {
            name: value
            for name, value in defaults.items()
            if loaded.values[name] == self._properties[name].default and self._check(name, value)
        }

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def values(self) -> dict[str, Any]:
        """All properties as they are now."""
        return dict(self._values)

    def update(self, **changes: Any) -> None:
        """Set some properties; durable on return."""
        self._failstop.check()
        self.check(changes)
        record = self._encode({name: changes[name] for name in self._properties if name in changes})
        if self._size >= lay.ROLL_BYTES or (self._fill and len(record) > SECTOR_SIZE):
            self._values.update(changes)
            self.roll()
            return
        with self._failstop.guard():
            left = SECTOR_SIZE - self._size % SECTOR_SIZE
            filling = _EMPTY_MAP * left if self._fill and len(record) > left else b""
            self._file.pwrite(filling + record, self._size)
            self._file.sync()
        self._size += len(filling) + len(record)
        self._values.update(changes)

    def roll(self) -> None:
        """Begin a new file with all properties; the old one is kept under a stamped name."""
        with self._failstop.guard():
            file = self._disk.create_scratch(self._stamps.scratch(self._path))
            content = self._encode(self._values)
            write_all(file, [content])
            self._disk.link(self._path, self._stamps.predecessor(self._disk, self._path))
            self._disk.install(file, self._path)
            self._file.close()
            self._file = file
            self._size = len(content)
            trim_history(self._disk, self._path)

    def check(self, changes: Mapping[str, Any]) -> None:
        """Refuse names that are no properties, and values that cannot be."""
        for name, value in changes.items():
            self._check(name, value)

    def _check(self, name: str, value: Any) -> bool:
        prop = self._properties.get(name)
        if prop is None:
            raise UsageError(
                f"{name!r} is not a property of {self._name}", advice=f"Known: {', '.join(self._properties)}"
            )
        if not prop.is_valid(value):
            raise UsageError(f"{name} cannot be {value!r}")
        return True

    def _encode(self, values: Mapping[str, Any]) -> bytes:
        packed: bytes = msgpack.packb(_as_floats(values) if self._as_original else values)
        return packed

    def close(self) -> None:
        self._failstop.close()
        self._failstop.end()
        self._file.close()


def _as_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _as_floats(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_as_floats(inner) for inner in value]
    return float(value) if isinstance(value, int) and not -(2**31) <= value < 2**31 else value


def trim_history(disk: Disk, path: str, keep: int = lay.HISTORY_MAX) -> None:
    """Remove the oldest predecessors of `path`, so that `keep` remain."""
    directory, name = posixpath.split(path)
    stamped = [
        (entry[: match.start(1)], int(match[1], 36), entry)
        for entry in disk.list(directory)
        if (match := lay.is_predecessor(entry, name))
    ]
    for _, _, entry in sorted(stamped)[:-keep]:
        disk.unlink(posixpath.join(directory, entry))
