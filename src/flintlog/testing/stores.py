"""The stores of the four dialects as subjects: their public calls, with what each puts in and takes out."""

from __future__ import annotations

import itertools
import os
import posixpath
import random
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from flintlog import Datastore, QueueStore, RaftStore, ReplicaLog, SessionStore, Topic
from flintlog.core.finding import Severity
from flintlog.core.live import holding, told_when_it_goes
from flintlog.core.log import Log, open_log
from flintlog.dialects.limestone.layout import put
from flintlog.dialects.limestone.store import staged
from flintlog.dialects.taskflux import layout as taskflux
from flintlog.dialects.taskflux.layout import AddRecord
from flintlog.dialects.zmqraft.layout import Entry
from flintlog.disk import Disk
from flintlog.errors import DamageError, DiskError, NotALogError, RefusedError
from flintlog.testing.notes import Notes
from flintlog.testing.races import Operation, Subject

_numbers = itertools.count()


def _several(chance: random.Random) -> int:
    """How many things a call for many gets: mostly few, so that there are many calls."""
    return chance.choice((2, 3, 5, 20, 50, 500))


def fresh(word: str, count: int = 1) -> list[str]:
    """Names that no other thread or process uses, all of one length, so that a seed always fills the same bytes."""
    return [f"{word}-{os.getpid():07}-{next(_numbers):09}" for _ in range(count)]


def _if_new(disk: Disk, path: str, edition: Any) -> Any:
    """The edition of a new directory; None for an existing one, which has its own."""
    return None if disk.list(path) else edition


def _bytes(names: Iterable[str]) -> list[bytes]:
    return [name.encode() for name in names]


class _refusals:  # noqa: N801
    """Put it around a call that may fail because another thread was faster."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: object, *_: object) -> bool:
        return isinstance(error, RefusedError) and error.code in (
            "refused",
            "record-missing",
            "session-finished",
        )


def _snapshot(store: Any, notes: Notes, chance: random.Random) -> None:
    store.snapshot()


# taskflux: queues


def _open_queues(edition: str) -> Callable[[Disk, str], QueueStore]:
    limits: dict[str, Any] = {"soft_limit": 2_000, "hard_limit": 4_000, "snapshot_threshold": 1}
    return lambda disk, path: QueueStore(path, disk=disk, edition=_if_new(disk, path, edition), **limits)


def _records(store: QueueStore) -> Sequence[str]:
    return [record.payload.decode(errors="replace") for queue in store for record in queue.records()]


def _add(store: QueueStore, notes: Notes, chance: random.Random) -> None:
    for name in fresh("a", 3):
        with notes.add(name):
            store.queue().add(name.encode(), key=chance.randrange(5))


def _add_many(store: QueueStore, notes: Notes, chance: random.Random) -> None:
    names = fresh("m", _several(chance))
    with notes.add(*names):
        store.queue().add_many(_bytes(names), chance.randrange(5))


def _ack(store: QueueStore, notes: Notes, chance: random.Random) -> None:
    for taken in store.queue().take_many(3):
        with notes.remove(taken.payload.decode()):
            taken.ack()


def _nack(store: QueueStore, notes: Notes, chance: random.Random) -> None:
    for taken in store.queue().take_many(2):
        taken.nack()


def _remove(store: QueueStore, notes: Notes, chance: random.Random) -> None:
    found = store.queue().peek()
    if found is None:
        return
    with _refusals(), notes.remove(found.payload.decode()):
        store.queue().remove(found.id)


def _create_and_delete(store: QueueStore, notes: Notes, chance: random.Random) -> None:
    [name] = fresh("queue")
    queue = store.create(name)
    held = fresh("q", 2)
    with notes.add(*held):
        queue.add_many(_bytes(held))
    if chance.random() < 0.7:
        with notes.remove(*held):
            store.delete(name)


_QUEUES = {
    "ack": _ack,
    "add": _add,
    "add_many": _add_many,
    "create": _create_and_delete,
    "nack": _nack,
    "remove": _remove,
    "snapshot": _snapshot,
}


# taskflux: the log of a Raft node


class _Replica(ReplicaLog):
    """A log whose entries put records into the default queue, so that its state shows its content."""

    def __init__(self, disk: Disk, path: str) -> None:
        super().__init__(path, disk=disk, soft_limit=2_000, hard_limit=4_000, snapshot_threshold=1)
        self.place = disk, path


def _append_deltas(store: _Replica, notes: Notes, chance: random.Random) -> None:
    names = fresh("d", _several(chance))
    deltas = [taskflux.encode_delta(AddRecord("", 0, name.encode())) for name in names]
    with notes.add(*names):
        store.append(1, deltas)


def _commit(store: _Replica, notes: Notes, chance: random.Random) -> None:
    store.commit(chance.randint(store.commit_index, store.last_lsn))


def _enter_term(store: _Replica, notes: Notes, chance: random.Random) -> None:
    with _refusals():
        store.set_term(store.term + 1, chance.randrange(3))


def _read_deltas(store: _Replica, notes: Notes, chance: random.Random) -> None:
    first = store.first_lsn
    found = [entry.lsn for entry in _unless_removed(store.entries(first))]
    assert found == list(range(first, first + len(found)))


def _send_to_itself(store: _Replica, notes: Notes, chance: random.Random) -> None:
    """Play a leader's retry: send the snapshot and entries that are already here."""
    store.snapshot()
    if store.snapshot_lsn >= 0:
        with _refusals():
            store.receive_snapshot(list(store.read_snapshot()))
    first = chance.randint(store.first_lsn, store.last_lsn + 1)
    entries = list(_unless_removed(store.entries(first, _several(chance))))
    with _refusals():
        store.append_entries(first, [(entry.term, entry.data) for entry in entries])


