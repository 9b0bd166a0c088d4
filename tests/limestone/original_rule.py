"""What the original program sees in a directory of the shipped edition: a small model of its start, defects included.

Logs that the catalog lists are not read. The compacted file has the lowest versions, and removals act on it only when
the catalog names it.
"""

from __future__ import annotations

from collections.abc import Iterator

from flintlog.dialects.limestone import layout as lay
from flintlog.disk import Disk

_SIZE_MAX = 1 << 20
Key = tuple[int, bytes]


def seen_by_the_original(disk: Disk, path: str) -> dict[Key, bytes]:
    """Keys and values after its next start. Torn tails, at which it aborts, end a log here."""
    names = disk.list(path)
    catalog = lay.Catalog()
    if lay.CATALOG_FILE in names:
        catalog = lay.decode_catalog(disk.read(f"{path}/{lay.CATALOG_FILE}", _SIZE_MAX))
    epochs = [disk.read(f"{path}/{name}", _SIZE_MAX) for name in names if name.startswith("epoch")]
    durable = max(
        (lay.decode_marker(raw, at) for raw in epochs for at in range(0, len(raw) - 8, 9)), default=0
    )
    newest: dict[Key, lay.Entry] = {}
    for name in names:
        if name.startswith("pwal_") and name not in catalog.detached and name != lay.COMPACTED_FILE:
            for entry in entries_of(disk.read(f"{path}/{name}", _SIZE_MAX), durable):
                key = entry.storage, entry.key
                if key not in newest or newest[key].version <= entry.version:
                    newest[key] = entry
    seen: dict[Key, bytes] = {}
    if lay.COMPACTED_FILE in names:
        for entry in entries_of(disk.read(f"{path}/{lay.COMPACTED_FILE}", _SIZE_MAX), durable):
            seen[entry.storage, entry.key] = entry.value
    for key, entry in newest.items():
        if entry.type in (lay.PUT, lay.PUT_BLOBS):
            seen[key] = entry.value
        elif lay.COMPACTED_FILE in catalog.compacted:
            seen.pop(key, None)
    return seen


def listed_above_the_epoch(disk: Disk, path: str) -> list[str]:
    """Logs that the catalog lists, which it therefore does not read, with sessions above the catalog's epoch."""
    catalog = lay.decode_catalog(disk.read(f"{path}/{lay.CATALOG_FILE}", _SIZE_MAX))
    logs = {
        name: disk.read(f"{path}/{name}", _SIZE_MAX) for name in disk.list(path) if name in catalog.detached
    }
    return [
        name
        for name, raw in logs.items()
        if any(
            raw[at] == lay.BEGIN and lay.decode_marker(raw, at) > catalog.max_epoch for at in markers_of(raw)
        )
    ]


def compacted_by_the_original(disk: Disk, path: str, copy: Disk) -> None:
    """Make `copy` the directory that it leaves when it starts here and compacts: everything that it sees in one file,
    and all that it read listed. What it does not see is gone for every reader."""
    seen = seen_by_the_original(disk, path)
    copy.make_directory(path)
    names = [name for name in disk.list(path) if not disk.is_directory(f"{path}/{name}")]
    catalog = lay.decode_catalog(disk.read(f"{path}/{lay.CATALOG_FILE}", _SIZE_MAX))
    files = {name: disk.read(f"{path}/{name}", _SIZE_MAX) for name in names}
    logs = {
        name: files.pop(name) for name in names if name.startswith("pwal_") and name != lay.COMPACTED_FILE
    }
    epochs = b"".join(files.pop(name) for name in names if name.startswith("epoch"))
    last = max(
        (lay.decode_marker(raw, at) for raw in (*logs.values(), epochs) for at in markers_of(raw)), default=0
    )
    rotated = {f"{name}.99999999999999.0" if len(name) == 9 else name: raw for name, raw in logs.items()}
    entries = [lay.put(storage, key, value, (0, 0)) for (storage, key), value in sorted(seen.items())]
    files |= rotated | {
        lay.EPOCH_FILE: lay.encode_durable(last),
        lay.COMPACTED_FILE: lay.encode_begin(0) + b"".join(entry.encode() for entry in entries),
        lay.CATALOG_FILE: lay.Catalog(
            {lay.COMPACTED_FILE: 1}, frozenset(rotated), last, catalog.max_blob
        ).encode(),
    }
    for name, raw in files.items():
        with copy.open(f"{path}/{name}", "create") as file:
            file.pwrite(raw, 0)


def markers_of(raw: bytes) -> Iterator[int]:
    at = 0
    while at < len(raw) and (size := lay.record_size(raw, at)) is not None and at + size <= len(raw):
        if raw[at] in (lay.BEGIN, lay.INVALIDATED, lay.DURABLE):
            yield at
        at += size


def entries_of(raw: bytes, durable: int) -> Iterator[lay.Entry]:
    at, counts = 0, False
    while at < len(raw) and (size := lay.record_size(raw, at)) is not None and at + size <= len(raw):
        if raw[at] in (lay.BEGIN, lay.INVALIDATED):
            counts = raw[at] == lay.BEGIN and lay.decode_marker(raw, at) <= durable
        elif raw[at] != lay.END and counts:
            yield lay.decode(raw, at)[0]
        at += size
