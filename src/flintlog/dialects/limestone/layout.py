"""The bytes of limestone: records, the manifest, the catalog.

All integers are unsigned and little-endian. A log directory holds

    limestone-manifest.json         which version of the format; also the file that a writer locks
    pwal_NNNN                       the log of channel N, open for appending
    pwal_NNNN.<ms14>.<n>            the same, rotated: 14 digits of milliseconds, a number that makes it unique
    epoch                           which epochs are durable; rotated: epoch.<ms14>.<epoch>
    compaction_catalog              which compacted files count, what they cover; .back is the one before it
    cmpct_NNNN                      compacted files of the designed edition; .tmp while they are written
    pwal_0000.compacted             the compacted file of the shipped edition; .prev is the one before it
    data/snapshot                   the state at the last start, when it was asked for or a compaction ran
    data/durable                    a copy of the last record of epoch, never synced: it shows when epoch lost some
    blob/dir_DD/<16 hex>.blob       large values, by number; DD is the number modulo 100
    .epoch.tmp, compaction_temp/    scratch of the original program, with sorting/ and ctrl/

A log file is a sequence of records without a header. Nothing has a checksum, and a record's first byte is its
type. A session is written as a *snippet*: a begin marker with the session's epoch, entries, and from version 6 on
an end marker. Without one a snippet reaches to the next begin marker or to the end of the file.

TABLES has the records by their types. Types 7 to 9 are entries for a whole storage; 6 is a begin marker whose first
byte was overwritten; 4 stands in epoch files only.

No record has type 0, so that zeros are seen. (major, minor) is the write version: of two entries for a key the higher
one counts. The durable epoch is the largest one in the epoch files; snippets above it do not count.

The designed edition has version 2 and the types 1, 2, 5, 6; the shipped edition all of them, and version 7.
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass, field
from typing import Any, Literal

from flintlog.core.fields import Field, Table
from flintlog.errors import DamageError, UsageError

PUT, BEGIN, END, DURABLE, REMOVE, INVALIDATED = 1, 2, 3, 4, 5, 6
CLEAR_STORAGE, ADD_STORAGE, REMOVE_STORAGE, PUT_BLOBS = 7, 8, 9, 10
TYPE_MAX = PUT_BLOBS

OPERATIONS = {
    PUT: "put",
    REMOVE: "remove",
    CLEAR_STORAGE: "clear_storage",
    ADD_STORAGE: "add_storage",
    REMOVE_STORAGE: "remove_storage",
    PUT_BLOBS: "put",
}

NO_CHECKSUM = 1
NUMBER_MAX = 2**64 - 1
LENGTH_MAX = 2**32 - 1

Edition = Literal["designed", "shipped"]
VERSION_OF: dict[Edition, int] = {"designed": 2, "shipped": 7}
VERSION_MIN, VERSION_MAX = 1, 7
VERSION_OF_END_MARKERS = 6

MANIFEST_FILE = "limestone-manifest.json"
CATALOG_FILE = "compaction_catalog"
BACK = ".back"
MANIFEST_BACK = MANIFEST_FILE + BACK
CATALOG_BACK = CATALOG_FILE + BACK
EPOCH_FILE = "epoch"
EPOCH_SCRATCH = ".epoch.tmp"
COMPACTED_FILE = "pwal_0000.compacted"
COMPACTED_PREVIOUS = "pwal_0000.compacted.prev"
COMPACTED_SCRATCH = ".tmp"
SNAPSHOT_FILE = "data/snapshot"
WITNESS_FILE = "data/durable"
BLOB_DIRECTORY = "blob"
SCRATCH_DIRECTORIES = ("compaction_temp", "sorting", "ctrl")
DIRECTORIES = ("data", BLOB_DIRECTORY, *SCRATCH_DIRECTORIES)

WAL_PREFIX = "pwal_"
ACTIVE_NAME = re.compile(r"pwal_([0-9]{4,20})")
ROTATED_NAME = re.compile(r"pwal_([0-9]{4,20})\.([0-9]{14})\.([0-9]{1,20})")
ROTATED_TIME_MAX = 10**14 - 1  # milliseconds
ROTATED_EPOCH_NAME = re.compile(r"epoch\.([0-9]{14})\.([0-9]{1,20})")
CMPCT_NAME = re.compile(r"cmpct_([0-9]{4,20})")
BLOB_NAME = re.compile(r"([0-9a-f]{16})\.blob")
BLOB_FOLDER = re.compile(r"dir_([0-9]{2})")

Version = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a snippet; of storage operations only storage and version count."""

    type: int
    storage: int
    key: bytes = b""
    value: bytes = b""
    version: Version = (0, 0)
    blobs: tuple[int, ...] = ()

    def encode(self) -> bytes:
        """The entry's bytes."""
        if self.type not in OPERATIONS:
            raise UsageError(f"type {self.type} is not an entry")
        if self.type == PUT and self.blobs:
            raise UsageError("an entry with blobs has type 10")
        storage = check_number("storage id", self.storage)
        major, minor = (check_number("write version", part) for part in self.version)
        encode = TABLES[self.type].encode
        if self.type in (CLEAR_STORAGE, ADD_STORAGE, REMOVE_STORAGE):
            return encode(self.type, storage, major, minor)
        _check_length("key", self.key)
        if self.type == REMOVE:
            return encode(REMOVE, storage, self.key, major, minor)
        _check_length("value", self.value)
        if self.type == PUT:
            return encode(PUT, storage, self.key, major, minor, self.value)
        blobs = [check_number("blob number", blob) for blob in self.blobs]
        numbers = struct.pack(f"<{len(blobs)}Q", *blobs)
        return encode(PUT_BLOBS, storage, self.key, major, minor, self.value, len(blobs), numbers)


