"""Repair: what is lost is said, what can be read stays, the originals are kept, and the directory opens again."""

from __future__ import annotations

import random
import shutil
import struct
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tests.damaged_directories import numbered
from tests.golden_cases import snapshot_of
from tests.mpy6a import damaged
from tests.mpy6a.damaged import BY_CODE, FIRST, OTHER, SECOND, T0, TOPICS, but, cut, in_record, logged, noted

from flintlog.core.dialect import EntryQuery
from flintlog.core.log import Log
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a.dialect import DIALECT
from flintlog.dialects.mpy6a.layout import StateID
from flintlog.dialects.mpy6a.store import SessionStore
from flintlog.dialects.mpy6a.upkeep import salvage
from flintlog.disk import Disk
from flintlog.errors import DamageError, FlintlogError

pytestmark = pytest.mark.usefixtures("still")

DISK = Disk()


def state(root):
    return [row for batch in Log(DIALECT, DISK, str(root)).state() for row in batch.to_pylist()]


def datas(root):
    return [row["data"] for row in state(root)]


def plan_of(root):
    return Log(DIALECT, DISK, str(root)).plan_repair()


def verified(root):
    return Log(DIALECT, DISK, str(root)).verify()


def repaired(root):
    plan = plan_of(root)
    assert plan.refusal is None
    plan.apply()
    inventory = verified(root)
    assert (inventory.verdict, [item for item in inventory.findings if item.code == "leftover"]) == (
        "clean",
        [],
    )
    opened(root).close()
    return plan


def opened(root, **options):
    strict = not (root / lay.OPERATIONS_FILE).exists()
    return SessionStore(root, topics=TOPICS, strict=strict, on_exhausted=lambda record: None, **options)


def made(root, make):
    make(root)
    return root


