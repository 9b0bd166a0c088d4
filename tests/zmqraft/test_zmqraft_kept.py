"""Opening takes the last unacknowledged write and nothing more, and keeps a copy of what it takes."""

from __future__ import annotations

import struct

import msgpack
import pytest

from flintlog import RaftStore
from flintlog.core.log import Log
from flintlog.dialects.zmqraft.dialect import DIALECT
from flintlog.dialects.zmqraft.layout import Entry, index_path
from flintlog.dialects.zmqraft.store import TokenFile
from flintlog.disk import Disk
from flintlog.errors import DamageError


def kept(directory):
    return [path.read_bytes() for path in sorted((directory / "kept" / "opened").glob("*"))]


def verdict(directory):
    return Log(DIALECT, Disk(), str(directory)).verify().verdict


def refused(directory, code, file, offset):
    before = (directory / file).read_bytes()
    with pytest.raises(DamageError) as raised:
        RaftStore(directory)
    found = (raised.value.code, raised.value.file, raised.value.offset)
    assert found == (code, str(directory / file), offset)
    assert (directory / file).read_bytes() == before
    assert verdict(directory) == "corrupt"


def with_terms(directory, count):
    """A peer with one record of raft.pers for each term; returns where each record begins."""
    begins = []
    with RaftStore(directory) as store:
        for term in range(1, count + 1):
            begins.append((directory / "raft.pers").stat().st_size)
            store.set_hard_state(term=term, vote="me")
    return begins


def test_what_is_cut_off_a_state_file_lies_in_kept(tmp_path):
    with_terms(tmp_path, 3)
    torn = b"\x82" + msgpack.packb("currentTerm")
    with (tmp_path / "raft.pers").open("ab") as file:
        file.write(torn)
    assert verdict(tmp_path) == "repairable"
    with RaftStore(tmp_path) as store:
        assert store.hard_state.term == 3
    assert kept(tmp_path) == [torn]


def test_a_record_that_swallows_those_behind_it_is_damage(tmp_path):
    begins = with_terms(tmp_path, 9)
    path = tmp_path / "raft.pers"
    content = bytearray(path.read_bytes())
    content[begins[4]] = 0xDF  # a map of a million entries: what follows is not enough
    path.write_bytes(content)
    refused(tmp_path, "state-format", "raft.pers", begins[4])


@pytest.mark.parametrize(("count", "opens"), [(1024, True), (1025, False)])
def test_more_zeros_than_one_record_leaves_are_damage(count, opens, tmp_path):
    with_terms(tmp_path, 2)
    path = tmp_path / "raft.pers"
    end = path.stat().st_size
    path.write_bytes(path.read_bytes() + bytes(count))
    if opens:
        RaftStore(tmp_path).close()
        assert path.stat().st_size == end
    else:
        refused(tmp_path, "state-format", "raft.pers", end)


def test_an_emptied_table_is_kept_before_its_file_goes(tmp_path):
    """Its entries are still in it, whatever became of the slots."""
    with RaftStore(tmp_path, capacity=4) as store:
        store.append([Entry(1, b"entry %d" % number) for number in range(14)])
    path = tmp_path / index_path(12)
    content = path.read_bytes()
    path.write_bytes(content[:24] + bytes(16) + content[40:])
    with RaftStore(tmp_path) as store:
        assert store.last_index == 11
    assert [b"entry 13" in copy for copy in kept(tmp_path)] == [True]


def test_a_file_whose_first_slot_alone_is_free_is_not_removed(tmp_path):
    with RaftStore(tmp_path, capacity=4) as store:
        store.append([Entry(1, b"entry %d" % number) for number in range(14)])
    for first, at in ((8, 3), (12, 0)):  # not full, and behind it a file with slots that are used
        path = tmp_path / index_path(first)
        content = bytearray(path.read_bytes())
        content[24 + 4 * at : 28 + 4 * at] = bytes(4)
        path.write_bytes(content)
    refused(tmp_path, "log-gap", index_path(12), 16)


def test_a_file_below_the_snapshot_that_reaches_into_the_next_is_no_leftover(tmp_path):
    """It says of the indexes behind the snapshot something else, and must not vanish."""
    with RaftStore(tmp_path / "wide", capacity=16) as store:
        store.append([Entry(1, b"wide %d" % number) for number in range(15)])
    with RaftStore(tmp_path / "peer", capacity=4) as store:
        store.append([Entry(1, b"entry %d" % number) for number in range(14)])
        store.snapshot(9, b"state", prune=False)
    (tmp_path / "peer" / index_path(1)).write_bytes((tmp_path / "wide" / index_path(1)).read_bytes())
    refused(tmp_path / "peer", "log-overlap", index_path(4), 16)


def test_a_segment_that_lost_its_first_byte_does_not_take_others_with_it(tmp_path):
    path = tmp_path / "notes"
    notes = TokenFile(str(path))
    places = [notes.append(b"N%03d" % number, b"note %d" % number) for number in range(4)]
    notes.close()
    whole = path.read_bytes()
    at = places[1].head
    path.write_bytes(whole[:at] + b"\0" + whole[at + 1 :])
    with pytest.raises(DamageError) as raised:
        TokenFile(str(path))
    assert (raised.value.code, raised.value.offset) == ("segment-token", at)
    at = places[3].head
    path.write_bytes(whole[:at] + b"\0" + whole[at + 1 :])
    notes = TokenFile(str(path))
    assert [notes.read(segment) for segment in notes.segments()] == [b"note %d" % at for at in range(3)]
    notes.close()
    assert kept(tmp_path) == [b"\0" + whole[at + 1 :]]
    assert struct.unpack("<I", kept(tmp_path)[0][4:8]) == (6,)