def put(storage: int, key: bytes, value: bytes, version: Version, blobs: tuple[int, ...] = ()) -> Entry:
    """An entry that gives a key a value."""
    return Entry(PUT_BLOBS if blobs else PUT, storage, key, value, version, blobs)


def remove(storage: int, key: bytes, version: Version) -> Entry:
    """An entry that takes a key away."""
    return Entry(REMOVE, storage, key, b"", version)


def check_number(word: str, value: int) -> int:
    """A number that fits in eight bytes."""
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= NUMBER_MAX:
        raise UsageError(f"{word} {value!r} is not a whole number from 0 to 2^64 - 1")
    return value


def _check_length(word: str, data: bytes) -> None:
    if len(data) > LENGTH_MAX:
        raise UsageError(f"a {word} has at most 2^32 - 1 bytes, not {len(data)}")


# --- records -----------------------------------------------------------------------------------------------------


def _put(
    kind: int,
    storage: int,
    key: bytes,
    major: int,
    minor: int,
    value: bytes,
    count: int = 0,
    blobs: bytes = b"",
) -> Entry:
    return Entry(kind, storage, key, value, (major, minor), struct.unpack(f"<{count}Q", blobs))


def _remove(kind: int, storage: int, key: bytes, major: int, minor: int) -> Entry:
    return Entry(kind, storage, key, b"", (major, minor))


def _of_storage(kind: int, storage: int, major: int, minor: int) -> Entry:
    return Entry(kind, storage, version=(major, minor))


def blob_path(number: int) -> str:
    """Where a blob stands in the log directory."""
    return f"{BLOB_DIRECTORY}/dir_{number % 100:02d}/{number:016x}.blob"


