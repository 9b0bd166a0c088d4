"""Records that are longer than a frame of the operation log, as another program may have written them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.mpy6a.stores import FAR, ONCE, ROOT, SHORT, T0, crashed, opened, reopened

from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a.layout import Record, StateID
from flintlog.dialects.mpy6a.store import Operations, SessionStore
from flintlog.dialects.mpy6a.store.errors import SessionTooLongError
from flintlog.disk import Disk
from flintlog.testing import MemoryKernel

SIZE = lay.FRAME_SIZE_MAX + 1000
NAME = "30@2023111422.data"


@pytest.fixture(scope="module")
def data() -> bytes:
    return bytes(range(256)) * (SIZE // 256)


def taken_over(data: bytes, topic: int = SHORT, attempts: int = 0, **options) -> SessionStore:
    """A store over the note's files with one long session and a short one behind it."""
    disk = Disk(MemoryKernel())
    disk.make_directory(ROOT)
    records = b"".join(
        lay.encode_record(Record(T0 + 30, StateID(1, index), topic, attempts, item))
        for index, item in ((2, data), (3, b"short"))
    )
    state = lay.Descriptor(NAME, StateID(1, 1), StateID(1, 3), lay.WRITTEN, 0, len(records), T0 + 30)
    for name, content in (
        (NAME, records),
        (lay.SNAPSHOT_FILE, lay.encode_snapshot([state])),
        (lay.CHANGES_FILE, lay.encode_changes([], beside=False)),
    ):
        disk.publish(f"{ROOT}/{name}", [content], scratch=f"{ROOT}/{name}.new")
    return opened(disk, **options)


def shown(store: SessionStore) -> list[tuple[int, int]]:
    return [(len(session.data), session.attempts) for session in store.due(FAR)]


def stored_again(store: SessionStore) -> None:
    store.due(T0 + 30)[0].store(now=T0 + 30)


def stored_in_a_batch(store: SessionStore) -> None:
    store.due_batch(T0 + 30, 1).store(now=T0 + 30)


@pytest.mark.parametrize("end", [stored_again, stored_in_a_batch])
@pytest.mark.parametrize("restart", [crashed, reopened])
def test_a_long_session_that_is_stored_again_is_there_after_a_crash(data, end: Callable, restart: Callable):
    store = taken_over(data)
    end(store)
    store.put(SHORT, b"behind it", now=T0 + 31)
    again = restart(store)
    assert shown(again) == [(5, 0), (len(data), 1), (9, 0)]
    again.put(SHORT, b"later", now=FAR)
    assert [len(one.data) for one in crashed(again).due(FAR + 30)] == [5, len(data), 9, 5]


def test_a_long_session_is_set_aside(data):
    store = taken_over(data, ONCE, 1, on_exhausted=lambda record: None)
    assert store.due(FAR) == []
    store = crashed(store)
    assert [len(record.data) for record in store.exhausted()] == [len(data), 5]


def test_what_a_long_session_holds_can_be_replaced_and_not_become_longer(data):
    store = taken_over(data)
    session = store.due(T0 + 30)[0]
    with pytest.raises(SessionTooLongError):
        session.append(b"more")
    with pytest.raises(SessionTooLongError):
        session.replace(data)
    assert shown(crashed(store)) == [(len(data), 0), (5, 0)]
    session.replace(b"new")
    assert shown(crashed(store)) == [(3, 0), (5, 0)]
    store.snapshot()
    assert shown(crashed(store)) == [(3, 0), (5, 0)]


def test_what_is_put_has_room_in_every_frame(data):
    store = opened()
    with pytest.raises(SessionTooLongError):
        store.put(SHORT, data, now=T0)
    with pytest.raises(SessionTooLongError):
        store.put_many(SHORT, [b"a", data], now=T0)
    most = data[: 16 << 20]
    store.put(SHORT, most, now=T0)
    store.put_many(SHORT, [most, most], now=T0)
    assert shown(crashed(store)) == [(len(most), 0)] * 3


def test_a_follower_takes_a_long_session_as_a_file_and_as_an_operation(data):
    leader = taken_over(data)
    follower = opened(follower=True)
    follower.receive(leader.catch_up(follower.progress()))
    session = leader.due(T0 + 30)[0]
    follower.receive(leader.catch_up(follower.progress()))
    session.store(now=T0 + 30)
    (item,) = leader.catch_up(follower.progress())
    assert isinstance(item, Operations)
    follower.apply(item)
    follower = crashed(follower, follower=True)
    assert follower.last == leader.last
    follower.lead(9)
    assert shown(follower) == [(5, 0), (len(data), 1)]


def test_an_open_session_of_any_length_fits_a_checkpoint(data):
    """A strict leader has no log that would bound what it takes up."""
    leader = taken_over(data, strict=True)
    leader.due(T0 + 30)[0].replace(b"new")
    machine = leader._engine.machine
    machine.sessions[StateID(1, 2)].parts = [data]
    follower = opened(follower=True)
    follower.receive(leader.catch_up(follower.progress()))
    follower = crashed(follower, follower=True)
    follower.lead(9)
    assert shown(follower) == [(len(data), 0), (5, 0)]


def test_only_a_long_frame_that_says_so_twice_is_one():
    for frame, limit in ((lay.FRAME_SIZE_MAX + 4096, 1024), (1 << 41, (1 << 41) - 20)):
        with pytest.raises(lay.MalformedError):
            lay.read_log_header(lay.encode_log_header(frame, limit))
    longer = lay.operations_frame(SIZE)
    assert lay.read_log_header(lay.encode_log_header(*longer)) == longer == (SIZE, SIZE - 20)
    assert lay.operations_frame(5) == lay.OPERATIONS_FRAME
