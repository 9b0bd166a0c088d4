"""Following a log: every durable entry once, across rotation, removal, truncation and replays of the same step."""

from __future__ import annotations

import json

import pytest

from flintlog.core.dialect import EntryQuery
from flintlog.core.follow import Limits, LossError, ReplacedError, beginning, step
from flintlog.core.log import open_log
from flintlog.dialects.limestone.store import Datastore
from flintlog.dialects.mpy6a.store import SessionStore, Topic
from flintlog.dialects.taskflux.layout import AddRecord, encode_delta
from flintlog.dialects.taskflux.store import QueueStore, ReplicaLog
from flintlog.dialects.zmqraft.store import Entry, RaftStore
from flintlog.disk import Disk
from flintlog.errors import UnsupportedError
from flintlog.testing import MemoryKernel

NO_LIMITS = Limits()
DATA = encode_delta(AddRecord("", 1, b"record"))
OTHER = encode_delta(AddRecord("", 1, b"another"))


class Follow:
    """A follower that is new for every step, so that only the place, as JSON, is carried along."""

    def __init__(self, path, on_loss="fail"):
        self.path, self.place, self.on_loss = str(path), beginning(), on_loss
        self.disk = Disk()

    @property
    def follower(self):
        return open_log(self.path, disk=self.disk).follower()

    def advance(self, limits=NO_LIMITS):
        end = self.follower.advance(self.place, limits, self.on_loss)
        return json.loads(json.dumps(end))

    def read(self, end):
        deliveries = self.follower.deliveries(self.place, end, EntryQuery(), self.on_loss)
        return [
            row
            for delivery in deliveries
            for batch in self.follower.read(delivery)
            for row in batch.to_pylist()
        ]

    def step(self, limits=NO_LIMITS):
        end = self.advance(limits)
        rows = self.read(end)
        assert rows == self.read(end)
        self.place = end
        return rows

    def positions(self, limits=NO_LIMITS):
        return [row["position"] for row in self.step(limits)]


def operations(rows):
    return [(row["operation"], row["position"]) for row in rows]


# taskflux


def test_queues_are_followed_over_segments_and_behind_snapshots(tmp_path):
    with QueueStore(tmp_path, soft_limit=600, hard_limit=600, snapshot_threshold=1000) as store:
        follow = Follow(tmp_path)
        assert follow.step() == []
        seen = []
        for number in range(15):
            store.queue().add_many([b"%d" % number * 20] * 3)
            seen += follow.positions()
            assert len(seen) == 3 * (number + 1)
            if number % 5 == 4:
                store.snapshot()
            assert follow.step() == []
        assert seen == list(range(45))
        assert len(json.dumps(follow.place)) < 1000
    first = open_log(str(tmp_path)).splits(EntryQuery())[0].first
    assert first > 0  # segments that were delivered are gone


def test_limits_cut_a_step_by_entries_and_by_bytes(tmp_path):
    with QueueStore(tmp_path) as store:
        store.queue().add_many([bytes(100)] * 10)
    follow = Follow(tmp_path)
    assert follow.positions(Limits(entries=3)) == [0, 1, 2]
    assert follow.positions(Limits(bytes=300)) == [3, 4]
    assert follow.positions(Limits(bytes=1)) == [5]
    assert follow.positions(Limits(entries=100, bytes=100_000)) == [6, 7, 8, 9]


def test_entries_that_are_removed_too_early_are_a_loss_with_a_name(tmp_path):
    with QueueStore(tmp_path, soft_limit=1000, hard_limit=1000, snapshot_threshold=1000) as store:
        store.queue().add_many([bytes(100)] * 2)
        follow = Follow(tmp_path)
        assert follow.positions() == [0, 1]
        for _ in range(20):
            store.queue().add_many([bytes(100)] * 4)
        store.snapshot()
        store.queue().add(b"later")
        with pytest.raises(LossError, match=r"LSN 2 to \d+ were removed before they were delivered"):
            follow.step()
        follow.on_loss = "report"
        report, *rows = follow.step()
        assert (report["operation"], report["position"]) == ("lost", 2)
        assert [row["position"] for row in rows] == list(range(2 + report["length"], 83))
        assert follow.step() == []


def test_a_truncation_is_told_with_the_first_void_position(tmp_path):
    with ReplicaLog(tmp_path) as log:
        log.append_entries(0, [(1, DATA)] * 20)
        follow = Follow(tmp_path)
        assert follow.positions() == list(range(20))
        log.append_entries(13, [(2, OTHER)] * 3)
        assert operations(follow.step()) == [("truncate", 13), ("add", 13), ("add", 14), ("add", 15)]
        assert follow.step() == []
        log.append_entries(15, [(3, DATA)])
        log.append_entries(15, [(4, DATA)] * 9)
        found = follow.step()
        assert operations(found)[:2] == [("truncate", 15), ("add", 15)]
        assert {row["term"] for row in found[1:]} == {4}
        log.roll_back(14)
        assert operations(follow.step()) == [("truncate", 14)]
        assert follow.step() == []
        log.append_entries(14, [(4, DATA)])
        assert operations(follow.step()) == [("add", 14)]