_MEANINGS = OPERATIONS | {
    BEGIN: "a snippet begins",
    END: "the snippet ends",
    DURABLE: "an epoch is durable",
    INVALIDATED: "a snippet begins that does not count",
}
_TYPE = Field("type", "u8", lambda kind: f"{kind}: {_MEANINGS[kind]}")
_EPOCH = Field("epoch", "u64")
_KEY_LENGTH = Field("key length", "u32 k", "{} bytes")
_STORAGE = Field("storage", "u64")
_KEY = Field("key", "[k]")
_VERSION = (Field("major", "u64", "version {}"), Field("minor", "u64"))
_PUT_FIELDS = (
    _TYPE,
    _KEY_LENGTH,
    Field("value length", "u32 v", "{} bytes"),
    _STORAGE,
    _KEY,
    *_VERSION,
    Field("value", "[v]"),
)
_BLOBS = Field("blobs", "[8*b]", words="b times u64", of=Table("little", Field("blob", "u64", blob_path)))

_MARKER = Table("little", _TYPE, _EPOCH)
_OF_STORAGE = Table("little", _TYPE, _STORAGE, *_VERSION, make=_of_storage)
TABLES = {
    PUT: Table("little", *_PUT_FIELDS, make=_put),
    BEGIN: _MARKER,
    END: Table("little", _TYPE, _EPOCH, Field("checksum type", "u8", "{}: none", "u8: 1, none")),
    DURABLE: _MARKER,
    REMOVE: Table("little", _TYPE, _KEY_LENGTH, _STORAGE, _KEY, *_VERSION, make=_remove),
    INVALIDATED: _MARKER,
    CLEAR_STORAGE: _OF_STORAGE,
    ADD_STORAGE: _OF_STORAGE,
    REMOVE_STORAGE: _OF_STORAGE,
    PUT_BLOBS: Table("little", *_PUT_FIELDS, Field("blob count", "u32 b"), _BLOBS, make=_put),
}

PUT_HEADER = TABLES[PUT].head
REMOVE_HEADER = TABLES[REMOVE].head
VERSION_SIZE = Table("little", *_VERSION).size
MARKER_SIZE = _MARKER.size
END_SIZE = TABLES[END].size
PUT_SIZE = TABLES[PUT].size  # without key and value
REMOVE_SIZE = TABLES[REMOVE].size
STORAGE_SIZE = _OF_STORAGE.size
BLOB_COUNT = struct.Struct("<I")
BLOB_SIZE = 8
# Where fields stand: the epoch of a marker, the lengths of an entry.
EPOCH_AT = _MARKER.offset("epoch")
KEY_LENGTH_AT, VALUE_LENGTH_AT = (TABLES[PUT].offset(f"{part} length") for part in ("key", "value"))


def encode_begin(epoch: int) -> bytes:
    return _MARKER.encode(BEGIN, check_number("epoch", epoch))


def encode_end(epoch: int) -> bytes:
    return TABLES[END].encode(END, check_number("epoch", epoch), NO_CHECKSUM)


def encode_durable(epoch: int) -> bytes:
    return _MARKER.encode(DURABLE, check_number("epoch", epoch))


def decode_marker(raw: bytes | memoryview, at: int) -> int:
    """The epoch of a marker."""
    return int.from_bytes(raw[at + 1 : at + MARKER_SIZE], "little")


def record_size(raw: bytes | memoryview, at: int) -> int | None:
    """How many bytes the record that begins at `at` claims; None for an unknown type.

    The answer may reach behind the end of the buffer. Where the lengths themselves are cut it is the size of the
    fixed part, which does so too.
    """
    kind = raw[at] if at < len(raw) else 0
    left = len(raw) - at
    if kind not in TABLES:
        return None
    if kind == REMOVE:
        return REMOVE_SIZE + (_u32(raw, at + 1) if left >= 5 else 0)
    if kind not in (PUT, PUT_BLOBS):
        return TABLES[kind].size
    size = PUT_SIZE + (_u32(raw, at + KEY_LENGTH_AT) + _u32(raw, at + VALUE_LENGTH_AT) if left >= 9 else 0)
    if kind == PUT:
        return size
    if left < size + BLOB_COUNT.size:
        return size + BLOB_COUNT.size
    return size + BLOB_COUNT.size + BLOB_SIZE * _u32(raw, at + size)


