"""A token file alone: what is appended is there, what a crash tears is cut, what is damaged is refused."""

from __future__ import annotations

import mmap
import struct

import pytest
from tests.golden_cases import materialise, snapshot_of
from tests.zmqraft.recorded import LOGS

from flintlog import RaftStore
from flintlog.dialects.zmqraft.layout import Entry, index_path, segment
from flintlog.dialects.zmqraft.store import TokenFile
from flintlog.errors import ClosedError, DamageError, DiskError, RefusedError, UsageError

DATAS = [b"", b"1", b"22", b"333", b"4444", b"55555" * 300]


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tokens"


def shown(file):
    return [(found.token, file.read(found)) for found in file.segments()]


def content_of(path):
    file = TokenFile(str(path))
    found = shown(file)
    file.close()
    return found


def test_segments_come_back_in_order_and_begin_at_multiples_of_four(path):
    file = TokenFile(str(path))
    for number, data in enumerate(DATAS):
        added = file.append(b"TOK%d" % number, data)
        assert added.head % 4 == 0
        assert file.read(added) == data
    expected = [(b"TOK%d" % number, data) for number, data in enumerate(DATAS)]
    assert shown(file) == expected
    assert (file.find(b"TOK3").length, file.find(b"NONE")) == (3, None)
    file.close()
    assert path.read_bytes() == b"".join(segment(token, data) for token, data in expected)
    again = TokenFile(str(path))
    assert (shown(again), again.findings) == (expected, ())
    again.append(b"LAST", b"more")
    again.close()
    assert content_of(path) == [*expected, (b"LAST", b"more")]


@pytest.mark.parametrize(
    "tail",
    [
        bytes(1),
        bytes(4),
        bytes(8),
        bytes(4096),
        segment(b"\0NE_", b"data whose commit did not arrive"),
        b"\0NE_\x05\0",
        bytes(8) + b"data without its length",
        bytes(4) + b"\xff\xff\xff\xff",
    ],
    ids=[
        "one-byte",
        "half-a-head",
        "head",
        "page",
        "all-but-one-byte",
        "half-a-length",
        "only-data",
        "huge-length",
    ],
)
def test_what_a_crash_leaves_of_the_last_segment_is_cut_and_reported(path, tail):
    path.write_bytes(segment(b"KEPT", b"12345") + tail)
    file = TokenFile(str(path))
    (finding,) = file.findings
    assert (finding.code, finding.file, finding.offset) == ("torn-segment", "tokens", 16)
    assert path.read_bytes() == segment(b"KEPT", b"12345")
    file.append(b"NEXT", b"6")
    file.close()
    assert content_of(path) == [(b"KEPT", b"12345"), (b"NEXT", b"6")]


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        (b"TOK", "inside the head of a segment"),
        (b"TOKN\x05\x00\x00", "inside the head of a segment"),
        (b"TOKN\x05\x00\x00\x00data", "inside the segment"),
        (b"TOKN\xff\xff\xff\xff", "inside the segment"),
    ],
)
def test_a_token_with_less_behind_it_than_it_says_is_damage(path, tail, message):
    path.write_bytes(segment(b"KEPT", b"12345") + tail)
    before = path.read_bytes()
    with pytest.raises(DamageError, match=message) as caught:
        TokenFile(str(path))
    assert (caught.value.code, caught.value.offset) == ("segment-short", 16)
    assert path.read_bytes() == before


BEHIND = segment(b"NEXT", b"whole") + segment(b"\1\2\3\4", b"and this")


@pytest.mark.parametrize(
    "uncommitted",
    [
        bytes(8),
        bytes(24),
        segment(bytes(4), b"slots"),
        segment(bytes(4), bytes(12)),
        segment(b"\0NE_", b""),
        segment(b"\0NE_", b"data"),
    ],
    ids=["empty", "empties", "data", "zeros", "token", "token-and-data"],
)
@pytest.mark.parametrize(
    "behind",
    [
        BEHIND,
        BEHIND[16:],
        BEHIND + segment(b"\0NEW", b"torn")[:-2],
        segment(b"NEXT", b"whole") + b"TOKN\x05\0\0\0d",
    ],
    ids=["segments", "token-of-no-characters", "and-a-torn-one", "and-a-short-one"],
)
def test_what_stands_before_other_segments_is_not_torn_and_nothing_is_cut(path, uncommitted, behind):
    path.write_bytes(segment(b"KEPT", b"12345") + uncommitted + behind)
    before = snapshot_of(path.parent)
    with pytest.raises(DamageError, match="stands before others") as caught:
        TokenFile(str(path))
    assert (caught.value.code, caught.value.file, caught.value.offset) == ("segment-token", str(path), 16)
    assert caught.value.advice.startswith("Nothing was changed")
    assert snapshot_of(path.parent) == before


