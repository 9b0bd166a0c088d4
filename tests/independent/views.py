"""The same facts twice: as an independent decoder reads them from the files, and as the open store tells them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.independent import limestone, mpy6a, taskflux, zmqraft

from flintlog.dialects.limestone.store import Datastore
from flintlog.dialects.mpy6a.store import SessionStore
from flintlog.dialects.taskflux.store import QueueStore, ReplicaLog
from flintlog.dialects.zmqraft.store import RaftStore
from flintlog.disk import Disk

Files = Mapping[str, bytes]


def files_on(disk: Disk, root: str) -> dict[str, bytes]:
    """Every file below a directory of a disk, which may be in memory: relative path and content."""
    found: dict[str, bytes] = {}
    for name in disk.list(root):
        path = f"{root}/{name}"
        if disk.is_directory(path):
            found |= {f"{name}/{inner}": data for inner, data in files_on(disk, path).items()}
        else:
            with disk.open(path) as file:
                found[name] = file.pread(file.size(), 0)
    return found


# taskflux


def queues_in(files: Files) -> dict[str, Any]:
    state = taskflux.read(files)
    queues = {
        name: (queue.code, queue.max_size, queue.max_payload, queue.key_range, queue.last_id, queue.waiting())
        for name, queue in state.queues.items()
    }
    return {"edition": state.edition, "last": state.last[0], "queues": queues}


def queues_of(store: QueueStore) -> dict[str, Any]:
    """Of a store that has handed nothing out."""
    queues = {}
    for queue in store:
        spec, rows = queue.spec, [tuple(record) for record in queue.records()]
        limits = spec.code, spec.max_size, spec.max_payload, spec.key_range
        queues[queue.name] = (*limits, queue.last_id, rows)
    return {"edition": store.edition, "last": store.last_lsn, "queues": queues}


def replica_in(files: Files) -> dict[str, Any]:
    state = taskflux.read(files)
    return {
        "edition": state.edition,
        "term": (state.term, state.vote),
        "snapshot": state.snapshot[0] if state.snapshot else -1,
        "last": state.last,
        "entries": state.entries,
    }


def replica_of(log: ReplicaLog) -> dict[str, Any]:
    return {
        "edition": log.edition,
        "term": (log.term, log.vote),
        "snapshot": log.snapshot_lsn,
        "last": (log.last_lsn, log.last_term if log.last_lsn >= 0 else 0),
        "entries": [(entry.lsn, entry.term, entry.data) for entry in log.entries(log.first_lsn)],
    }


# zmqraft


def peer_in(files: Files) -> dict[str, Any]:
    state = zmqraft.read(files)
    return {
        "snapshot": state.snapshot,
        "entries": [(one.index, one.term, one.kind, one.request_id, one.data) for one in state.entries],
        "raft": state.raft,
        "applied": state.applied,
    }


def peer_of(store: RaftStore) -> dict[str, Any]:
    first = store.snapshot_index + 1
    return {
        "snapshot": (store.snapshot_index, store.snapshot_term, b"".join(store.read_snapshot())),
        "entries": [
            (index, one.term, one.type, one.request_id, one.data)
            for index, one in enumerate(store.entries(first), first)
        ],
        "raft": store.raft.values(),
        "applied": store.hard_state.applied,
    }


# mpy6a

_FOREVER = 1 << 37


def sessions_in(files: Files) -> dict[str, Any]:
    state = mpy6a.read(files)
    opened = {id_: (one.topic, one.data) for id_, one in state.opened.items() if one.place is None}
    rows = [one.record for one in state.waiting()]
    return {
        "open": opened,
        "waiting": [(one.id, one.due, one.topic, one.attempts, one.data) for one in rows],
        "exhausted": [(one.id, one.due, one.topic, one.attempts, one.data) for one in state.exhausted],
    }


def sessions_of(store: SessionStore) -> dict[str, Any]:
    """Of a store that has handed nothing out; it hands out everything here."""
    opened = {tuple(one.id): (one.topic, one.data) for one in store.sessions() if one.place is None}
    topics, store.topics = store.topics, {}  # or those that were tried too often would be set aside
    due = [
        (one.id, one.replay_time, one.topic, one.attempts, one.data) for one in store.due(_FOREVER, 1_000_000)
    ]
    store.topics = topics
    aside = [(one.id, one.replay_time, one.topic, one.attempts, one.data) for one in store.exhausted()]
    return {"open": opened, "waiting": due, "exhausted": aside}


# limestone

Keys = dict[tuple[int, bytes], tuple[bytes, tuple[int, ...]]]


def keys_in(files: Files) -> Keys:
    """Value and blobs of each key of each storage."""
    storages = limestone.read(files).storages
    return {
        (storage, key): (entry.value or b"", entry.blobs)
        for storage, keys in storages.items()
        for key, entry in keys.items()
    }


def keys_of(store: Datastore) -> Keys:
    """The same as a store told when it was opened."""
    assert store.snapshot is not None
    return {(entry.storage, entry.key): (entry.value, tuple(entry.blobs)) for entry in store.snapshot.scan()}
