"""What is written is the bytes of a buffer, whatever its items are; absurd arguments are wrong usage."""

from __future__ import annotations

from array import array
from contextlib import suppress

import numpy as np
import pytest

from flintlog import RaftStore
from flintlog.core.dialect import detect
from flintlog.dialects.zmqraft.layout import Entry, index_path
from flintlog.dialects.zmqraft.store import FileLog, TokenFile
from flintlog.disk import Disk
from flintlog.errors import DamageError, FlintlogError, NotALogError, RefusedError, UsageError

WIDE = memoryview(array("I", [1, 2, 3]))
SPREAD = memoryview(b"-a-b-c-d-e-f")[1::2]
TABLE = memoryview(np.arange(6, dtype=np.uint16).reshape(2, 3))
TURNED = memoryview(np.arange(6, dtype=np.uint16).reshape(2, 3).T)
NONE = memoryview(array("I", []))
BUFFERS = {"wide": WIDE, "spread": SPREAD, "table": TABLE, "turned": TURNED, "none": NONE}
each_buffer = pytest.mark.parametrize("data", BUFFERS.values(), ids=BUFFERS)


@each_buffer
def test_a_token_file_holds_the_bytes_of_a_buffer(data, tmp_path):
    notes = TokenFile(str(tmp_path / "notes"))
    notes.append(b"ONE.", data)
    notes.append(memoryview(b"TWO."), b"behind it")
    notes.close()
    notes = TokenFile(str(tmp_path / "notes"))
    assert [notes.read(segment) for segment in notes.segments()] == [data.tobytes(), b"behind it"]
    assert notes.findings == ()
    notes.close()


@each_buffer
def test_a_peer_holds_the_bytes_of_a_buffer(data, tmp_path):
    request_id = memoryview(array("I", [7, 8, 9]))
    with RaftStore(tmp_path) as store:
        store.append([Entry(1, data, 0, request_id)])
        store.append([Entry(1, data)] * 9)
        store.append_columns(1, [data, b"x"], request_ids=[request_id, bytearray(b"request id 2")])
        store.log.append([Entry(1, b"encoded" + data.tobytes()).encode(), memoryview(array("I", [3] * 6))])
        store.install_snapshot(4, 1, data)
        store.install_snapshot(5, 1, [data, data])
    with RaftStore(tmp_path) as store:
        assert b"".join(store.read_snapshot()) == data.tobytes() * 2
        found = [entry.data for entry in store.entries(6)]
        assert found[:7] == [data.tobytes()] * 6 + [b"x"]
        assert found[7] == b"encoded" + data.tobytes()
        assert (len(found), store.find_request(request_id), store.find_request(b"request id 2")) == (
            9,
            11,
            12,
        )


ABSURD = (-1, 2**63, 2**70, 2.5, "7", None, False, b"1")


@pytest.mark.parametrize("index", ABSURD, ids=repr)
def test_an_absurd_index_is_refused_in_words(index, tmp_path):
    with RaftStore(tmp_path) as store:
        store.append([Entry(1, b"one"), Entry(1, b"two")])
        for act in (
            store.term_of,
            store.truncate,
            lambda index: store.append_at(index, [Entry(1, b"x")]),
            lambda index: store.snapshot(index, b"state"),
        ):
            with pytest.raises((UsageError, RefusedError)):
                act(index)
        for log in (store, store.log):
            with suppress(UsageError, RefusedError):
                assert list(log.entries(index)) == []
        assert [entry.data for entry in store.entries(1)] == [b"one", b"two"]


def test_an_absurd_request_id_or_term_is_wrong_usage(tmp_path):
    with RaftStore(tmp_path) as store:
        for request_id in (b"", b"short", "twelve chars", 5, None, bytes(13), memoryview(array("I", [1]))):
            with pytest.raises(UsageError, match="request id"):
                store.find_request(request_id)
        for term in ("x", 1.5, 2**53, -1):
            with pytest.raises(UsageError):
                store.set_hard_state(term=term)


def make_peer(path, *, snapshot=None):
    with RaftStore(path, capacity=8) as store:
        store.append([Entry(1, b"entry %d" % number) for number in range(20)])
        if snapshot is not None:
            store.snapshot(snapshot, b"state", prune=False)


def poke(path, offset, data):
    content = bytearray(path.read_bytes())
    content[offset : offset + len(data)] = data
    path.write_bytes(content)


@pytest.mark.parametrize("slot", range(7))
def test_a_zero_slot_in_a_closed_file_is_damage_with_a_place_when_it_is_read(slot, tmp_path):
    make_peer(tmp_path)
    poke(tmp_path / index_path(8), 24 + 4 * slot, bytes(4))
    with RaftStore(tmp_path) as store:
        for read in (
            lambda: list(store.entries(1)),
            lambda: store.term_of(8 + slot),
            lambda: store.find_request(b"request id 1"),
            lambda: list(store.record_batches(9)),
        ):
            with pytest.raises(DamageError, match=f"index {8 + slot}: its slot is zero") as raised:
                read()
            assert (raised.value.file, raised.value.offset) == (
                str(tmp_path / index_path(8)),
                24 + 4 * slot,
            )
    log = FileLog(str(tmp_path))
    with pytest.raises(DamageError, match="its slot is zero"):
        list(log.entries(1))
    log.close()


@pytest.mark.parametrize("slot", range(6))
def test_a_zero_slot_before_the_snapshots_entry_is_no_fault(slot, tmp_path):
    make_peer(tmp_path, snapshot=13)
    poke(tmp_path / index_path(8), 24 + 4 * slot, bytes(4))
    with pytest.raises(DamageError, match="its slot is zero"):
        RaftStore(tmp_path)


def test_a_directory_with_names_that_others_use_too_is_no_peer(tmp_path):
    for name in ("snap", "raft.pers", "state.pers", "log/00000/00/00/00000000000001.rlog"):
        (tmp_path / name).mkdir(parents=True)
    with pytest.raises(NotALogError):
        detect(Disk(), str(tmp_path))
    (tmp_path / "snap").rmdir()
    (tmp_path / "snap").write_bytes(b"#!/bin/sh\n")
    with pytest.raises(NotALogError):
        detect(Disk(), str(tmp_path))


def test_a_marker_that_is_not_there_is_missed_soon(tmp_path):
    """Zeros are many empty segments, and a file may be full of them."""
    make_peer(tmp_path)
    path = tmp_path / index_path(16)
    at = path.read_bytes().index(b"ITMZ")
    with path.open("r+b") as file:
        file.truncate(1 << 30)
        file.seek(at)
        file.write(bytes(4))
    with pytest.raises(FlintlogError, match="the file ends before its entries begin"):
        RaftStore(tmp_path)