@pytest.mark.parametrize("entries", [1, 3, 4, 5])
def test_an_index_file_that_was_closed_early_is_refused_without_its_marker(entries, tmp_path):
    size = 20 + 20
    with RaftStore(tmp_path, capacity=8, data_size_max=size * entries + 1) as store:
        store.append([Entry(1, bytes(20))] * (entries + 1))
    before = snapshot_of(tmp_path)
    with pytest.raises(DamageError, match="stands before others") as caught:
        TokenFile(str(tmp_path / index_path(1)))
    assert (caught.value.offset, "marker" in caught.value.advice) == (24 + 4 * entries, True)
    assert snapshot_of(tmp_path) == before
    file = TokenFile(str(tmp_path / index_path(1)), marker=b"ITMZ")
    assert [found.token for found in file.segments()] == [b"RLOG", bytes(4), b"META", b"ITMZ"]
    assert b"".join(file.content()) == Entry(1, bytes(20)).encode() * entries
    file.close()


def test_a_snapshot_whose_length_counts_its_head_is_read_as_the_store_reads_it(tmp_path):
    with RaftStore(tmp_path) as store:
        store.install_snapshot(12, 3, b"the state")
    snap = tmp_path / "snap"
    snap.write_bytes(b"SNAP" + struct.pack("<I", 36) + snap.read_bytes()[8:])
    before = snapshot_of(tmp_path)
    file = TokenFile(str(snap), marker=b"DATA")
    assert [found.token for found in file.segments()] == [b"SNAP", b"META", b"DATA"]
    assert struct.unpack("<IQQQ", file.read(file.find(b"SNAP"))) == (1, 12, 3, 9)
    assert b"".join(file.content()) == b"the state"
    file.close()
    with pytest.raises(RefusedError, match="stands content"):
        TokenFile(str(snap))
    assert snapshot_of(tmp_path) == before
    with RaftStore(tmp_path) as store:
        assert b"".join(store.read_snapshot()) == b"the state"


def test_a_segment_of_ones_own_with_that_token_and_length_is_none_of_a_snapshot(path):
    file = TokenFile(str(path))
    file.append(b"SNAP", bytes(range(36)))
    file.append(b"NEXT", b"6")
    file.close()
    assert content_of(path) == [(b"SNAP", bytes(range(36))), (b"NEXT", b"6")]


def test_the_padding_of_the_last_segment_may_be_missing(path):
    path.write_bytes(segment(b"KEPT", b"12345")[:-3])
    file = TokenFile(str(path))
    assert file.findings == ()
    file.append(b"NEXT", b"6")
    file.close()
    assert path.read_bytes() == segment(b"KEPT", b"12345") + segment(b"NEXT", b"6")


@pytest.mark.parametrize("token", [b"", b"ABC", b"ABCDE", bytes(4), b"\0BCD"])
def test_what_is_no_token_is_refused_and_nothing_is_written(path, token):
    file = TokenFile(str(path))
    with pytest.raises(UsageError):
        file.append(token, b"data")
    with pytest.raises(UsageError, match="not bytes"):
        file.append(b"TEXT", "data")
    file.append(b"GOOD")
    file.close()
    assert content_of(path) == [(b"GOOD", b"")]


@pytest.mark.parametrize("case", LOGS)
def test_the_head_of_every_golden_file_is_read_and_its_content_follows(case, tmp_path):
    peer = materialise(case, tmp_path, dialect="zmqraft")
    before = snapshot_of(peer)
    files = [(path, b"ITMZ", b"RLOG") for path in peer.rglob("*.rlog")] + [(peer / "snap", b"DATA", b"SNAP")]
    for path, marker, first in files:
        file = TokenFile(str(path), marker=marker)
        tokens = [found.token for found in file.segments()]
        assert tokens == [first, b"META", marker]
        content = b"".join(file.content())
        assert path.read_bytes().endswith(marker + bytes(4) + content)
        with pytest.raises(RefusedError, match="to be read"):
            file.append(b"MORE")
        file.close()
    assert snapshot_of(peer) == before


def test_content_is_never_taken_for_a_torn_segment(tmp_path):
    with RaftStore(tmp_path) as store:
        store.append([Entry(1, b"an entry without a request id begins with zeros")])
    before = snapshot_of(tmp_path)
    for name in ("snap", index_path(1)):
        with pytest.raises(RefusedError, match="stands content"):
            TokenFile(str(tmp_path / name))
    assert snapshot_of(tmp_path) == before
    file = TokenFile(str(tmp_path / "own"))
    with pytest.raises(RefusedError, match="stands content"):
        file.append(b"DATA", b"x")
    file.close()


def test_a_file_without_its_marker_is_damage_and_a_missing_one_is_not_made(path):
    path.write_bytes(segment(b"SNAP", bytes(28)) + b"DATA")
    with pytest.raises(DamageError, match="before its content begins"):
        TokenFile(str(path), marker=b"DATA")
    path.unlink()
    with pytest.raises(DiskError):
        TokenFile(str(path), marker=b"DATA")
    assert not path.exists()


def test_a_closed_file_takes_nothing(path):
    file = TokenFile(str(path))
    file.close()
    with pytest.raises(ClosedError):
        file.append(b"LATE", b"")


def test_a_segment_longer_than_its_field_can_say_is_refused(path):
    no_reserve = 0x4000  # the pages of this buffer are never touched
    pages = mmap.mmap(-1, 2**32, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | no_reserve)
    file = TokenFile(str(path))
    with pytest.raises(UsageError, match=str(struct.unpack("<I", b"\xff" * 4)[0])):
        file.append(b"LONG", memoryview(pages))
    file.close()
    assert path.read_bytes() == b""
