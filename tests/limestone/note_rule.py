"""What a reader sees that follows the design note to the letter: a small model of its start in the designed edition.

A log that the catalog lists is not read, nor one whose first session lies below the catalog's maximum epoch. An
invalidated session is none.
"""

from __future__ import annotations

from tests.limestone.original_rule import Key, entries_of, markers_of

from flintlog.dialects.limestone import layout as lay
from flintlog.disk import Disk

_SIZE_MAX = 1 << 20


def seen_by_the_note(disk: Disk, path: str) -> dict[Key, bytes]:
    """Keys and values after its next start. While the catalog before it is there, a compaction has not happened."""
    files = {
        name: disk.read(f"{path}/{name}", _SIZE_MAX)
        for name in disk.list(path)
        if not disk.is_directory(f"{path}/{name}")
    }
    held = lay.CATALOG_BACK if lay.CATALOG_BACK in files else lay.CATALOG_FILE
    catalog = lay.decode_catalog(files[held]) if held in files else lay.Catalog()
    epochs = [raw for name, raw in files.items() if name.startswith("epoch")]
    durable = max(
        (lay.decode_marker(raw, at) for raw in epochs for at in range(0, len(raw) - 8, 9)), default=0
    )
    names = [*catalog.compacted, *(name for name in files if _is_read(name, files[name], catalog))]
    newest: dict[Key, lay.Entry] = {}
    for name in names:
        for entry in entries_of(files[name], durable):
            key = entry.storage, entry.key
            if key not in newest or newest[key].version <= entry.version:
                newest[key] = entry
    return {key: entry.value for key, entry in newest.items() if entry.type == lay.PUT}


def _is_read(name: str, raw: bytes, catalog: lay.Catalog) -> bool:
    if not name.startswith("pwal_") or name in catalog.detached:
        return False
    begins = [lay.decode_marker(raw, at) for at in markers_of(raw) if raw[at] == lay.BEGIN]
    return not begins or begins[0] >= catalog.max_epoch
