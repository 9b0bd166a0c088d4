"""An epoch file that lost records: no acknowledged session is forgotten, and what opening drops is copied first."""

from __future__ import annotations

import os
import shutil

import pytest
from tests.golden_cases import GOLDEN, snapshot_of
from tests.limestone.directories import designed, session, shipped

from flintlog.core.finding import exit_status
from flintlog.core.log import Log
from flintlog.core.rounds import repair
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.limestone import scan
from flintlog.dialects.limestone.dialect import DIALECT
from flintlog.dialects.limestone.layout import Catalog
from flintlog.dialects.limestone.store import Datastore
from flintlog.dialects.limestone.upkeep.repair import plan_repair
from flintlog.disk import Disk
from flintlog.errors import DamageError

pytestmark = pytest.mark.usefixtures("still")

BOTH = pytest.mark.parametrize("edition", ["designed", "shipped"])
EPOCHS = 20
LOST = {
    "emptied": lambda raw: b"",
    "zeroed": lambda raw: bytes(len(raw)),
    "one record of zeros": lambda raw: bytes(lay.MARKER_SIZE),
    "cut inside the first record": lambda raw: raw[:5],
    "cut to half": lambda raw: raw[: len(raw) // 2],
    "cut behind the first record": lambda raw: raw[: lay.MARKER_SIZE],
    "without the last two": lambda raw: raw[: -2 * lay.MARKER_SIZE],
    "the tail is zeros": lambda raw: raw[: lay.MARKER_SIZE] + bytes(len(raw) - lay.MARKER_SIZE),
}


def written(path, edition) -> dict[bytes, bytes]:
    """Two channels, a session of each in every epoch, all acknowledged."""
    with Datastore(path, edition=edition, snapshot=False) as store:
        channels = store.channel(), store.channel()
        for number in range(EPOCHS):
            for which, channel in enumerate(channels):
                with channel.session() as one:
                    one.put(1, b"%d.%d" % (which, number), b"x" * 100)
            store.switch_epoch()
        assert store.durable_epoch == EPOCHS
    return {b"%d.%d" % (which, number): b"x" * 100 for which in (0, 1) for number in range(EPOCHS)}


def state(path) -> dict[bytes, bytes]:
    rows = [row for batch in Log(DIALECT, Disk(), str(path)).state() for row in batch.to_pylist()]
    return {row["key"]: row["value"] for row in rows}


def found(path) -> tuple[str, set[str]]:
    seen = Log(DIALECT, Disk(), str(path)).verify()
    return seen.verdict, {item.code for item in seen.findings}


@BOTH
@pytest.mark.parametrize("how", LOST)
def test_lost_records_are_refused_and_repair_counts_every_session(how, edition, tmp_path):
    path = tmp_path / "log"
    expected = written(path, edition)
    epochs = path / lay.EPOCH_FILE
    epochs.write_bytes(LOST[how](epochs.read_bytes()))
    before = snapshot_of(path)
    verdict, codes = found(path)
    assert verdict == "corrupt" and codes & {"epoch-short", "epoch-type"}
    for act in (lambda: Datastore(path), lambda: state(path)):
        with pytest.raises(DamageError) as caught:
            act()
        assert caught.value.code in ("epoch-short", "epoch-type")
        assert caught.value.file == str(epochs)
    assert "repair" in (caught.value.advice or "")
    assert snapshot_of(path) == before
    plan = plan_repair(Disk(), str(path))
    assert plan.refusal is None
    assert plan.lost == ("which epochs were acknowledged: every whole session counts, also one that was not",)
    plan.apply()
    assert found(path)[0] == "clean"
    assert state(path) == expected
    with Datastore(path) as store:
        assert store.findings == ()
        assert {entry.key: entry.value for entry in store.snapshot.scan()} == expected


@BOTH
def test_an_older_epoch_file_is_one_that_lost_records(edition, tmp_path):
    path = tmp_path / "log"
    with Datastore(path, edition=edition) as store:
        channel = store.channel()
        with channel.session() as one:
            one.put(1, b"a", b"1")
        store.switch_epoch()
        older = (path / lay.EPOCH_FILE).read_bytes()
        with channel.session() as one:
            one.put(1, b"b", b"2")
        store.switch_epoch()
    (path / lay.EPOCH_FILE).write_bytes(older)
    assert found(path) == ("corrupt", {"epoch-short", "not-durable"})


@BOTH
@pytest.mark.parametrize("ahead", [1, 5, 300])
def test_sessions_that_wait_for_another_one_are_forgotten_and_copied(edition, ahead, tmp_path):
    """A process dies while a session of the first epoch is open and others have gone on for many epochs."""
    store = Datastore(tmp_path, edition=edition, snapshot=False)
    slow, fast = store.channel(), store.channel()
    with fast.session() as one:
        one.put(1, b"durable", b"1")
    store.switch_epoch()
    slow.begin().put(1, b"never ended", b"")
    for number in range(ahead):
        with fast.session() as one:
            one.put(1, b"%d" % number, b"2")
        store.switch_epoch()
    log = (tmp_path / "pwal_0001").read_bytes()
    keep = log.index(lay.encode_begin(2))
    store.close()
    assert found(tmp_path) == ("repairable", {"not-durable"})
    with Datastore(tmp_path) as store:
        assert [finding.code for finding in store.findings] == ["not-durable"] * 2  # one of the open session
        assert [entry.key for entry in store.snapshot.scan()] == [b"durable"]
    [copy] = (tmp_path / "kept" / "opened").iterdir()
    assert copy.name.endswith(f"-pwal_0001@{keep}")
    assert copy.read_bytes() == log[keep:]


@BOTH
def test_a_new_store_that_dies_before_its_first_epoch_is_durable_opens(edition, tmp_path):
    store = Datastore(tmp_path, edition=edition, snapshot=False)
    first, second = store.channel(), store.channel()
    first.begin()
    for _ in range(4):
        with second.session() as one:
            one.put(1, b"a", b"1")
        store.switch_epoch()
    store.close()
    with Datastore(tmp_path) as store:
        assert len(store.snapshot) == 0
    assert found(tmp_path)[0] == "clean"


@pytest.mark.parametrize("make", [designed, shipped])
def test_the_catalog_tells_that_records_are_lost(make, tmp_path):
    """What compacted files hold was durable, and so was every session up to their epoch."""
    name = lay.COMPACTED_FILE if make is shipped else "cmpct_0001"
    made = make(tmp_path / "log", 1).compacted("a", epoch=0 if make is shipped else 3, name=name)
    made.catalog(Catalog({name: 1}, frozenset(), 3, 0 if make is shipped else None))
    made.log(session(2, "b"), session(4, "c"))
    assert "epoch-short" in found(made.root)[1]
    with pytest.raises(DamageError, match="epoch 3"):
        Datastore(made.root)


@BOTH
def test_records_that_no_session_needs_are_not_missed(edition, tmp_path):
    """All sessions are in compacted files."""
    path = tmp_path / "log"
    expected = written(path, edition)
    with Datastore(path) as store:
        assert store.compact() is not None
    (path / lay.EPOCH_FILE).write_bytes(b"")
    assert found(path) == ("clean", set())
    assert state(path) == expected
    with Datastore(path) as store:
        assert store.durable_epoch == EPOCHS
        assert store.epoch == EPOCHS + 1
    assert state(path) == expected


@BOTH
def test_a_witness_that_is_spoiled_costs_nothing(edition, tmp_path):
    """It may stop the store from opening; repair counts what the logs have, and believes it nothing."""
    path = tmp_path / "log"
    expected = written(path, edition)
    (path / lay.WITNESS_FILE).write_bytes(lay.encode_durable(2**64 - 1))
    with Datastore(path) as store:
        assert store.epoch == EPOCHS + 1
        with store.channel().session() as one:
            one.put(1, b"not durable", b"")
    (path / lay.WITNESS_FILE).write_bytes(lay.encode_durable(2**64 - 1))
    assert found(path)[1] == {"epoch-short", "not-durable"}
    plan_repair(Disk(), str(path)).apply()
    with Datastore(path) as store:
        assert store.epoch == EPOCHS + 2
    assert state(path) == {**expected, b"not durable": b""}


@BOTH
def test_the_witness_has_the_last_record(edition, tmp_path):
    for number in range(1, 4):
        with Datastore(tmp_path, edition=edition) as store:
            with store.channel().session() as one:
                one.put(1, b"a", b"1")
            store.switch_epoch()
            assert (tmp_path / lay.WITNESS_FILE).read_bytes() == lay.encode_durable(number)


# Damage in a log beside it: the logs are judged by the epoch that repair will count to.

NO_EPOCHS = {
    "gone": (lay.EPOCH_FILE,),
    "gone with its witness": (lay.EPOCH_FILE, lay.WITNESS_FILE),
    "of other bytes": (),
}
SPOILED = {  # the bytes of a log whose sessions begin at some offsets, and which of them are spoiled
    "cut in the last": lambda raw, at: (raw[: at[-1] + 20], [EPOCHS - 1]),
    "cut in the middle": lambda raw, at: (raw[: at[9] + 20], range(9, EPOCHS)),
    "cut in the first": lambda raw, at: (raw[:20], range(EPOCHS)),
    "an entry": lambda raw, at: (with_byte(raw, at[5] + lay.MARKER_SIZE), [5]),
    "the first entry": lambda raw, at: (with_byte(raw, lay.MARKER_SIZE), [0]),
    "a begin marker": lambda raw, at: (with_byte(raw, at[5]), [5]),
}


def with_byte(raw, at):
    return raw[:at] + b"\xff" + raw[at + 1 :]


def without_epochs(path, how):
    (path / lay.EPOCH_FILE).write_bytes(b"\xff" * 18)
    for name in NO_EPOCHS[how]:
        (path / name).unlink()


def spoil(file, how):
    """Which sessions of a log are spoiled then."""
    raw = file.read_bytes()
    spoiled, lost = SPOILED[how](raw, scan.walk(memoryview(raw)).snippets.offset.tolist())
    file.write_bytes(spoiled)
    return set(lost)


@pytest.mark.sampled(4)
@BOTH
@pytest.mark.parametrize("how", SPOILED)
@pytest.mark.parametrize("epochs", NO_EPOCHS)
@pytest.mark.parametrize("which", [0, 1])
def test_a_log_that_is_damaged_too_costs_the_sessions_in_those_bytes_alone(
    which, epochs, how, edition, tmp_path
):
    path = tmp_path / "log"
    expected = written(path, edition)
    name = f"pwal_{which:04d}"
    for number in spoil(path / name, how):
        del expected[b"%d.%d" % (which, number)]
    without_epochs(path, epochs)
    log = Log(DIALECT, Disk(), str(path))
    before = snapshot_of(path)
    plan = log.plan_repair()
    assert log.health == log.verify().verdict == "corrupt" and plan.exit_status == 3
    assert any(line.startswith(f"what stood in {name} from byte") for line in plan.lost)
    for read in (log.state, log.entries, lambda: Datastore(path)):
        with pytest.raises(DamageError):
            list(read())
    place = next((item.file, item.offset) for item in plan.findings if item.code.startswith("entry-"))
    told = log.entries(on_damage="report", operations="damage").to_table().to_pylist()
    assert place in [(row["file"], row["offset"]) for row in told]
    assert snapshot_of(path) == before
    assert repair(log, plan).after.verdict == "clean"
    assert state(path) == expected


@BOTH
@pytest.mark.parametrize("how", SPOILED)
@pytest.mark.parametrize("epochs", ["gone", "gone with its witness"])
def test_of_one_log_without_epochs_only_what_ends_it_and_no_witness_knows_is_torn(
    epochs, how, edition, tmp_path
):
    path = tmp_path / "log"
    written(path, edition)
    (path / "pwal_0001").unlink()
    lost = spoil(path / "pwal_0000", how)
    without_epochs(path, epochs)
    log = Log(DIALECT, Disk(), str(path))
    plan = log.plan_repair()
    torn = how.startswith("cut") and epochs == "gone with its witness"
    assert plan.exit_status == (1 if torn else 3) == exit_status(log.verify().findings)
    assert bool(plan.lost) == (plan.exit_status == 3)
    assert repair(log, plan).after.verdict == "clean"
    assert state(path).keys() == {b"0.%d" % number for number in range(EPOCHS) if number not in lost}


def test_a_recorded_directory_without_epochs_keeps_every_whole_session(tmp_path):
    path = tmp_path / "log"
    shutil.copytree(GOLDEN / "limestone" / "c20_epoch_missing" / "dir", path)
    os.truncate(path / "pwal_0001", 44)
    log = Log(DIALECT, Disk(), str(path))
    plan = log.plan_repair()
    assert log.verify().verdict == "corrupt"
    assert plan.lost == ("what stood in pwal_0001 from byte 9 to byte 43",)
    assert repair(log, plan).after.verdict == "clean"
    assert state(path) == {b"a": b"a2", b"d": b"d" * 16}
