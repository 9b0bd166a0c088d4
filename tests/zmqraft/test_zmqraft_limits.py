"""The edges of the format: the highest index, paths of 56 bits, dirty slots, snapshots in pieces, bytes not read."""

from __future__ import annotations

import struct
import threading

import numpy as np
import pytest

from flintlog import RaftStore
from flintlog.dialects.zmqraft import batch
from flintlog.dialects.zmqraft.layout import (
    NUMBER_MAX,
    Entry,
    file_capacity,
    index_path,
    log_capacity,
    parse_index_path,
)
from flintlog.dialects.zmqraft.store import IndexFile
from flintlog.disk import Disk
from flintlog.errors import RefusedError, UsageError
from flintlog.testing import MemoryKernel


@pytest.mark.parametrize(
    ("index", "path"),
    [
        (1, "log/00000/00/00/00000000000001.rlog"),
        (137438953218, "log/00001/ff/ff/00001fffffff02.rlog"),
        (0x2000000000, "log/00002/00/00/00002000000000.rlog"),
        (NUMBER_MAX, "log/1ffff/ff/ff/1fffffffffffff.rlog"),
    ],
)
def test_an_index_has_one_path(index, path):
    assert (index_path(index), parse_index_path(path)) == (path, index)


@pytest.mark.parametrize(
    "path",
    [
        "log/00000/00/01/00000000000001.rlog",
        "log/00000/00/00/0000000000000A.rlog",
        "log/00000/00/00/0000000000001.rlog",
        "log/00000/00/00/00000000000001.rlog.bak",
        "log/../00000/00/00/00000000000001.rlog",
        "00000000000001.rlog",
    ],
)
def test_another_name_is_none(path):
    assert parse_index_path(path) is None


@pytest.mark.parametrize(
    ("capacity", "first", "slots", "later"), [(16384, 1, 16383, 16384), (64, 61, 3, 4), (16, 15, 1, 1)]
)
def test_a_file_ends_before_a_multiple_and_the_first_one_decides(capacity, first, slots, later):
    assert (file_capacity(capacity, first), log_capacity(slots)) == (slots, later)


def test_the_log_ends_with_the_highest_index_there_is(tmp_path):
    with RaftStore(tmp_path, capacity=4) as store:
        store.install_snapshot(NUMBER_MAX - 5, 1, b"")
        store.append([Entry(NUMBER_MAX, b"%d" % number) for number in range(3)])
        with pytest.raises(RefusedError, match="2\\^53 - 1"):
            store.append([Entry(NUMBER_MAX, b"x")] * 3)
        with pytest.raises(RefusedError, match="2\\^53 - 1"):
            store.append_at(store.last_index, [Entry(NUMBER_MAX, b"x")] * 4)
        store.append([Entry(NUMBER_MAX, b"3"), Entry(NUMBER_MAX, b"4")])
        assert (store.last_index, store.last_term) == (NUMBER_MAX, NUMBER_MAX)
    with RaftStore(tmp_path) as store:
        assert [entry.data for entry in store.entries(store.first_index)] == [b"0", b"1", b"2", b"3", b"4"]
        with pytest.raises(RefusedError, match="2\\^53 - 1"):
            store.append([Entry(NUMBER_MAX, b"x")])
        store.snapshot(NUMBER_MAX, b"the end")
        store.truncate(NUMBER_MAX + 1)
    with RaftStore(tmp_path) as store:
        assert (store.snapshot_index, store.last_index) == (NUMBER_MAX, NUMBER_MAX)


def test_slots_of_an_earlier_life_are_zeroed_up_to_the_first_free_one(tmp_path):
    dirty = [0x24, 0x48, 0x6C, 0x90, 0xB4, 0, 0xFC, 0x120, 0x144, 0, 0x18D, 0x1B2, 0, 0, 0]
    with RaftStore(tmp_path, capacity=16) as store:
        store.append([Entry(1, bytes(16))] * 5)
    path = tmp_path / index_path(1)
    content = bytearray(path.read_bytes())
    content[24 : 24 + 60] = struct.pack("<15I", *dirty)
    path.write_bytes(content)
    file = IndexFile.open(Disk(), str(path), 1)
    assert file.count == 5
    assert file.append(batch.of_entries([Entry(1, bytes(11))])) == 1
    assert slots(path) == [*dirty[:5], 0xD3, 0, 0, 0, 0, 0x18D, 0x1B2, 0, 0, 0]
    assert file.append(batch.of_entries([Entry(1, b"12")] * 2)) == 2
    assert slots(path) == [*dirty[:5], 0xD3, 0xE9, 0xFF, 0, 0, 0x18D, 0x1B2, 0, 0, 0]
    file.close()