@pytest.mark.parametrize("cut", [*range(1, 30, 3), 28, 29])
def test_the_first_void_position_is_exact_wherever_the_log_is_cut(tmp_path, cut):
    with ReplicaLog(tmp_path, soft_limit=600, hard_limit=600) as log:
        log.append_entries(0, [(1 + number // 7, DATA) for number in range(30)])
        follow = Follow(tmp_path)
        follow.positions(Limits(entries=11))
        follow.positions()
        log.append_entries(cut, [(9, DATA)])
        assert operations(follow.step()) == [("truncate", cut), ("add", cut)]


def test_a_log_that_was_begun_anew_is_void_from_its_beginning(tmp_path):
    with ReplicaLog(tmp_path / "a") as log:
        log.append_entries(0, [(1, DATA)] * 9)
    with ReplicaLog(tmp_path / "b") as log:
        log.append_entries(0, [(1, OTHER)] * 4)
    follow = Follow(tmp_path / "a")
    follow.step()
    follow.path = str(tmp_path / "b")
    assert operations(follow.step()) == [("truncate", 0), *(("add", number) for number in range(4))]


def test_a_step_that_is_read_again_after_a_truncation_tells_it(tmp_path):
    with ReplicaLog(tmp_path) as log:
        log.append_entries(0, [(1, DATA)] * 4)
        follow = Follow(tmp_path)
        follow.step()
        log.append_entries(4, [(1, DATA)] * 4)
        end = follow.advance()
        planned = follow.follower.deliveries(follow.place, end, EntryQuery(), "fail")
        log.append_entries(6, [(2, OTHER)] * 5)
        with pytest.raises(ReplacedError, match="were cut or replaced while they were read"):
            list(follow.follower.read(planned[0]))
        assert operations(follow.read(end)) == [("truncate", 6), ("add", 4), ("add", 5)]
        follow.place = end
        assert operations(follow.step())[:2] == [("truncate", 6), ("add", 6)]


def copy_unsynced(source, target, path):
    target.make_directory(path)
    for name in source.list(path):
        place = f"{path}/{name}"
        if source.is_directory(place):
            copy_unsynced(source, target, place)
        else:
            with source.open(place) as read, target.open(place, "create") as write:
                write.pwrite(read.pread(read.size(), 0), 0)


def segments(disk, path):
    names = [f"{path}/{name}" for name in disk.list(path)]
    inner = [place for name in names if disk.is_directory(name) for place in segments(disk, name)]
    return inner + [name for name in names if name.endswith(".log")]


def test_what_is_delivered_was_synced_first():
    kernel = MemoryKernel()
    disk = Disk(kernel)
    with QueueStore("/queues", disk=disk) as store:
        store.queue().add(b"x")
        copy = Disk(MemoryKernel())  # a writer that wrote the same bytes and did not get to its fsync
        copy_unsynced(disk, copy, "/queues")

    def survives():
        image = Disk(MemoryKernel(copy.kernel.device().durable()))
        return [image.stat(name).size > 0 for name in segments(image, "/queues")]

    assert not any(survives())
    end, batches = step(open_log("/queues", disk=copy).follower(), {}, NO_LIMITS)
    assert sum(batch.num_rows for batch in batches) == 1
    assert end["position"] == 0
    assert survives() == [True]


# zmqraft


def test_a_peer_is_followed_over_files_truncation_and_snapshots(tmp_path):
    with RaftStore(tmp_path, capacity=4) as store:
        follow = Follow(tmp_path)
        assert follow.step() == []
        store.append([Entry(1, b"%d" % number) for number in range(10)])
        assert follow.positions() == list(range(1, 11))
        store.append_at(6, [Entry(2, b"other")] * 3)
        assert operations(follow.step()) == [("truncate", 6), *(("state", number) for number in (6, 7, 8))]
        store.snapshot(8, b"state")
        store.append([Entry(2, b"more")])
        assert follow.positions() == [9]
        store.install_snapshot(40, 3, b"state")
        store.append([Entry(3, b"behind")])
        with pytest.raises(LossError, match="index 10 to 40"):
            follow.step()
        follow.on_loss = "report"
        assert operations(follow.step()) == [("lost", 10), ("state", 41)]


# mpy6a


def test_sessions_are_followed_by_their_operations_and_over_checkpoints(tmp_path):
    topics = [Topic(1, 10)]
    with SessionStore(tmp_path, topics=topics, term=1) as store:
        follow = Follow(tmp_path)
        assert [row["operation"] for row in follow.step()][:1] == ["base"]
        store.put(1, b"a", now=1_700_000_000)
        store.put_many(1, [b"b", b"c", b"d"], now=1_700_000_000)
        assert [row["operation"] for row in follow.step()][-2:] == ["put", "put"]
        assert follow.step() == []
        store.snapshot()  # a new log
        assert follow.step() == []
        store.new(1, b"open")
        assert [row["operation"] for row in follow.step()] == ["new"]
        store.new(1, b"missed")
        store.snapshot()
        store.new(1, b"after")
        with pytest.raises(LossError, match="operations from state id"):
            follow.step()
        follow.on_loss = "report"
        assert [row["operation"] for row in follow.step()] == ["lost", "new"]


def test_sessions_without_an_operation_log_are_refused(tmp_path):
    with SessionStore(tmp_path, topics=[Topic(1, 10)], strict=True) as store:
        store.put(1, b"a", now=1_700_000_000)
    with pytest.raises(UnsupportedError, match="without an operation log"):
        Follow(tmp_path).step()


# limestone


def put(channel, *keys):
    with channel.session() as session:
        session.put_many(1, [key.encode() for key in keys], [b"value"] * len(keys))


@pytest.mark.parametrize("edition", ["designed", "shipped"])
def test_epochs_are_followed_when_they_are_durable_and_over_rotation_and_compaction(tmp_path, edition):
    with Datastore(tmp_path, edition=edition, snapshot=False) as store:
        one, two = store.channel(), store.channel()
        follow = Follow(tmp_path)
        assert follow.step() == []
        seen = []
        for turn in range(12):
            put(one, f"a{turn}", f"b{turn}")
            put(two, f"c{turn}")
            assert follow.step() == []  # not durable yet
            store.switch_epoch()
            seen += [row["key"].decode() for row in follow.step()]
            if turn % 4 == 1:
                store.rotate()
            if turn % 4 == 3:
                store.compact()
            assert follow.step() == []
        assert sorted(seen) == sorted(f"{name}{turn}" for name in "abc" for turn in range(12))


def test_who_begins_late_gets_the_compacted_entries_and_who_missed_some_is_told(tmp_path):
    with Datastore(tmp_path, snapshot=False) as store:
        channel = store.channel()
        put(channel, "a")
        store.switch_epoch()
        early = Follow(tmp_path)
        assert len(early.step()) == 1
        put(channel, "b")
        store.switch_epoch()
        store.compact()
        put(channel, "c")
        store.switch_epoch()
        late = Follow(tmp_path)
        found = [(row["key"], row["limestone"]["status"]) for row in late.step()]
        assert found == [(b"a", "compacted"), (b"b", "compacted"), (b"c", "durable")]
        with pytest.raises(LossError, match="epochs"):
            early.step()
        early.on_loss = "report"
        assert [row["operation"] for row in early.step()] == ["lost", "put", "put", "put"]
        assert early.step() == []


def test_a_log_that_is_rotated_between_planning_and_reading_is_read_under_its_new_name(tmp_path):
    with Datastore(tmp_path, snapshot=False) as store:
        channel = store.channel()
        put(channel, "a", "b")
        store.switch_epoch()
        follow = Follow(tmp_path)
        end = follow.advance()
        planned = follow.follower.deliveries({}, end, EntryQuery(), "fail")
        store.rotate()
        put(
            channel, *(f"later {number}" for number in range(50))
        )  # the old name is that of a larger file now
        store.switch_epoch()
        rows = [
            row["key"]
            for delivery in planned
            for batch in follow.follower.read(delivery)
            for row in batch.to_pylist()
        ]
        assert rows == [b"a", b"b"]
        store.compact()
        with pytest.raises(ReplacedError, match="the entries of this log"):
            list(follow.follower.read(planned[0]))


@pytest.mark.parametrize("edition", ["designed", "shipped"])
@pytest.mark.parametrize("same", [True, False])
def test_entries_that_a_compaction_moves_between_planning_and_reading_are_not_left_out(
    tmp_path, edition, same
):
    """A session is open in their log, so that the compaction copies them to another one and marks them here."""
    with Datastore(tmp_path, edition=edition) as store:
        channel = store.channel()
        for number in range(3):
            with channel.session() as session:
                session.put(1, b"%d" % number, b"")
            store.switch_epoch()
        channel.begin().put(1, b"open", b"")
        follower = open_log(tmp_path).follower()
        end = follower.advance(beginning(), Limits(), "fail")
        planner = follower if same else open_log(tmp_path).follower()
        deliveries = planner.deliveries(beginning(), end, EntryQuery(), "fail")
        assert sum(batch.num_rows for delivery in deliveries for batch in follower.read(delivery)) == 3
        store.compact()
        with pytest.raises(ReplacedError):
            [batch for delivery in deliveries for batch in follower.read(delivery)]
        channel.end()


def test_epochs_are_not_cut_by_limits(tmp_path):
    with Datastore(tmp_path, snapshot=False) as store:
        channel = store.channel()
        for turn in range(5):
            put(channel, f"a{turn}", f"b{turn}", f"c{turn}")
            store.switch_epoch()
    follow = Follow(tmp_path)
    assert [len(follow.step(Limits(entries=7))) for _ in range(4)] == [6, 6, 3, 0]


def test_an_idle_log_that_is_compacted_later_is_no_loss(tmp_path):
    with Datastore(tmp_path, snapshot=False) as store:
        put(store.channel(), "a")
        store.switch_epoch()
        follow = Follow(tmp_path)
        assert len(follow.step()) == 1
        for _ in range(300):
            store.switch_epoch()
        assert follow.step() == []
        store.compact()
        assert follow.step() == []