def _replayed(store: _Replica) -> Sequence[str]:
    disk, path = store.place
    store.close()
    with QueueStore(path, disk=disk) as queues:
        return _records(queues)


_REPLICA = {
    "append": _append_deltas,
    "commit": _commit,
    "read": _read_deltas,
    "receive": _send_to_itself,
    "snapshot": _snapshot,
    "term": _enter_term,
}


def _unless_removed(entries: Iterable[Any]) -> Iterable[Any]:
    """Entries, until a snapshot removes those that come next."""
    with _refusals():
        yield from entries


# zmqraft


def _open_peer(disk: Disk, path: str) -> RaftStore:
    return RaftStore(path, disk=disk, capacity=8)


def _append(store: RaftStore, notes: Notes, chance: random.Random) -> None:
    for name in fresh("e", 2):
        with notes.add(name):
            store.append([Entry(1, name.encode())])


def _append_columns(store: RaftStore, notes: Notes, chance: random.Random) -> None:
    names = fresh("c", _several(chance))
    with notes.add(*names):
        store.append_columns(1, _bytes(names))


def _applied(store: RaftStore, notes: Notes, chance: random.Random) -> None:
    store.set_hard_state(applied=store.snapshot_index)
    store.update_raft_state({"peers": [fresh("peer")]})


def _names_of(store: RaftStore, last: int) -> bytes | None:
    """The state of an application that remembers every name, up to an index; None when a snapshot came between."""
    before = store.snapshot_index
    known = b"".join(store.read_snapshot())
    found = (
        [entry.data for entry in _unless_removed(store.entries(before + 1, last))] if before < last else []
    )
    if store.snapshot_index != before or before + len(found) != last:
        return None
    return known + b"".join(data + b"\n" for data in found)


def _snapshot_peer(store: RaftStore, notes: Notes, chance: random.Random) -> None:
    last = store.last_index
    state = _names_of(store, last)
    if state is not None:
        with _refusals():
            store.snapshot(last, state)


def _install_again(store: RaftStore, notes: Notes, chance: random.Random) -> None:
    """Play a leader's retry: send the snapshot and entries that are already here."""
    index, term = store.snapshot_index, store.snapshot_term
    state = b"".join(store.read_snapshot())
    if index and store.snapshot_index == index:
        with _refusals():
            store.install_snapshot(index, term, state)
    last = store.last_index
    if index < last:
        first = chance.randint(index + 1, last)
        entries = list(_unless_removed(store.entries(first, min(first + _several(chance), last))))
        with _refusals():
            store.append_at(first, entries)


def _read_peer(store: RaftStore, notes: Notes, chance: random.Random) -> None:
    for _ in _unless_removed(store.entries(store.first_index)):
        pass