def slots(path):
    return list(struct.unpack("<15I", path.read_bytes()[24:84]))


@pytest.mark.parametrize("declared", [True, False])
def test_a_snapshot_with_a_hole_is_not_installed(declared, tmp_path):
    with RaftStore(tmp_path) as store:
        received = store.receive_snapshot(5, 1, 12 if declared else None)
        received.write(b"last", 8)
        received.write(b"first", 0)
        with pytest.raises(RefusedError, match="bytes 5 to 7 are missing"):
            store.install_received(received)
        received.write(b"t and l", 4)  # over what is there, and the hole
        store.install_received(received)
        assert b"".join(store.read_snapshot()) == b"first and last"[:4] + b"t and l" + b"t"


def test_a_snapshot_is_read_as_a_stream_of_pieces(tmp_path):
    data = np.random.default_rng(3).bytes(17 << 20)
    with RaftStore(tmp_path) as store:
        store.append([Entry(1, b"x")])
        store.snapshot(1, (data[at : at + 1_000_000] for at in range(0, len(data), 1_000_000)))
        pieces = list(store.read_snapshot())
    assert len(pieces) == 3
    assert b"".join(pieces) == data


def test_a_stream_that_has_begun_shows_one_snapshot_whatever_is_installed_meanwhile(tmp_path):
    with RaftStore(tmp_path) as store:
        store.append([Entry(1, b"x")] * 60)
        store.snapshot(1, b"\x01" * 1000)
        stop = threading.Event()
        wrong = []

        def read():
            while not stop.is_set():
                data = b"".join(store.read_snapshot())
                if set(data) != {data[0]} or len(data) != 1000 * data[0]:
                    wrong.append(data)

        reader = threading.Thread(target=read)
        reader.start()
        for index in range(2, 60):
            store.snapshot(index, bytes([index]) * 1000 * index)
        stop.set()
        reader.join()
    assert wrong == []


class CountingKernel(MemoryKernel):
    """Counts the bytes that are copied out of files; a mapping copies none."""

    copied = 0

    def pread(self, handle, size, offset):
        data = super().pread(handle, size, offset)
        self.copied += len(data)
        return data

    def map(self, handle, size):
        copied = self.copied
        view = super().map(handle, size)
        self.copied = copied
        return view


def test_opening_and_reading_closed_files_copies_neither_entries_nor_request_ids():
    kernel = CountingKernel()
    with RaftStore("/peer", capacity=16, disk=Disk(kernel)) as store:
        sizes = [10_000] * 31 + [10] * 4  # the last four stand in the last file, which may be copied
        store.append([Entry(1, bytes(size), 0, b"request %04d" % at) for at, size in enumerate(sizes)])
    kernel.copied = 0
    with RaftStore("/peer", disk=Disk(kernel)) as store:
        assert kernel.copied < 5_000
        kernel.copied = 0
        for view, entries in store.columns(3, 31):
            assert len(view) > int(entries.length.sum())
        raw = list(store.log.raw_entries(5, 12))
        assert kernel.copied == 0
    assert [len(one) for one in raw] == [10_020] * 8


def test_what_is_no_index_or_capacity_is_wrong_usage(tmp_path):
    with RaftStore(tmp_path) as store:
        for index in (-1, NUMBER_MAX + 1, 1.5, True):
            with pytest.raises(UsageError, match="index"):
                store.install_snapshot(index, 1, b"")
            with pytest.raises(UsageError, match="term"):
                store.install_snapshot(5, index, b"")
        for size in (-1, NUMBER_MAX + 1, "8"):
            with pytest.raises(UsageError, match="size"):
                store.receive_snapshot(5, 1, size)
        for data in ("text", [b"bytes", "text"], [5]):
            with pytest.raises(UsageError, match="not bytes"):
                store.install_snapshot(5, 1, data)
        store.append([Entry(1, b"goes on")])
        assert store.last_index == 1
    assert not list(tmp_path.glob("snap.tmp*"))
    for capacity in (0, 3, -4, 1 << 21):
        with pytest.raises(UsageError, match="power of two"):
            RaftStore(tmp_path / "new", capacity=capacity)