def _u32(raw: bytes | memoryview, at: int) -> int:
    return int.from_bytes(raw[at : at + 4], "little")


def decode(raw: bytes | memoryview, at: int = 0) -> tuple[Entry, int]:
    """The entry that begins at `at`, and where it ends."""
    size = record_size(raw, at)
    kind = raw[at] if at < len(raw) else 0
    if size is None or kind not in OPERATIONS:
        raise DamageError(
            "no entry begins here", code="entry-type", offset=at, expected="1, 5, 7 to 10", found=str(kind)
        )
    if at + size > len(raw):
        raise DamageError(
            "the entry is cut",
            code="entry-cut",
            offset=at,
            expected=f"{size} bytes",
            found=f"{len(raw) - at} bytes",
        )
    entry: Entry
    entry, end = TABLES[kind].decode(raw, at)
    return entry, end


# --- names -------------------------------------------------------------------------------------------------------


def active_name(channel: int) -> str:
    return f"{WAL_PREFIX}{channel:04d}"


def rotated_name(channel: int, milliseconds: int, number: int = 0) -> str:
    return f"{active_name(channel)}.{milliseconds:014d}.{number}"


def rotated_epoch_name(milliseconds: int, epoch: int) -> str:
    return f"{EPOCH_FILE}.{milliseconds:014d}.{epoch}"


def cmpct_name(number: int) -> str:
    return f"cmpct_{number:04d}"


def is_wal_name(name: str) -> bool:
    """Is this the log of a channel? The original reads every file with this prefix."""
    return name.startswith(WAL_PREFIX) and name not in (COMPACTED_FILE, COMPACTED_PREVIOUS)


def is_compacted_name(name: str) -> bool:
    return name == COMPACTED_FILE or CMPCT_NAME.fullmatch(name) is not None


def is_rotated_name(name: str) -> bool:
    """Names that a catalog may list as compacted logs."""
    return ROTATED_NAME.fullmatch(name) is not None or ACTIVE_NAME.fullmatch(name) is not None


# --- manifest ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Manifest:
    """Which version the directory has. Formats above 1.0 carry the identity of the instance."""

    version: int
    format: str = "1.0"
    instance: str = ""

    def encode(self) -> bytes:
        if self.format == "1.0":
            facts: dict[str, Any] = {"format_version": "1.0", "persistent_format_version": self.version}
            return json.dumps(facts, indent=4).encode()
        facts = {
            "format_version": self.format,
            "instance_uuid": self.instance,
            "persistent_format_version": self.version,
        }
        return json.dumps(facts, separators=(",", ":")).encode()


MANIFEST_SIZE_MAX = 1 << 16


def decode_manifest(raw: bytes, name: str = MANIFEST_FILE) -> Manifest:
    """The manifest from its bytes; of any version."""

    def broken(found: str) -> DamageError:
        return DamageError(
            "this is not a manifest",
            code="manifest-broken",
            file=name,
            offset=0,
            expected="a JSON object with format_version and persistent_format_version",
            found=found,
        )

    try:
        facts = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise broken(str(error) if isinstance(error, json.JSONDecodeError) else "no JSON") from None
    if not isinstance(facts, dict):
        raise broken("another JSON value")
    form, version = facts.get("format_version"), facts.get("persistent_format_version")
    if not isinstance(form, str) or not isinstance(version, int) or isinstance(version, bool):
        raise broken("one of them missing or of the wrong type")
    instance = facts.get("instance_uuid", "" if form == "1.0" else None)
    if not isinstance(instance, str):
        raise broken("no instance_uuid")
    return Manifest(version, form, instance)


# --- catalog -----------------------------------------------------------------------------------------------------

CATALOG_HEADER = "COMPACTION_CATALOG_HEADER"
CATALOG_FOOTER = "COMPACTION_CATALOG_FOOTER"
COMPACTED_VERSION = 1
CATALOG_SIZE_MAX = 1 << 26
_DIGITS = re.compile(r"[0-9]{1,20}")


