"""Limestone directories, read from the design note and the program's bytes with the standard library alone.

`read` takes the files of a directory (relative path and content) and returns the keys at the durable epoch, or raises
`DamagedError`. What no durable session can need may be torn, and is passed over; everything else must be whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tests.independent.pieces import DamagedError, Pieces, require

_PUT, _BEGIN, _END, _DURABLE, _REMOVE, _INVALIDATED = 1, 2, 3, 4, 5, 6
_CLEAR, _ADD_STORAGE, _REMOVE_STORAGE, _PUT_WITH_BLOBS = 7, 8, 9, 10
_MANIFEST, _CATALOG = "limestone-manifest.json", "compaction_catalog"
_COMPACTED, _PREVIOUS = "pwal_0000.compacted", "pwal_0000.compacted.prev"
_LOG = re.compile(r"pwal_(\d{4,})(?:\.(\d{14})\.(\d+))?")
_EPOCH = re.compile(r"epoch(\.\d{14}\.\d+)?")
_DESIGNED_VERSION = 2

Version = tuple[int, int]


@dataclass(frozen=True)
class Entry:
    """One entry of a log; a value of None removes the key."""

    kind: int
    storage: int
    key: bytes = b""
    value: bytes | None = None
    version: Version = (0, 0)
    blobs: tuple[int, ...] = ()


@dataclass
class Catalog:
    compacted: set[str] = field(default_factory=set)
    detached: set[str] = field(default_factory=set)
    max_epoch: int = 0


@dataclass
class Snippet:
    """One session of a log, or what is left of one that was invalidated."""

    epoch: int
    valid: bool
    entries: list[Entry] = field(default_factory=list)


@dataclass
class State:
    version: int
    durable: int
    catalog: Catalog
    storages: dict[int, dict[bytes, Entry]]


def read(files: Mapping[str, bytes]) -> State:
    """The state of a log directory."""
    version = _version(files)
    designed = version <= _DESIGNED_VERSION
    catalog = _catalog(files, designed=designed)
    durable = _durable(files)
    base = _base(files, catalog, designed=designed)
    top: list[Entry] = []
    for name in sorted((name for name in files if _LOG.fullmatch(name)), key=_order):
        sessions = [snippet for snippet in _snippets(files[name], name, durable) if snippet.valid]
        # The note: a log whose first session is before the catalog's maximum epoch is not looked at.
        if designed and sessions and sessions[0].epoch < catalog.max_epoch:
            continue
        for snippet in sessions:
            if catalog.max_epoch < snippet.epoch <= durable:
                top += snippet.entries
    return State(version, durable, catalog, _merged(base, top))


def _order(name: str) -> tuple[int, str, int]:
    """By channel, then from the oldest log to the active one."""
    match = _LOG.fullmatch(name)
    assert match is not None
    return int(match[1]), match[2] or "~", int(match[3] or 0)


def _merged(base: list[Entry], top: list[Entry]) -> dict[int, dict[bytes, Entry]]:
    """The greatest version of a key, and of equal ones the later. Every entry of a log beats the base."""
    cleared: dict[int, Version] = {}
    newest: dict[tuple[int, bytes], Entry] = {}
    for entry in top:
        if entry.kind in (_CLEAR, _REMOVE_STORAGE):
            cleared[entry.storage] = max(cleared.get(entry.storage, (0, 0)), entry.version)
        elif entry.kind != _ADD_STORAGE:
            known = newest.get((entry.storage, entry.key))
            if known is None or known.version <= entry.version:
                newest[entry.storage, entry.key] = entry
    live = {(entry.storage, entry.key): entry for entry in base if entry.storage not in cleared}
    live |= {
        place: entry for place, entry in newest.items() if entry.version >= cleared.get(entry.storage, (0, 0))
    }
    state: dict[int, dict[bytes, Entry]] = {}
    for (storage, key), entry in live.items():
        if entry.value is not None and newest.get((storage, key), entry) is entry:
            state.setdefault(storage, {})[key] = entry
    return state


# Manifest and catalog


def _version(files: Mapping[str, bytes]) -> int:
    """A manifest that was being replaced holds up to version 2; later it stands in for one that is broken."""
    main, back = _manifest(files, _MANIFEST), _manifest(files, f"{_MANIFEST}.back")
    old = back is not None and back <= _DESIGNED_VERSION
    version = back if old or main is None else main
    require(version is not None, "there is no manifest that can be read")
    assert version is not None
    require(1 <= version <= 7, f"{_MANIFEST}: version {version}")
    return version


def _manifest(files: Mapping[str, bytes], name: str) -> int | None:
    try:
        found = json.loads(files[name])
        version = found["persistent_format_version"]
        return version if isinstance(found["format_version"], str) and isinstance(version, int) else None
    except (KeyError, TypeError, ValueError):
        return None


def _catalog(files: Mapping[str, bytes], *, designed: bool) -> Catalog:
    """Designed: a catalog that was being replaced holds. Shipped: it stands in for one that is not whole."""
    names = [_CATALOG, f"{_CATALOG}.back"]
    if designed and names[1] in files:
        names.reverse()
    error: DamagedError | None = None
    for name in names:
        if name in files:
            try:
                return _parsed(files[name].decode("utf-8", "replace"), name)
            except DamagedError as found:
                error = error or found
    if error is not None and designed:
        raise error
    return Catalog()


def _parsed(text: str, name: str) -> Catalog:
    lines = text.split("\n")
    require(lines[0] == "COMPACTION_CATALOG_HEADER", f"{name}: no header")
    require("COMPACTION_CATALOG_FOOTER" in lines[:-1], f"{name}: no footer")
    catalog, numbers = Catalog(), {}
    for line in lines[1 : lines.index("COMPACTION_CATALOG_FOOTER")]:
        word, *rest = line.split() or [""]
        if word == "COMPACTED_FILE":
            require(len(rest) >= 2 and rest[1] == "1", f"{name}: {line!r}")
            require(
                re.fullmatch(r"cmpct_\d{4,}|pwal_0000\.compacted", rest[0]) is not None, f"{name}: {line!r}"
            )
            catalog.compacted.add(rest[0])
        elif word == "DETACHED_PWAL":
            known = bool(rest) and ("/" not in rest[0]) and rest[0].startswith("pwal_")
            require(known, f"{name}: {line!r}")
            catalog.detached.add(rest[0])
        elif word in ("MAX_EPOCH_ID", "MAX_BLOB_ID"):
            require(bool(rest) and rest[0].isdecimal(), f"{name}: {line!r}")
            numbers[word] = int(rest[0])
        else:
            require(not word, f"{name}: {line!r}")
    require("MAX_EPOCH_ID" in numbers, f"{name}: no maximum epoch")
    catalog.max_epoch = numbers["MAX_EPOCH_ID"]
    return catalog


# Records


def _durable(files: Mapping[str, bytes]) -> int:
    """The greatest epoch of the epoch files."""
    durable = 0
    for name in files:
        if _EPOCH.fullmatch(name):
            pieces = Pieces(files[name], name)
            while pieces.left:
                kind, epoch = pieces.numbers("<BQ")
                require(kind == _DURABLE, f"{name}: byte {pieces.at - 9}: type {kind}")
                durable = max(durable, epoch)
    return durable


def _entry(kind: int, pieces: Pieces) -> Entry:
    if kind in (_PUT, _PUT_WITH_BLOBS):
        keys, values, storage = pieces.numbers("<IIQ")
        key, version = pieces.take(keys), pieces.numbers("<QQ")
        value = pieces.take(values)
        blobs = pieces.numbers(f"<{pieces.number('<I')}Q") if kind == _PUT_WITH_BLOBS else ()
        return Entry(kind, storage, key, value, version, blobs)
    if kind == _REMOVE:
        keys, storage = pieces.numbers("<IQ")
        return Entry(kind, storage, pieces.take(keys), None, pieces.numbers("<QQ"))
    require(_CLEAR <= kind <= _REMOVE_STORAGE, f"{pieces.what}: byte {pieces.at - 1}: type {kind}")
    storage, major, minor = pieces.numbers("<QQQ")
    return Entry(kind, storage, version=(major, minor))


def _snippets(data: bytes, name: str, durable: int) -> list[Snippet]:
    """What stands in a log; entries of durable sessions only."""
    pieces = Pieces(data, name)
    found: list[Snippet] = []
    needed = within = False  # is the session that is read durable, and is one begun that is not ended?
    while pieces.left:
        begin, kind = pieces.at, pieces.take(1)[0]
        try:
            if kind in (_BEGIN, _INVALIDATED):
                epoch = pieces.number("<Q")
                needed, within = kind == _BEGIN and epoch <= durable, True
                found.append(Snippet(epoch, kind == _BEGIN))
            elif kind == _END:
                epoch, _ = pieces.numbers("<QB")
                require(within and epoch == found[-1].epoch, f"{name}: byte {begin}: it ends no session")
                within = False
            else:
                entry = _entry(kind, pieces)
                require(within, f"{name}: byte {begin}: an entry outside of a session")
                if needed:
                    found[-1].entries.append(entry)
        except DamagedError:
            rest = data[begin:]
            if (within and not needed) or (not within and (not any(rest) or kind in (_BEGIN, _INVALIDATED))):
                break  # a torn tail
            raise
    return found


def _base(files: Mapping[str, bytes], catalog: Catalog, *, designed: bool) -> list[Entry]:
    """The entries of the compacted files."""
    names = set(catalog.compacted)
    if not designed:
        names |= {_COMPACTED} & set(files)
        names = names if names & set(files) else {_PREVIOUS} & set(files) or names
    entries: list[Entry] = []
    for name in sorted(names):
        require(name in files, f"{name}: the catalog names it, and it is gone")
        entries += _sorted(files[name], name, catalog.max_epoch if name.startswith("cmpct") else 0)
    return entries


def _sorted(data: bytes, name: str, epoch: int) -> Iterator[Entry]:
    """A compacted file: a begin marker with this epoch, then puts in order."""
    pieces = Pieces(data, name)
    require(pieces.numbers("<BQ") == (_BEGIN, epoch), f"{name}: it does not begin with epoch {epoch}")
    before: tuple[object, bytes] | None = None
    while pieces.left:
        kind = pieces.take(1)[0]
        require(kind in (_PUT, _PUT_WITH_BLOBS), f"{name}: byte {pieces.at - 1}: type {kind}")
        entry = _entry(kind, pieces)
        storage = entry.storage if name.startswith("cmpct") else entry.storage.to_bytes(8, "little")
        place = storage, entry.key
        require(before is None or before < place, f"{name}: byte {pieces.at}: keys are out of order")
        before = place
        yield entry