def _peer_items(store: RaftStore) -> Sequence[str]:
    state = _names_of(store, store.last_index)
    assert state is not None
    return state.decode(errors="replace").split()


_PEER = {
    "append": _append,
    "append_columns": _append_columns,
    "applied": _applied,
    "install": _install_again,
    "read": _read_peer,
    "snapshot": _snapshot_peer,
}


# mpy6a

_NOW = 1_700_000_000
_LATER = _NOW + 10**6


def _open_sessions(*, strict: bool) -> Callable[[Disk, str], SessionStore]:
    options: dict[str, Any] = {"topics": [Topic(1, 60), Topic(2, 90)], "file_bytes": 500, "log_bytes": 4_000}
    return lambda disk, path: SessionStore(path, disk=disk, strict=strict, **options)


def _put(store: SessionStore, notes: Notes, chance: random.Random) -> None:
    for name in fresh("p", 2):
        with notes.add(name):
            store.put(chance.choice((1, 2)), name.encode(), now=_NOW)


def _put_many(store: SessionStore, notes: Notes, chance: random.Random) -> None:
    names = fresh("n", _several(chance))
    with notes.add(*names):
        store.put_many(1, _bytes(names), now=_NOW)


def _begin_and_store(store: SessionStore, notes: Notes, chance: random.Random) -> None:
    [name] = fresh("s")
    with notes.add(name):
        session = store.new(1)
        session.append(name.encode())
        session.store(now=_NOW)


def _due_and_delete(*, strict: bool) -> Operation:
    """A strict store may replay a session that was ended before an older one of its file."""

    def act(store: SessionStore, notes: Notes, chance: random.Random) -> None:
        for session in store.due(_LATER, limit=3):
            with notes.remove(session.data.decode(), for_good=not strict):
                session.delete()

    return act


def _due_and_store(store: SessionStore, notes: Notes, chance: random.Random) -> None:
    for session in store.due(_LATER, limit=2):
        session.store(now=_LATER)


def _finish_many(*, strict: bool) -> Operation:
    def act(store: SessionStore, notes: Notes, chance: random.Random) -> None:
        found = store.due_batch(_LATER, 10)
        names = [record.data.decode() for record, _ in found.rows()]
        with notes.remove(*names, for_good=not strict):
            found.delete()

    return act


def _rotate_sessions(store: SessionStore, notes: Notes, chance: random.Random) -> None:
    store.rotate(60, now=_NOW)


def _compact(store: Any, notes: Notes, chance: random.Random) -> None:
    store.compact()


def _waiting(store: SessionStore) -> Sequence[str]:
    begun = [session.data.decode(errors="replace") for session in store.sessions()]
    return [
        *(name for name in begun if name),
        *(each.data.decode(errors="replace") for each in store.due(2 * _LATER, limit=10**6)),
    ]


def _waiting_once(store: SessionStore) -> Sequence[str]:
    """A strict store may bring a session that was stored again from both of its places."""
    return list(dict.fromkeys(_waiting(store)))


def _session_operations(*, strict: bool) -> dict[str, Operation]:
    return {
        "compact": _compact,
        "delete": _due_and_delete(strict=strict),
        "finish": _finish_many(strict=strict),
        "new": _begin_and_store,
        "put": _put,
        "put_many": _put_many,
        "rotate": _rotate_sessions,
        "snapshot": _snapshot,
        "store": _due_and_store,
    }


# limestone


class _Keys:
    """A datastore whose threads have a channel each, and wait until their puts are durable."""

    def __init__(self, disk: Disk, path: str, edition: Any) -> None:
        self.store = Datastore(path, disk=disk, edition=_if_new(disk, path, edition))
        self._own = threading.local()

    def change(self, act: Callable[[Any], None]) -> None:
        if not hasattr(self._own, "channel"):
            self._own.channel = self.store.channel()
        with self._own.channel.session() as session:
            act(session)
        if self.store.epoch <= session.epoch:
            self.store.switch_epoch()
        assert self.store.wait_durable(session.epoch)

    def close(self) -> None:
        self.store.close()


def _open_keys(edition: str) -> Callable[[Disk, str], _Keys]:
    return lambda disk, path: _Keys(disk, path, edition)