@dataclass(frozen=True, slots=True)
class Catalog:
    """What compaction left: the files that count, what they cover, the largest blob number seen."""

    compacted: dict[str, int] = field(default_factory=dict)  # name to version
    detached: frozenset[str] = frozenset()  # logs whose entries up to `max_epoch` the compacted files hold
    max_epoch: int = 0
    max_blob: int | None = 0  # None: not written, as in versions before blobs

    def encode(self) -> bytes:
        lines = [CATALOG_HEADER]
        lines += [f"COMPACTED_FILE {name} {version}" for name, version in sorted(self.compacted.items())]
        lines += [f"DETACHED_PWAL {name}" for name in sorted(self.detached)]
        lines.append(f"MAX_EPOCH_ID {self.max_epoch}")
        if self.max_blob is not None:
            lines.append(f"MAX_BLOB_ID {self.max_blob}")
        return "\n".join([*lines, CATALOG_FOOTER, ""]).encode()


class IncompleteCatalogError(DamageError):
    """A catalog that ends before its footer, or holds other bytes: what a crash leaves of it."""


def decode_catalog(raw: bytes, name: str = CATALOG_FILE) -> Catalog:
    """The catalog from its bytes.

    An `IncompleteCatalogError` says that its writing did not finish. A plain `DamageError` says that it did, but that
    it has a name which no writer gives: no reader follows such a catalog, and nothing stands in for it.
    """
    lines = raw.split(b"\n")
    offset = 0
    compacted: dict[str, int] = {}
    detached: set[str] = set()
    numbers: dict[str, int] = {}
    strange: DamageError | None = None

    def incomplete(expected: str, found: bytes) -> IncompleteCatalogError:
        return IncompleteCatalogError(
            "the catalog is not whole",
            code="catalog-incomplete",
            file=name,
            offset=offset,
            expected=expected,
            found=_shown(found),
        )

    if lines[0] != CATALOG_HEADER.encode():
        raise incomplete(CATALOG_HEADER, lines[0])
    offset = len(lines[0]) + 1
    for line in lines[1:]:
        if line == CATALOG_FOOTER.encode():
            break
        words = line.decode("utf-8", "replace").split()
        match words:
            case []:
                pass
            case ["COMPACTED_FILE", file, version, *_] if _DIGITS.fullmatch(version):
                compacted[file] = int(version)
                if not is_compacted_name(file):
                    strange = strange or _strange(name, offset, file, "a compacted file")
            case ["DETACHED_PWAL", file, *_]:
                detached.add(file)
                if not (is_rotated_name(file) or file in (COMPACTED_FILE, COMPACTED_PREVIOUS)):
                    strange = strange or _strange(name, offset, file, "a rotated log")
            case ["MAX_EPOCH_ID" | "MAX_BLOB_ID" as word, number, *_] if _is_number(number):
                numbers[word] = int(number)
            case _:
                raise incomplete("a line of a catalog", line)
        offset += len(line) + 1
    else:
        raise incomplete(CATALOG_FOOTER, lines[-1])
    if "MAX_EPOCH_ID" not in numbers:
        raise incomplete("MAX_EPOCH_ID", CATALOG_FOOTER.encode())
    if strange is not None:
        raise strange
    return Catalog(compacted, frozenset(detached), numbers["MAX_EPOCH_ID"], numbers.get("MAX_BLOB_ID"))


def _is_number(text: str) -> bool:
    return _DIGITS.fullmatch(text) is not None and int(text) <= NUMBER_MAX


def _strange(catalog: str, offset: int, file: str, expected: str) -> DamageError:
    return DamageError(
        "the catalog names a file that no writer of this format names",
        code="catalog-name",
        file=catalog,
        offset=offset,
        expected=f"the name of {expected}",
        found=_shown(file.encode("utf-8", "surrogateescape")),
    )


def _shown(raw: bytes) -> str:
    return repr(raw[:64])[1:] if raw else "nothing"
