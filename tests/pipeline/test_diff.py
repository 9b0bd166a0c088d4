"""Replicas compared: who is behind, where they part, what each has alone; here and on Spark alike."""

from __future__ import annotations

import shutil

import pytest

from flintlog.dialects.limestone.store import Datastore
from flintlog.dialects.mpy6a.store import SessionStore, Topic
from flintlog.dialects.taskflux.layout import AddRecord, RemoveRecord, encode_delta
from flintlog.dialects.taskflux.store import QueueStore, ReplicaLog
from flintlog.dialects.zmqraft.store import Entry, RaftStore
from flintlog.errors import UsageError
from flintlog.pipeline.jobs import diff

NOW = 1_700_000_000


def replica(path, entries, **options):
    with ReplicaLog(path, **options) as log:
        log.append_entries(0, entries)
    return str(path)


def adds(count, term=1, first=0):
    return [
        (term, encode_delta(AddRecord("mail", number, b"%d" % number)))
        for number in range(first, first + count)
    ]


def facts(report):
    return [(one.last, one.rows, one.missing, one.alone) for one in report.replicas]


def test_equal_logs_are_equal_whatever_their_edition_and_their_segments(tmp_path):
    paths = [
        replica(tmp_path / "a", adds(20)),
        replica(tmp_path / "b", adds(20), edition="shipped"),
        replica(tmp_path / "c", adds(20), soft_limit=300, hard_limit=300),
    ]
    report, rows = diff(None, paths)
    assert (report.verdict, report.equal, report.first, report.last, rows.num_rows) == (
        "equal",
        True,
        0,
        19,
        0,
    )
    assert facts(report) == [(19, 20, 0, 0)] * 3


def test_who_is_behind_is_told_and_is_no_divergence(tmp_path):
    paths = [replica(tmp_path / name, adds(count)) for name, count in (("a", 20), ("b", 15), ("c", 18))]
    report, rows = diff(None, paths)
    assert (report.verdict, report.last, report.differing, report.divergence) == ("behind", 14, 0, None)
    assert facts(report) == [(19, 20, 0, 2), (14, 15, 5, 0), (17, 18, 2, 0)]
    assert rows.to_pylist()[0] == {"position": 15, "differs": False, "sources": [paths[0], paths[2]]}


@pytest.mark.parametrize(
    "other",
    [
        [*adds(10), *adds(10, term=2, first=10)],
        [*adds(10), (1, encode_delta(AddRecord("mail", 10, b"other"))), *adds(9, first=11)],
        [*adds(10), (1, encode_delta(AddRecord("post", 10, b"10"))), *adds(9, first=11)],
        [*adds(10), (1, encode_delta(AddRecord("mail", 11, b"10"))), *adds(9, first=11)],
        [*adds(10), (1, encode_delta(RemoveRecord("mail", 3))), *adds(9, first=11)],
    ],
)
def test_the_first_divergence_is_found_whatever_differs(tmp_path, other):
    paths = [replica(tmp_path / "a", adds(20)), replica(tmp_path / "b", other)]
    report, rows = diff(None, paths)
    assert (report.verdict, report.divergence) == ("diverged", {"position": 10})
    assert report.differing == rows.num_rows > 0
    assert rows.to_pylist()[0] == {"position": 10, "differs": True, "sources": paths}


def test_what_a_snapshot_covers_is_not_compared(tmp_path):
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    with QueueStore(paths[0], soft_limit=1024, hard_limit=1024, snapshot_threshold=1000) as store:
        for number in range(30):
            store.queue().add_many([b"%d" % number] * 4)
    shutil.copytree(*paths)
    with QueueStore(paths[1]) as store:
        store.snapshot()
    report, _ = diff(None, paths)
    assert report.verdict == "equal"
    assert 0 < report.first < report.last == 119


def test_peers_and_sessions_are_compared_by_their_own_positions(tmp_path):
    peers = [str(tmp_path / "peer a"), str(tmp_path / "peer b")]
    for path, data in zip(peers, (b"one", b"two"), strict=True):
        with RaftStore(path, capacity=4) as store:
            store.append([Entry(1, b"same")] * 6)
            store.append([Entry(2, data)])
    report, _ = diff(None, peers)
    assert (report.dialect, report.verdict, report.divergence) == ("zmqraft", "diverged", {"position": 7})

    stores = [str(tmp_path / "store a"), str(tmp_path / "store b")]
    with (
        SessionStore(stores[0], topics=[Topic(1, 10)], term=1) as leader,
        SessionStore(stores[1], topics=[Topic(1, 10)], follower=True) as follower,
    ):
        leader.put_many(1, [b"a", b"b"], now=NOW)
        follower.receive(leader.catch_up(follower.progress()))
        leader.new(1, b"open")
        follower.receive(leader.catch_up(follower.progress()))
        assert diff(None, stores)[0].verdict == "equal"
        leader.snapshot()
        leader.new(1, b"more")
        report, _ = diff(None, stores)
    assert report.verdict == "behind"
    assert [one.missing for one in report.replicas] == [0, 1]


def test_states_of_key_value_logs_are_compared_whatever_was_compacted(tmp_path):
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    with Datastore(paths[0], snapshot=False) as store:
        one, two = store.channel(), store.channel()
        for channel, key in ((one, b"k1"), (two, b"k2"), (one, b"k1")):
            with channel.session() as session:
                session.put(1, key, b"value")
            store.switch_epoch()
    shutil.copytree(*paths)
    with Datastore(paths[1], snapshot=False) as store:
        store.compact()
    assert diff(None, paths)[0].verdict == "equal"
    with Datastore(paths[1], snapshot=False) as store, store.channel().session() as session:
        session.put(1, b"k3", b"x")
        store.switch_epoch()
    with Datastore(paths[1], snapshot=False) as store:
        store.switch_epoch()
    report, rows = diff(None, paths)
    assert (report.compared, report.verdict) == ("state", "behind")
    with Datastore(paths[0], snapshot=False) as store:
        for _ in range(6):
            with store.channel().session() as session:
                session.put(1, b"k2", b"other")
            store.switch_epoch()
    report, rows = diff(None, paths)
    assert (report.verdict, report.divergence) == ("diverged", {"stream": "1", "key": b"k2"})
    found = {row["key"]: (row["differs"], len(row["sources"])) for row in rows.to_pylist()}
    assert found[b"k2"] == (True, 2)


def test_what_cannot_be_compared_is_refused(tmp_path):
    path = replica(tmp_path / "a", adds(1))
    with RaftStore(tmp_path / "b") as store:
        store.append([Entry(1, b"x")])
    with pytest.raises(UsageError, match="two directories at least"):
        diff(None, [path, path])
    with pytest.raises(UsageError, match=r"is a taskflux log and .* is a zmqraft log"):
        diff(None, [path, str(tmp_path / "b")])


@pytest.mark.long
@pytest.mark.spark
def test_spark_says_the_same(spark, tmp_path):
    paths = [
        replica(tmp_path / "a", adds(50), soft_limit=600, hard_limit=600),
        replica(tmp_path / "b", [*adds(30), *adds(30, term=2, first=30)]),
        replica(tmp_path / "c", adds(40)),
    ]
    here, rows = diff(None, paths)
    there, frame = diff(spark, paths)
    assert there == here
    assert frame.toArrow().to_pylist() == rows.to_pylist()
