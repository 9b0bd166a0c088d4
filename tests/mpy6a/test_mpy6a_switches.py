"""Directories as another program of the same design would leave them: switches, suffixes, small frames, deletions."""

from __future__ import annotations

import pytest

from flintlog.core.log import Log
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a.dialect import DIALECT
from flintlog.dialects.mpy6a.layout import Descriptor, Record, StateID
from flintlog.dialects.mpy6a.store import SessionStore
from flintlog.disk import Disk

DISK = Disk()
NOW = 1651165200  # 2022-04-28 17:00:00 UTC
A, B, C = "30@2022042817.data", "30@2022042817-1.data", "30@2022042818.data"
GONE, OTHER = "60@2022042816.data", "60@2022042817.data"


def record(due, number, data):
    return lay.encode_record(Record(due, StateID(3, number), 1, 0, data))


def log(events, frame=112, limit=64):
    """Events in small frames, so that there is padding."""
    out = lay.encode_log_header(frame, limit)
    for number, change in events:
        event = lay.EVENT.encode(StateID(3, number), lay.encode_change(change))
        out += bytes(lay.padding_before(len(out), frame, len(event))) + event
    return out


def state(root, as_of=None):
    rows = [row for batch in Log(DIALECT, DISK, str(root)).state(as_of) for row in batch.to_pylist()]
    return [(row["replay_time"], row["file"], row["offset"], row["data"]) for row in rows]


@pytest.fixture
def switched(tmp_path):
    """A switch, a file read in part, one that was read and deleted; a snapshot and ten operations behind it."""
    first = [record(NOW + 30 + at, 10 + at, b"a%d" % at) for at in range(4)]
    second = [record(NOW + 3630 + at, 40 + at, b"c%d" % at) for at in range(2)]
    gone = [record(NOW - 3000, 5, b"gone")]
    other = [record(NOW + 3630, 30, b"tie with the 30 s file")]
    size = len(first[0])
    (tmp_path / A).write_bytes(b"".join(first))
    (tmp_path / C).write_bytes(b"".join(second))
    (tmp_path / OTHER).write_bytes(b"".join(other))
    items = [
        Descriptor(GONE, StateID(3, 1), StateID(3, 5), lay.WRITTEN, 0, 0, NOW - 3540),
        Descriptor(A, StateID(3, 2), StateID(3, 11), lay.WRITTEN, 0, 2 * size, NOW + 30),
    ]
    (tmp_path / lay.SNAPSHOT_FILE).write_bytes(lay.encode_snapshot(items))
    (tmp_path / lay.CHANGES_FILE).write_bytes(
        log(
            [
                (12, lay.OpenToRead(GONE)),
                (13, lay.Shift(GONE, len(gone[0]))),
                (14, lay.StopWriting(GONE)),
                (15, lay.Delete(GONE)),
                (16, lay.Create(60, NOW + 40)),
                (17, lay.OpenToRead(A)),
                (18, lay.Shift(A, size)),
                (19, lay.StopWriting(A)),
                (20, lay.Create(30, NOW + 3600)),
                (21, lay.Shift(A, size)),
            ]
        )
    )
    return tmp_path, size


def test_a_switch_a_deletion_and_operations_in_small_frames(switched):
    root, size = switched
    assert bytes(20) in (root / lay.CHANGES_FILE).read_bytes()  # padding
    inventory = Log(DIALECT, DISK, str(root)).verify()
    assert (inventory.verdict, inventory.findings) == ("clean", ())
    assert {file.name: file.role for file in inventory.files} == {
        A: "reading",
        C: "writing",
        OTHER: "writing",
        lay.SNAPSHOT_FILE: "snapshot",
        lay.CHANGES_FILE: "changes",
    }
    assert state(root) == [
        (NOW + 32, A, 2 * size, b"a2"),
        (NOW + 33, A, 3 * size, b"a3"),
        (NOW + 3630, OTHER, 0, b"tie with the 30 s file"),
        (NOW + 3630, C, 0, b"c0"),
        (NOW + 3631, C, size, b"c1"),
    ]
    with SessionStore(root, strict=True) as store:
        assert [session.data for session in store.due(now=NOW + 9999)] == [row[3] for row in state(root)]
    assert Log(DIALECT, DISK, str(root)).verify().verdict == "clean"


def test_its_state_at_an_earlier_operation(switched):
    root, size = switched
    assert [row[3] for row in state(root, (3, 20))] == [b"a1", b"a2", b"a3"]
    assert [row[2] for row in state(root, (3, 18))] == [size, 2 * size, 3 * size]


@pytest.mark.long
def test_every_cut_of_its_change_log_reads(switched):
    """A tail that is cut anywhere is torn; files that the operations behind it created or deleted are missed."""
    root, _ = switched
    raw = (root / lay.CHANGES_FILE).read_bytes()
    for size in range(16, len(raw)):
        (root / lay.CHANGES_FILE).write_bytes(raw[:size])
        verdict = Log(DIALECT, DISK, str(root)).verify()
        codes = {item.code for item in verdict.findings if item.severity == "corrupt"}
        assert codes <= {"file-short", "file-undescribed", "operation-shift"}, (size, codes)


def test_switches_in_one_hour_get_suffixes_and_need_no_snapshot(tmp_path):
    first, third = record(NOW + 30, 10, b"first"), record(NOW + 32, 11, b"third")
    (tmp_path / A).write_bytes(first)
    (tmp_path / B).write_bytes(b"")  # closed before anything was stored
    (tmp_path / "30@2022042817-2.data").write_bytes(third)
    (tmp_path / lay.CHANGES_FILE).write_bytes(
        log(
            [
                (1, lay.Create(30, NOW)),
                (12, lay.StopWriting(A)),
                (13, lay.Create(30, NOW + 1)),
                (14, lay.StopWriting(B)),
                (15, lay.Create(30, NOW + 2)),
            ],
            frame=4096,
            limit=1024,
        )
    )
    inventory = Log(DIALECT, DISK, str(tmp_path)).verify()
    assert (inventory.verdict, inventory.findings) == ("clean", ())
    assert (inventory.first, inventory.last) == ((3, 1), (3, 15))
    assert [row[3] for row in state(tmp_path)] == [b"first", b"third"]
    assert [(file.name, file.entries) for file in inventory.files if file.name.endswith(".data")] == [
        (A, 1),
        (B, 0),
        ("30@2022042817-2.data", 1),
    ]
    with SessionStore(tmp_path, strict=True) as store:
        assert [session.data for session in store.due(now=NOW + 9999)] == [b"first", b"third"]


def test_the_order_of_files_is_that_of_their_bound_and_not_of_their_creation(tmp_path):
    """A leader whose clock went back may have created the later file first."""
    early, late = record(NOW + 30, 10, b"early"), record(NOW + 3630, 11, b"late")
    (tmp_path / A).write_bytes(early)
    (tmp_path / C).write_bytes(late)
    items = [
        Descriptor(C, StateID(3, 1), StateID(3, 11), 0, 0, len(late), NOW + 3630),
        Descriptor(A, StateID(3, 2), StateID(3, 10), 0, 0, len(early), NOW + 30),
    ]
    (tmp_path / lay.SNAPSHOT_FILE).write_bytes(lay.encode_snapshot(items))
    (tmp_path / lay.CHANGES_FILE).write_bytes(log([]))
    assert Log(DIALECT, DISK, str(tmp_path)).verify().verdict == "clean"
    assert [row[3] for row in state(tmp_path)] == [b"early", b"late"]
    with SessionStore(tmp_path, strict=True) as store:
        assert [session.data for session in store.due(now=NOW + 9999)] == [b"early", b"late"]
