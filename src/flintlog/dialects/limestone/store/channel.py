"""A channel and its sessions: the log of one thread, written without a lock that others wait for."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from flintlog.columns.payloads import Payloads
from flintlog.core import threads
from flintlog.dialects.limestone import batch
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone.layout import Entry, Version
from flintlog.disk import DEFERRED, File
from flintlog.errors import RefusedError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from flintlog.dialects.limestone.store.datastore import Datastore

FLUSH_BYTES = 1 << 20  # of a session that are held in memory
_ROWS = 1 << 16  # of one piece of columns


class Session:
    """Entries of one epoch on one channel. They become durable together, when the epoch does."""

    def __init__(self, channel: Channel, epoch: int) -> None:
        self._channel = channel
        self.epoch = epoch
        # Behind the begin marker, which is written when the session begins: what is encoded, then what is not yet.
        self._parts: list[bytes | bytearray] = []
        self._rows: list[batch.Row] = []
        self._size = 0

    def put(
        self,
        storage: int,
        key: bytes,
        value: bytes,
        version: Version | None = None,
        *,
        blobs: Sequence[int] = (),
    ) -> None:
        """Give a key a value. Without a version it gets the next one of this epoch."""
        if version is None and not blobs and type(value) is bytes and self._hold(storage, key, value):
            return
        if blobs:
            self._shipped_only("blobs")
        self._add(
            lay.put(storage, _bytes("key", key), _bytes("value", value), self._version(version), tuple(blobs))
        )

    def remove(self, storage: int, key: bytes, version: Version | None = None) -> None:
        """Take a key away."""
        if version is None and self._hold(storage, key, None):
            return
        self._add(lay.remove(storage, _bytes("key", key), self._version(version)))

    def put_many(
        self,
        storage: int,
        keys: Sequence[bytes] | pa.Array,
        values: Sequence[bytes] | pa.Array,
        version: Version | None = None,
    ) -> None:
        """Give many keys values: lists, or Arrow columns. Versions count up from the one given."""
        names, contents = _payloads("key", keys), _payloads("value", values)
        if len(names) != len(contents):
            raise UsageError(f"{len(names)} keys cannot have {len(contents)} values")
        storage = lay.check_number("storage id", storage)
        major, minor = self._version(version, len(names))
        lay.check_number("write version", minor + max(len(names), 1) - 1)
        for begin in range(0, len(names), _ROWS):
            part = slice(begin, begin + _ROWS)
            count = len(names[part])
            minors = np.arange(count, dtype=np.uint64) + np.uint64(minor + begin)
            self._append(batch.encode_puts(storage, names[part], contents[part], major, minors))

    def clear_storage(self, storage: int, version: Version | None = None) -> None:
        """Take all keys of a storage away that are older."""
        self._of_storage(lay.CLEAR_STORAGE, storage, version)

    def add_storage(self, storage: int, version: Version | None = None) -> None:
        """Say that a storage begins; it changes nothing in the state."""
        self._of_storage(lay.ADD_STORAGE, storage, version)

    def remove_storage(self, storage: int, version: Version | None = None) -> None:
        """Take a storage away with all its keys that are older."""
        self._of_storage(lay.REMOVE_STORAGE, storage, version)

    def _of_storage(self, kind: int, storage: int, version: Version | None) -> None:
        self._shipped_only(lay.OPERATIONS[kind])
        self._add(Entry(kind, storage, version=self._version(version)))

    def _shipped_only(self, what: str) -> None:
        if self._channel.store.edition != "shipped":
            raise RefusedError(
                f"the designed edition has no {what}", advice="Make the directory with edition='shipped'"
            )

    def _version(self, version: Version | None, count: int = 1) -> Version:
        if version is None:
            return self._channel.store.next_versions(self.epoch, count)
        if not isinstance(version, tuple) or len(version) != 2:
            raise UsageError(f"{version!r} is not a write version", advice="It is a pair: (major, minor)")
        major, minor = version
        return lay.check_number("write version", major), lay.check_number("write version", minor)

    def _hold(self, storage: int, key: bytes, value: bytes | None) -> bool:
        """Keep a change as it was given, to encode many at once; False where it has to be looked at, or is large."""
        channel = self._channel
        if type(key) is not bytes or type(storage) is not int or not 0 <= storage <= lay.NUMBER_MAX:
            return False
        size = len(key) + (lay.REMOVE_SIZE if value is None else lay.PUT_SIZE + len(value))
        if size >= channel.store.flush_bytes:
            return False
        DEFERRED.poll()
        channel.check(self)
        self._rows.append((storage, key, value, channel.store.next_minor()))
        self._grown(size)
        return True

    def _add(self, entry: Entry) -> None:
        self._append(entry.encode())

    def _append(self, data: bytes | bytearray) -> None:
        DEFERRED.poll()
        self._channel.check(self)
        self._encode_rows()
        self._parts.append(data)
        self._grown(len(data))

    def _grown(self, size: int) -> None:
        self._size += size
        if self._size >= self._channel.store.flush_bytes:
            self._channel.flush(self.take())

    def _encode_rows(self) -> None:
        if self._rows:
            rows, self._rows = self._rows, []
            self._parts.append(batch.encode_rows(rows, self.epoch))

    def take(self) -> bytes:
        """What is not yet written."""
        self._encode_rows()
        data = b"".join(self._parts)
        self._parts, self._size = [], 0
        return data


def _bytes(word: str, data: object) -> bytes:
    if isinstance(data, bytes):
        return data
    if not isinstance(data, bytearray | memoryview):
        raise UsageError(f"a {word} is {type(data).__name__}, not bytes", advice="Encode it first")
    return bytes(data)


def _payloads(word: str, data: Sequence[bytes] | pa.Array) -> Payloads:
    try:
        return Payloads.of(data)
    except TypeError:
        raise UsageError(f"a {word} is not bytes", advice="Encode it first") from None


class Channel:
    """The log of one thread. One session at a time."""

    def __init__(self, store: Datastore, number: int) -> None:
        self.store = store
        self.number = number
        self._session: Session | None = None
        self._using = threads.lock()  # held while the file is written: the store is not closed meanwhile
        self._file: File | None = None
        self._begin = 0  # where the session began in the file
        self._end = 0
        self._new = False  # the file's name is not yet durable
        self.rotated: str | None = (
            None  # the name that the open file has got; the next session begins a new one
        )
        self.epoch: int | None = None  # of the open session; guarded by the store's lock

    @property
    def name(self) -> str:
        """The name of its log."""
        return lay.active_name(self.number)

    @property
    def has_entries(self) -> bool:
        """Does its open session hold entries?"""
        session = self._session
        return session is not None and (
            bool(session._rows or session._parts) or self._end > self._begin + lay.MARKER_SIZE
        )

    @contextmanager
    def session(self) -> Iterator[Session]:
        """A session in the present epoch; it counts when the block ends, and never was when the block raises.

        Inside the block an interrupt waits for the next entry, or for a second one.
        """
        with DEFERRED.patiently():
            session = self.begin()
            try:
                yield session
            except BaseException:
                self.abort()
                raise
            self.end()

    def begin(self) -> Session:
        """Open a session. It keeps its epoch from becoming durable until it ends."""
        if self._session is not None:
            raise RefusedError(
                "this channel has an open session", advice="End it first; use a channel for each thread"
            )
        with DEFERRED:
            epoch = self.store.enter(self)
            self.flush(lay.encode_begin(epoch))  # not synced: with nothing behind it, it says nothing
            self._session = Session(self, epoch)
        return self._session

    def end(self) -> None:
        """Write the session's entries; on return they are on the device, and durable as soon as their epoch is."""
        with DEFERRED:
            self._end_session(self._open())

    def _end_session(self, session: Session) -> None:
        store = self.store
        store.failstop.check()
        with self._using, store.guard():
            tail = session.take()
            if store.edition == "shipped":
                tail += lay.encode_end(session.epoch)
            self._write(tail)
            assert self._file is not None
            self._file.sync()
            if self._new:
                store.disk.sync_directory(store.path)
                self._new = False
        self._session = None
        store.leave(self, session.epoch)

    def abort(self) -> None:
        """Forget the session. What of it is in the file is marked, not cut: a reader may have mapped it."""
        with DEFERRED:
            self._open()
            self._session = None
            try:
                if not self.store.failstop.failed:
                    self._mark_aborted()
            finally:
                self.store.leave(self, None)

    def _mark_aborted(self) -> None:
        with self._using:
            if self._file is None:
                return  # the store was closed: nothing of this session is durable
            with self.store.guard():
                self._file.pwrite(bytes([lay.INVALIDATED]), self._begin)
                if self._end > self._begin + lay.MARKER_SIZE:
                    self._file.sync()  # its epoch may become durable now, and then these bytes would count

    def check(self, session: Session) -> None:
        """Raise unless this session is the open one of the channel."""
        self.store.failstop.check()
        if session is not self._session:
            raise RefusedError("this session has ended", advice="Begin another one")

    def flush(self, data: bytes) -> None:
        """Write a part of a session."""
        with DEFERRED, self._using, self.store.guard():
            self._write(data)

    def _open(self) -> Session:
        if self._session is None:
            raise RefusedError("this channel has no open session", advice="Begin one first")
        return self._session

    def _write(self, data: bytes) -> None:
        assert self._file is not None
        self._file.pwrite(data, self._end)
        self._end += len(data)

    def entered(self, epoch: int) -> None:
        """A session begins, in the file that has the log's name now: a rotation does not come between. The store's lock
        is held."""
        if self.rotated is not None:
            self.close()
            self.rotated = None
        if self._file is None:
            with self._using, self.store.guard():
                self._open_file()
        self._begin = self._end
        self.epoch = epoch

    def _open_file(self) -> None:
        path = posixpath.join(self.store.path, self.name)
        self._new = self.store.disk.stat(path) is None
        self._file = self.store.disk.open(path, "create")
        self._end = self._file.size()

    def rotate(self, name: str) -> None:
        """The log has got another name. The store's lock is held."""
        if self._file is not None and self.rotated is None:
            self.rotated = name

    def close(self) -> None:
        """Close the file, when no write is on its way."""
        with self._using:
            if self._file is not None:
                self._file.close()
                self._file = None