def _put_key(store: _Keys, notes: Notes, chance: random.Random) -> None:
    [name] = fresh("k")
    with notes.add(name):
        store.change(lambda session: session.put(1, name.encode(), b"value"))
        assert store.store.get(1, name.encode()) == b"value"


def _put_keys(store: _Keys, notes: Notes, chance: random.Random) -> None:
    names = fresh("b", _several(chance))
    with notes.add(*names):
        store.change(lambda session: session.put_many(1, _bytes(names), _bytes(names)))


def _remove_key(store: _Keys, notes: Notes, chance: random.Random) -> None:
    name = chance.choice(sorted(notes.added - notes.removing) or ["a key that is not there"])
    with notes.remove(name):
        store.change(lambda session: session.remove(1, name.encode()))
        assert (1, name.encode()) not in store.store


def _abort(store: _Keys, notes: Notes, chance: random.Random) -> None:
    class _GivenUpError(Exception):
        pass

    [name] = fresh("never")

    def fail(session: Any) -> None:
        session.put(1, name.encode(), b"")
        raise _GivenUpError

    with suppress(_GivenUpError):
        store.change(fail)


def _rotate_keys(store: _Keys, notes: Notes, chance: random.Random) -> None:
    store.store.rotate()


def _compact_keys(store: _Keys, notes: Notes, chance: random.Random) -> None:
    store.store.compact()


def _scan_keys(store: _Keys, notes: Notes, chance: random.Random) -> None:
    seen = [entry.key for entry in store.store.scan(1)]
    assert seen == sorted(set(seen))


def _load_keys(store: _Keys, notes: Notes, chance: random.Random) -> None:
    """Load a session that another process staged."""
    names = fresh("l", _several(chance))
    puts = [put(1, name.encode(), b"value", (1, 0)).encode() for name in names]
    own = store.store
    with notes.add(*names):
        place = posixpath.join(own.path, "compaction_temp", f"load.{names[0]}")
        own.disk.make_passing_directory(posixpath.dirname(place))
        staged.write(own.disk, place, own.path, 1, puts, end=own.edition == "shipped")
        assert own.wait_durable(own.load([place]))


def _keys(store: _Keys) -> Sequence[str]:
    assert store.store.snapshot is not None
    return [entry.key.decode(errors="replace") for entry in store.store.snapshot.scan(1)]


_KEYS = {
    "abort": _abort,
    "compact": _compact_keys,
    "load": _load_keys,
    "put": _put_key,
    "put_many": _put_keys,
    "remove": _remove_key,
    "rotate": _rotate_keys,
    "scan": _scan_keys,
}

SUBJECTS = (
    Subject("queues", _open_queues("designed"), _records, _QUEUES),
    Subject("shipped-queues", _open_queues("shipped"), _records, _QUEUES),
    Subject("replica", _Replica, _replayed, _REPLICA),
    Subject("peer", _open_peer, _peer_items, _PEER),
    Subject("sessions", _open_sessions(strict=False), _waiting, _session_operations(strict=False)),
    Subject("strict-sessions", _open_sessions(strict=True), _waiting_once, _session_operations(strict=True)),
    Subject("designed-keys", _open_keys("designed"), _keys, _KEYS),
    Subject("shipped-keys", _open_keys("shipped"), _keys, _KEYS),
)


def look(path: str) -> str | None:
    """Read a directory that a store has open, through every view: what is wrong, or None.

    "Try again" is a good answer. Damage and other errors are wrong.
    """
    disk = Disk()
    try:
        log = open_log(path, disk=disk)
    except NotALogError:
        return None  # the directory is being made
    for view in (_verified, _state, _dumped):
        try:
            wrong = view(log)
        except (DamageError, DiskError) as error:
            return f"{view.__name__[1:]}: {error}"
        except RefusedError as error:
            wrong = None if "gain" in (error.advice or "") else f"{view.__name__[1:]}: {error}"
        if wrong is not None:
            return wrong
    return None


def _verified(log: Log) -> str | None:
    found = log.verify()
    worst = [finding for finding in found.findings if finding.severity is Severity.CORRUPT]
    return f"verified: {worst}" if worst else None


def _state(log: Log) -> None:
    for _ in log.state():
        pass


def _dumped(log: Log) -> None:
    with told_when_it_goes(log.root), holding(log.disk, log.root) as held:
        for _ in log.at(held).entries():
            pass
