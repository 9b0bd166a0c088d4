"""Entries in pieces of any size, of all dialects: the same rows as from whole files, and damage as it is asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from pyarrow.fs import LocalFileSystem
from tests.every_directory import every_directory

from flintlog.core.dialect import NO_PAYLOAD, EntryQuery, detect
from flintlog.core.entries import plan_entries, read_entries
from flintlog.core.follow import Limits, beginning
from flintlog.core.log import Log, open_log
from flintlog.dialects.limestone.store import Datastore
from flintlog.dialects.mpy6a.store import SessionStore, Topic
from flintlog.dialects.taskflux.entries import COMMIT_BYTES_MAX
from flintlog.dialects.taskflux.store import QueueStore
from flintlog.dialects.zmqraft.store import RaftStore
from flintlog.disk import Disk
from flintlog.disk.remote import RemoteKernel
from flintlog.errors import DamageError, FlintlogError, NotALogError, UnsupportedError

pytestmark = pytest.mark.usefixtures("still")

DISK = Disk()
WHOLE = EntryQuery(split_bytes=1 << 40)


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    return every_directory(tmp_path_factory.mktemp("golden"))


def read(path, query, pieces=None):
    found = detect(DISK, path)
    splits = plan_entries(Log(found, DISK, path), query)
    if pieces is not None:
        pieces.append(len(splits))
    return [
        row
        for split in splits
        for batch in read_entries(Log(found, DISK, path), split, query)
        for row in batch.to_pylist()
    ]


def attempt(path, query, pieces=None):
    """The rows, or what the error says where."""
    try:
        return read(path, query, pieces)
    except FlintlogError as error:
        return error.code, error.place


@pytest.mark.parametrize("split_bytes", [150, 1000])
def test_any_size_of_pieces_gives_the_rows_of_whole_files(directories, split_bytes):
    whole, cut, checked = [], [], 0
    for name, path in directories.items():
        expected = attempt(path, WHOLE, whole)
        found = attempt(path, replace(WHOLE, split_bytes=split_bytes), cut)
        if isinstance(expected, list):
            assert found == expected, name
            checked += 1
        else:
            assert found[0] == expected[0], name
    assert checked > 150
    assert sum(cut) > sum(whole)


# A large file of each dialect

NUMBERS = range(4000)
PAYLOADS = [b"%07d" % number + bytes(number % 301) for number in NUMBERS]


def queues(root):
    with QueueStore(root, soft_limit=1 << 19, hard_limit=1 << 19, snapshot_threshold=1000) as store:
        store.queue().add_many(PAYLOADS)
        segment = min((root / "data/log").iterdir()).read_bytes()
        store.queue().add_many([segment[8:1000]] * 900)  # records inside a payload


def peer(root):
    with RaftStore(root) as store:
        store.append_columns(np.arange(4000) // 1000 + 1, PAYLOADS)


def sessions(root):
    with SessionStore(root, topics=(Topic(1, 30),)) as store:
        store.put_many(1, PAYLOADS, now=1_700_000_000)


def keys(root):
    with Datastore(root) as store:
        channel = store.channel()
        for begin in range(0, 4000, 500):
            with channel.session() as session:
                session.put_many(
                    1, [b"%d" % at for at in NUMBERS[begin : begin + 500]], PAYLOADS[begin : begin + 500]
                )
            store.switch_epoch()


@pytest.mark.parametrize("make", [queues, peer, sessions, keys])
def test_a_large_file_is_cut_evenly_and_gives_the_same_rows(make, tmp_path):
    make(tmp_path)
    path = str(tmp_path)
    whole = read(path, WHOLE)
    for split_bytes in (50_000, 7_777):
        query = replace(WHOLE, split_bytes=split_bytes)
        assert read(path, query) == whole
        by_file = {}
        for split in plan_entries(Log(detect(DISK, path), DISK, path), query):
            by_file.setdefault(split.file, []).append(split)
        most = max(by_file.values(), key=len)
        assert len(most) > 400_000 // split_bytes
        assert [piece.end for piece in most[:-1]] == [piece.start for piece in most[1:]]
        assert all(piece.end - piece.start < split_bytes + 1100 for piece in most[1:-1])


@pytest.mark.parametrize("make", [queues, sessions, keys])
@pytest.mark.parametrize("window", [40, 1000])
def test_a_walk_in_windows_cuts_at_the_same_places(make, window, tmp_path, monkeypatch):
    make(tmp_path)
    path, query = str(tmp_path), replace(WHOLE, split_bytes=20_000)
    found = detect(DISK, path)
    expected = Log(found, DISK, path).splits(query)
    monkeypatch.setattr("flintlog.dialects.taskflux.scan._WINDOW", window)
    monkeypatch.setattr("flintlog.dialects.mpy6a.entries._WINDOW", window)
    monkeypatch.setattr("flintlog.dialects.limestone.entries._SLACK", window - 40)
    # A disk that cannot map: what lies outside of a window is zeros.
    assert Log(found, Disk(RemoteKernel(LocalFileSystem(), "")), path).splits(query) == expected


@pytest.mark.parametrize("make", [queues, peer])
def test_a_range_of_positions_reads_the_pieces_that_hold_it(make, tmp_path):
    make(tmp_path)
    path = str(tmp_path)
    every = read(path, WHOLE)
    query = replace(WHOLE, split_bytes=20_000, first=(1500,), last=(1700,))
    assert read(path, query) == [row for row in every if 1500 <= row["position"] <= 1700]
    found = detect(DISK, path)
    assert (
        len(Log(found, DISK, path).splits(query))
        < len(Log(found, DISK, path).splits(replace(WHOLE, split_bytes=20_000))) / 3
    )


def test_the_newest_segment_is_cut_only_where_it_cannot_be_torn(tmp_path):
    with QueueStore(tmp_path, soft_limit=1 << 30, hard_limit=1 << 30) as store:
        store.queue().add_many([bytes(1 << 20)] * 24)
    path, query = str(tmp_path), replace(WHOLE, split_bytes=1 << 20, skip=NO_PAYLOAD)
    found = detect(DISK, path)
    *cut, last = Log(found, DISK, path).splits(query)
    assert len(cut) > 5
    (segment,) = (tmp_path / "data/log").iterdir()
    assert segment.stat().st_size - last.start > 2 * COMMIT_BYTES_MAX
    assert [row["position"] for row in read(path, query)] == list(range(24))
    with segment.open("r+b") as file:  # a record in one of the first pieces
        file.seek(cut[2].start + 100)
        file.write(b"x")
    with pytest.raises(DamageError) as caught:
        read(path, query)
    assert (caught.value.code, caught.value.offset) == ("record-checksum", cut[2].start)


def test_a_follower_knows_its_place_in_a_large_newest_segment(tmp_path):
    with QueueStore(tmp_path, soft_limit=1 << 30, hard_limit=1 << 30) as store:
        store.queue().add_many([bytes(4 << 20)] * 40)  # more than a piece
    path = str(tmp_path)
    log = open_log(path)
    assert len(log.splits(EntryQuery())) > 1
    place = log.follower().advance(beginning(), Limits(entries=20), "fail")
    following = log.follower().advance(place, Limits(), "fail")
    assert (place["position"], following["position"]) == (19, 39)
    assert "void" not in following


# Damage


def test_stop_ends_at_the_damage_and_report_says_what_it_is(directories):
    stopped, reported, told = replace(WHOLE, on_damage="stop"), replace(WHOLE, on_damage="report"), 0
    for name, path in directories.items():
        try:
            expected = read(path, WHOLE)
        except (DamageError, UnsupportedError) as error:
            some, more = read(path, stopped), read(path, reported)
            damage = [row for row in more if row["operation"] == "damage"]
            assert error.code in {row["damage"]["code"] for row in damage}, name
            assert {row["position"] for row in damage} == {row["length"] for row in damage} == {None}
            entries = [row for row in more if row["operation"] != "damage"]
            goes_on = name.startswith(("mpy6a", "limestone"))
            assert all(row in entries for row in some) if goes_on else some == entries, name
            told += 1
        except NotALogError:
            continue
        else:
            assert read(path, stopped) == read(path, reported) == expected, name
    assert told > 30


def test_report_names_the_place_and_goes_on_where_a_dialect_knows_how(tmp_path):
    sessions(tmp_path / "sessions")
    keys(tmp_path / "keys")
    for path, pattern, damage_at in (
        (tmp_path / "sessions", "*.data", 3000),
        (tmp_path / "keys", "pwal_0000", 3000),
    ):
        (file,) = path.glob(pattern)
        begins = [row for row in read(str(path), WHOLE) if row["file"] == file.name]
        victim = begins[damage_at]
        before = len(begins)
        with file.open("r+b") as handle:
            handle.seek(victim["offset"])
            handle.write(b"\xff" * 16)
        with pytest.raises(DamageError):
            read(str(path), WHOLE)
        stopped = [
            row for row in read(str(path), replace(WHOLE, on_damage="stop")) if row["file"] == file.name
        ]
        assert stopped == begins[:damage_at]
        found = [
            row for row in read(str(path), replace(WHOLE, on_damage="report")) if row["file"] == file.name
        ]
        (damage,) = [row for row in found if row["operation"] == "damage"]
        assert (damage["offset"], damage["dialect"]) == (victim["offset"], victim["dialect"])
        assert set(damage["damage"]) == {"code", "message", "expected", "found"}
        assert damage_at < len(found) <= before
        assert {row["offset"] for row in found} <= {row["offset"] for row in begins}
        assert found[-1]["offset"] == begins[-1]["offset"]


def test_a_question_for_other_entries_hides_the_damage(tmp_path, directories):
    path = directories["taskflux/damaged-crc-in-sealed-segment"]
    report = replace(WHOLE, on_damage="report")
    assert [row["operation"] for row in read(path, replace(report, operations=frozenset({"damage"})))] == [
        "damage"
    ]
    for asked in ({"operations": frozenset({"add"})}, {"streams": frozenset({""})}):
        assert "damage" not in {row["operation"] for row in read(path, replace(report, **asked))}
