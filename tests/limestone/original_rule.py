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
            for entry in _entries(disk.read(f"{path}/{name}", _SIZE_MAX), durable):
                key = entry.storage, entry.key
                if key not in newest or newest[key].version <= entry.version:
                    newest[key] = entry
    seen: dict[Key, bytes] = {}
    if lay.COMPACTED_FILE in names:
        for entry in _entries(disk.read(f"{path}/{lay.COMPACTED_FILE}", _SIZE_MAX), durable):
            seen[entry.storage, entry.key] = entry.value
    for key, entry in newest.items():
        if entry.type in (lay.PUT, lay.PUT_BLOBS):
            seen[key] = entry.value
        elif lay.COMPACTED_FILE in catalog.compacted:
            seen.pop(key, None)
    return seen


def _entries(raw: bytes, durable: int) -> Iterator[lay.Entry]:
    at, counts = 0, False
    while at < len(raw) and (size := lay.record_size(raw, at)) is not None and at + size <= len(raw):
        if raw[at] in (lay.BEGIN, lay.INVALIDATED):
            counts = raw[at] == lay.BEGIN and lay.decode_marker(raw, at) <= durable
        elif raw[at] != lay.END and counts:
            yield lay.decode(raw, at)[0]
        at += size