CASES = [
    pytest.param(make, id=name)
    for name, _, make in numbered(BY_CODE)
    if name.rpartition("-")[0] not in ("leftover", "foreign")
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("make", CASES)
def test_every_original_byte_is_kept_and_a_plan_changes_nothing(make, tmp_path):
    root = made(tmp_path / "root", make)
    before = snapshot_of(root)
    plan_of(root)
    assert snapshot_of(root) == before
    plan = repaired(root)
    after = snapshot_of(root)
    kept = [content for name, content in after.items() if name.startswith("kept/")]
    changing = {step.file for step in plan.steps if step.action not in ("write", "forget")}
    for name in changing & set(before):
        assert before[name] in (after.get(name), *kept), name


@pytest.mark.sampled(4)
@pytest.mark.parametrize("make", [case for case in CASES if hasattr(case.values[0], "base")])
def test_no_session_is_lost_in_silence_and_none_is_invented(make, tmp_path):
    whole = made(tmp_path / "whole", make.base)
    if "golden" in make.base.__qualname__:
        return  # what was there before is in the recordings
    root = made(tmp_path / "root", make)
    before, ever = datas(whole), _all_datas(whole)
    torn = Log(DIALECT, DISK, str(root)).verify().verdict == "repairable"
    plan = repaired(root)
    after = datas(root)
    gone = [data for data in before if data not in after]
    assert not gone or plan.lost or torn, gone
    assert set(after) <= ever
    assert len(after) == len(set(after))


def _all_datas(root):
    """Every session's data that ever stood there: read ones come again where that is lost."""
    query_all = Log(DIALECT, DISK, str(root)).fields(EntryQuery())
    return {field.data for field in query_all if field.name == "data"} | set(datas(root)) | {b"x"}


# Data files


@pytest.mark.parametrize("make", [noted, damaged.settled], ids=["note", "operations"])
def test_the_records_behind_a_bad_one_stay(make, tmp_path):
    root = made(tmp_path / "root", but(make, in_record(SECOND, 1, 8, bytes(8))))
    plan = repaired(root)
    (lost,) = plan.lost
    assert lost == f"{SECOND}: bytes 37 to 73, 37 in all"
    after = datas(root)
    assert [data for data in after if data.startswith(b"short")] == [
        b"short %d" % number for number in (2, 3, 4, 6, 7)
    ]
    assert b"late" in after


def test_a_bad_record_that_was_read_costs_nothing_and_nothing_moves(tmp_path):
    root = made(tmp_path / "root", but(noted, in_record(FIRST, 0, 8, bytes(8))))
    size = (root / FIRST).stat().st_size
    before = [(row["offset"], row["data"]) for row in state(made(tmp_path / "whole", noted))]
    assert repaired(root).lost == ()
    assert [(row["offset"], row["data"]) for row in state(root)] == before
    assert (root / FIRST).stat().st_size == size


RETIMED = (f"{SECOND}: when 1 of its sessions was due",)


def test_times_that_go_back_take_the_next_time_and_nobody_is_lost(tmp_path):
    root = made(tmp_path / "root", but(noted, in_record(SECOND, 1, 0, struct.pack("<Q", T0 + 1))))
    before = datas(made(tmp_path / "whole", noted))
    plan = repaired(root)
    assert (plan.lost, datas(root)) == (RETIMED, before)
    rows = {row["data"]: row["replay_time"] for row in state(root)}
    assert rows[b"short 5"] == rows[b"short 6"] == T0 + 46


def test_one_time_far_in_the_future_does_not_carry_the_others_along(tmp_path):
    root = made(tmp_path / "root", but(noted, in_record(SECOND, 1, 0, struct.pack("<Q", T0 + (1 << 27)))))
    assert repaired(root).lost == RETIMED
    rows = {row["data"]: row["replay_time"] for row in state(root)}
    assert (rows[b"short 5"], rows[b"short 6"], rows[b"late"]) == (T0 + 46, T0 + 46, T0 + 80)


def test_what_cannot_be_a_time_is_no_record(tmp_path):
    root = made(tmp_path / "root", but(noted, in_record(SECOND, 1, 0, b"ASCII!!\x00")))
    plan = repaired(root)
    assert plan.lost == (f"{SECOND}: bytes 37 to 73, 37 in all",)


def test_the_part_that_only_the_operation_log_has_is_written_behind_a_hole(tmp_path):
    root = made(tmp_path / "root", but(logged, cut(SECOND, 20)))
    plan = repaired(root)
    assert plan.lost == (f"{SECOND}: bytes 0 to 147, 148 in all",)
    after = datas(root)
    assert b"late" in after
    assert not any(data in (b"", b"short 4") for data in after)


@pytest.mark.parametrize("size", [20, 100], ids=["cut", "zeros"])
def test_what_the_snapshot_knows_of_a_file_that_is_written_is_never_taken_for_torn(size, tmp_path):
    """Below the length in its descriptor everything was synced; opening must not cut it."""
    root = made(tmp_path / "root", noted)
    raw = (root / SECOND).read_bytes()
    (root / SECOND).write_bytes(raw[:size] if size < 30 else raw[:size] + bytes(len(raw) - size))
    assert Log(DIALECT, DISK, str(root)).verify().verdict == "corrupt"
    with pytest.raises(DamageError):
        opened(root)
    assert any(SECOND in lost for lost in repaired(root).lost)


def test_a_time_beyond_all_years_is_damage_and_not_a_reason_to_cut_what_follows(tmp_path):
    root = made(tmp_path / "root", but(noted, in_record(OTHER, 0, 7, b"\x01")))
    (finding,) = Log(DIALECT, DISK, str(root)).verify().findings
    assert (finding.severity, finding.code, finding.offset) == ("corrupt", "record-time", 0)
    repaired(root)
    assert b"longer" in datas(root)


# Logs


def test_open_and_changed_sessions_survive_damage_in_a_data_file(tmp_path):
    root = made(tmp_path / "root", but(logged, in_record(SECOND, 1, 8, bytes(8))))
    repaired(root)
    with opened(root) as store:
        assert [session.data for session in store.sessions()] == [b"short 2 changed", b"open still"]
        replayed = {session.id: session.data for session in store.due(now=T0 + 34)}
    assert b"short 2 changed" in replayed.values()
    assert b"short 3" not in replayed.values()  # it was done with out of turn


def test_a_changed_session_whose_record_is_lost_stays_open(tmp_path):
    root = made(tmp_path / "root", but(logged, cut(FIRST, 74)))
    plan = repaired(root)
    assert plan.lost == (f"{FIRST}: 74 bytes from byte 74 on",)
    with opened(root) as store:
        assert [session.data for session in store.sessions()] == [b"short 2 changed", b"open still"]


def test_what_the_data_files_have_behind_a_damaged_operation_log_is_kept(tmp_path):
    damage = damaged.in_event(lay.OPERATIONS_FILE, 3, 20, b"\xff")
    root = made(tmp_path / "root", but(logged, damage))
    before = datas(made(tmp_path / "whole", logged))
    plan = repaired(root)
    assert "operations.log from byte" in plan.lost[0]
    missing = [data for data in before if data not in datas(root)]
    assert missing == [b"short 2 changed"]  # the change is lost, the session is not
    assert b"short 2" in datas(root)


def test_a_state_id_that_looks_newer_makes_no_operation_count_twice(tmp_path):
    damage = damaged.in_event(lay.CHANGES_FILE, 2, 12, b"\x01")
    before = datas(made(tmp_path / "whole", logged))
    root = made(tmp_path / "root", but(logged, damage))
    assert (repaired(root).lost, datas(root)) == ((), before)
    both = made(tmp_path / "both", but(logged, damaged.in_event(lay.OPERATIONS_FILE, 6, 20, b"\xff"), damage))
    repaired(both)
    assert not [data for data in before if data not in datas(both) and not data.endswith(b"changed")]


def test_the_read_positions_before_the_damage_stay(tmp_path):
    root = made(tmp_path / "root", but(noted, damaged.in_event(lay.CHANGES_FILE, 2, 16, b"\xff\x7f")))
    repaired(root)
    assert [data for data in datas(root) if data in (b"short 0", b"short 1", b"short 2")] == [
        b"short 1",
        b"short 2",
    ]


def test_files_whose_creation_is_lost_are_adopted_in_their_order(tmp_path):
    root = tmp_path / "root"
    with SessionStore(tmp_path / "made", topics=TOPICS, strict=True, on_exhausted=print) as store:
        for number in range(12):
            store.put(1, b"%d" % number, now=T0 + number)
            if number % 3 == 2:
                store.rotate(30, now=T0 + number)
        shutil.copytree(tmp_path / "made", root)
    before = datas(root)
    damaged.in_event(lay.CHANGES_FILE, 3, 16, b"\xff\x7f")(root)
    plan = repaired(root)
    assert [step.action for step in plan.steps].count("adopt") == 2
    assert datas(root) == before


@pytest.mark.parametrize("strict", [True, False])
def test_a_data_file_that_holds_no_session_goes_aside(strict, tmp_path):
    """Another file in the place of a data file can begin like a record, of a time long before its name."""
    with SessionStore(tmp_path, topics=TOPICS, strict=strict, on_exhausted=print) as store:
        store.put(1, b"lost", now=T0)
        [name] = [path.name for path in tmp_path.glob("*.data")]
    for other in (lay.CHANGES_FILE, lay.OPERATIONS_FILE, lay.SNAPSHOT_FILE):
        if (tmp_path / other).exists():
            (tmp_path / other).write_bytes(b"other bytes")
    early = lay.encode_record(lay.Record(1000, StateID(1, 1), 1, 0, b"early"))
    (tmp_path / name).write_bytes(early + b"\xff" * 60)
    assert verified(tmp_path).verdict == "corrupt"
    plan = repaired(tmp_path)
    assert ("move aside", name) in [(step.action, step.file) for step in plan.steps]
    assert f"{name}: all {len(early) + 60} bytes, if there were sessions in them" in plan.lost
    assert datas(tmp_path) == []


def test_new_ids_are_none_that_a_saved_session_has(tmp_path):
    root = made(
        tmp_path / "root", but(noted, damaged.remove(lay.CHANGES_FILE), damaged.remove(lay.SNAPSHOT_FILE))
    )
    repaired(root)
    used = {tuple(map(int, row["id"])) for row in state(root)}
    with SessionStore(root, topics=TOPICS) as store:
        assert store.put(1, b"new", now=T0 + 99) not in used


def test_a_file_that_an_operation_deleted_is_not_missed(tmp_path):
    """The operation that deletes stands behind the damage; the file is gone."""
    root = tmp_path / "root"
    with SessionStore(tmp_path / "made", topics=TOPICS, strict=True, on_exhausted=print) as store:
        store.put(1, b"first", now=T0)
        store.rotate(30, now=T0 + 1)
        store.put(1, b"second", now=T0 + 2)
        (session,) = store.due(now=T0 + 30)
        session.delete()
        shutil.copytree(tmp_path / "made", root)
    assert not (root / FIRST).exists()
    damaged.in_event(lay.CHANGES_FILE, 3, 16, b"\xff\x7f")(root)
    plan = repaired(root)
    assert any(FIRST in lost and "unless an operation that is lost deleted it" in lost for lost in plan.lost)
    assert datas(root) == [b"second"]


# What can be saved


@pytest.mark.parametrize(
    ("times", "mended"),
    [
        ([], []),
        ([1, 2, 2, 3], [1, 2, 2, 3]),
        ([1, 3, 2], [1, 3, 3]),
        ([1, 9, 2, 3], [1, 2, 2, 3]),
        ([5, 1, 6, 7], [5, 6, 6, 7]),
        ([1, 2, 0, 0, 3], [1, 2, 3, 3, 3]),
        ([7, 7, 7, 1], [7, 7, 7, 7]),
    ],
)
def test_times_are_mended(times, mended):
    assert salvage.mend_times(np.array(times, np.int64)).tolist() == mended


def test_many_times_are_mended_compiled_as_they_are_uncompiled():
    times = np.sort(np.random.default_rng(3).integers(0, 1 << 30, 5000))
    wrong = times.copy()
    wrong[[100, 2000, 4999]] = [0, 1 << 40, 5]
    tails, before = np.zeros(5000, np.int64), np.zeros(5000, np.int64)
    keep, compiled = np.zeros(5000, np.bool_), np.zeros(5000, np.bool_)
    salvage._longest.python(wrong, tails.copy(), before.copy(), keep)
    salvage._longest.compiled()(wrong, tails, before, compiled)
    assert np.flatnonzero(~keep).tolist() == np.flatnonzero(~compiled).tolist() == [100, 2000, 4999]
    assert (np.diff(salvage.mend_times(wrong)) >= 0).all()


@pytest.mark.parametrize("size", [30, 31, 156, 157, 158, 159, 160, 16_412, 16_413, 16_414, 70_000])
def test_a_filler_is_a_record_of_exactly_that_size(size):
    raw = salvage.filler(size, T0)
    record, end = lay.read_record(raw, 0)
    assert (len(raw), end, record.replay_time) == (size, size, T0)


def test_descriptors_behind_a_bad_one_are_found():
    items = [
        lay.Descriptor(f"{delay}@2023111422.data", StateID(1, delay), StateID(1, 99), 0, 5, 10, T0 + delay)
        for delay in (30, 60, 90)
    ]
    raw = bytearray(b"".join(item.encode() for item in items))
    assert salvage.descriptors(memoryview(bytes(raw))) == items
    raw[len(items[0].encode()) + 20] ^= 0xFF
    raw[len(items[0].encode()) + 3] ^= 0xFF
    assert salvage.descriptors(memoryview(bytes(raw))) == [items[0], items[2]]


# Any damage


@cache
def base(kind: str) -> dict[str, bytes]:
    """The files of a directory, made once."""
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "root"
        {"note": noted, "operations": logged, "closed": damaged.settled}[kind](root)
        return {path.name: path.read_bytes() for path in root.iterdir()}


def _hurt(files: dict[str, bytes], chance: random.Random) -> str:
    name = chance.choice(sorted(files))
    raw = bytearray(files[name])
    at = chance.randrange(len(raw) + 1)
    kind = chance.choice(["flip", "zero", "cut", "noise", "insert", "remove", "drop"])
    if kind == "flip" and at < len(raw):
        raw[at] ^= 1 << chance.randrange(8)
    elif kind == "zero":
        raw[at : at + 40] = bytes(len(raw[at : at + 40]))
    elif kind == "cut":
        del raw[at:]
    elif kind == "noise":
        raw[at : at + 20] = chance.randbytes(len(raw[at : at + 20]))
    elif kind == "insert":
        raw[at:at] = chance.randbytes(chance.randrange(1, 60))
    elif kind == "remove":
        del raw[at : at + chance.randrange(1, 60)]
    if kind == "drop":
        del files[name]
    else:
        files[name] = bytes(raw)
    return f"{kind} {name} at {at}"


@pytest.mark.sampled(4)
@pytest.mark.parametrize("kind", ["note", "operations", "closed"])
@pytest.mark.parametrize("seed", range(60))
def test_whatever_is_damaged_is_told_and_repaired(kind, seed, tmp_path):
    chance = random.Random(f"{kind} {seed}")
    files = dict(base(kind))
    what = [_hurt(files, chance) for _ in range(chance.choice([1, 1, 2, 3]))]
    root = tmp_path / "root"
    root.mkdir()
    for name, raw in files.items():
        (root / name).write_bytes(raw)
    if not any(name.endswith((".data", ".log", ".snapshot")) for name in files):
        return
    inventory = Log(DIALECT, DISK, str(root)).verify()
    try:
        shown = len(state(root))
        assert inventory.verdict != "corrupt", what
    except FlintlogError:
        assert inventory.verdict in ("corrupt", "repairable"), what
        shown = None
    plan = repaired(root) if inventory.verdict != "clean" else None
    assert plan is None or inventory.verdict == "corrupt" or not plan.lost, what
    if plan is not None and shown is None and not plan.lost:
        assert len(state(root)) >= _waiting(kind), what


@cache
def _waiting(kind: str) -> int:
    with tempfile.TemporaryDirectory() as place:
        root = Path(place) / "root"
        root.mkdir()
        for name, raw in base(kind).items():
            (root / name).write_bytes(raw)
        return len(state(root))
