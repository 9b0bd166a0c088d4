"""Repair: the plan says what is given up, the originals are kept byte for byte, and the directory opens."""

from __future__ import annotations

import random

import pytest
from tests.golden_cases import cases, materialise, snapshot_of
from tests.taskflux.test_taskflux_golden import EXPECTED

from flintlog import QueueStore, ReplicaLog
from flintlog.core.journal import RECORD_FILE
from flintlog.core.log import Log
from flintlog.dialects.taskflux.dialect import DIALECT
from flintlog.dialects.taskflux.layout import AddRecord, encode_delta
from flintlog.disk import Disk
from flintlog.errors import DamageError, FlintlogError, LockedError, RefusedError, UnsupportedError
from flintlog.testing import MemoryKernel, State

pytestmark = pytest.mark.usefixtures("still")

FIRST = "log/0000000000000000000.log"
VOTE = "the vote of this node, and its term if that was above the log's"

# What is done, what is given up, and how many entries are left. No steps: the plan is refused.
BEYOND = "what the snapshot holds beyond LSN 5, where the log ends, if anything"
REPAIRS: dict[str, tuple[list[tuple[str, str]], list[str], int]] = {
    "damaged-crc-in-sealed-segment": (
        [("move aside", "log/0000000000000000004.log"), ("cut", "log/0000000000000000002.log")],
        ["LSN 2 to 5"],
        2,
    ),
    "damaged-crc-wrong-last": ([("cut", FIRST)], [], 5),
    "damaged-future-version": ([], [], 0),
    "damaged-marker-only-prealloc": ([("cut", FIRST)], [], 5),
    "damaged-metadata-future-version": ([], [], 0),
    "damaged-metadata-marker": ([("rewrite", "tflux.metadata")], [VOTE], 6),
    "damaged-metadata-negative-vote": ([("rewrite", "tflux.metadata")], [VOTE], 6),
    "damaged-metadata-term-zero": ([("rewrite", "tflux.metadata")], [VOTE], 6),
    "damaged-missing-middle-segment": (
        [("move aside", "log/0000000000000000004.log")],
        ["LSN 2 to 5"],
        2,
    ),
    "damaged-negative-length-tail": ([("cut", FIRST)], ["LSN 5"], 5),
    "damaged-partial-end-marker": ([("cut", FIRST)], [], 6),
    "damaged-short-header-3": ([("rewrite", FIRST)], [], 0),
    "damaged-snapshot-crc": ([("empty", "tflux.snapshot")], [], 6),
    "damaged-snapshot-marker": ([("empty", "tflux.snapshot")], [BEYOND], 6),
    "damaged-snapshot-negative-length": ([("empty", "tflux.snapshot")], [], 6),
    "damaged-snapshot-short": ([("empty", "tflux.snapshot")], [BEYOND], 6),
    "damaged-snapshot-term-zero": ([("empty", "tflux.snapshot")], [], 6),
    "damaged-term-zero": ([("cut", FIRST)], ["LSN 5"], 5),
    "damaged-torn-in-header-eof": ([("cut", FIRST)], [], 5),
    "damaged-torn-last-record-eof": ([("cut", FIRST)], [], 5),
    "damaged-wrong-file-marker": ([("rewrite", FIRST)], [], 6),
    "damaged-wrong-record-marker": ([("cut", FIRST)], ["LSN 3 on, to the end of the log"], 3),
    "delta-bad-queue-name": ([("cut", FIRST)], ["LSN 0"], 0),
    "delta-delete-default-queue": ([("cut", FIRST)], ["LSN 0"], 0),
    "delta-duplicate-create": ([("cut", FIRST)], ["LSN 1"], 1),
    "delta-empty": ([("cut", FIRST)], ["LSN 0"], 0),
    "delta-negative-limit": ([("cut", FIRST)], ["LSN 0"], 0),
    "delta-queue-array-without-range": ([("cut", FIRST)], ["LSN 0"], 0),
    "delta-range-reversed": ([("cut", FIRST)], ["LSN 0"], 0),
    "delta-remove-missing-record": ([("cut", FIRST)], ["LSN 0"], 0),
    "delta-unknown-code": ([("cut", FIRST)], ["LSN 0"], 0),
    "delta-unknown-type": ([("cut", FIRST)], ["LSN 0"], 0),
    "insert-after-gap": ([], [], 0),
    "log-not-from-zero-no-snapshot": ([], [], 0),
    "snapshot-behind-log-gap": (
        [("rewrite", "log/0000000000000000006.log"), ("move aside", "log/0000000000000000008.log")],
        ["LSN 6 to 8"],
        6,
    ),
    "snapshot-empty-payload": ([("empty", "tflux.snapshot")], [], 1),
    "snapshot-without-default-queue": ([("empty", "tflux.snapshot")], [], 1),
}


def test_every_case_that_is_not_clean_has_a_repair_or_a_reason():
    assert sorted(REPAIRS) == sorted(case for case, row in EXPECTED.items() if row.verdict != "clean")


@pytest.mark.parametrize("case", REPAIRS)
def test_a_damaged_directory_is_repaired_by_its_plan_and_keeps_its_originals(case, tmp_path):
    steps, lost, count = REPAIRS[case]
    path = materialise(case, tmp_path)
    before = snapshot_of(path)
    plan = Log(DIALECT, Disk(), str(path)).plan_repair()
    assert [(step.action, step.file) for step in plan.steps] == steps
    assert list(plan.lost) == lost
    assert snapshot_of(path) == before  # a plan changes nothing
    if not steps:
        assert plan.refusal
        with pytest.raises((RefusedError, UnsupportedError)):
            plan.apply()
        assert snapshot_of(path) == before
        return
    plan.apply()
    after = snapshot_of(path)
    kept = {
        name.split("/", 2)[2]: content
        for name, content in after.items()
        if name.startswith("kept/") and content is not None and not name.endswith(RECORD_FILE)
    }
    touched = {name for name, content in before.items() if after.get(name) != content}
    assert touched == {file for _, file in steps if file in before}
    assert kept == {name: before[name] for name in touched}
    assert Log(DIALECT, Disk(), str(path)).verify().verdict == "clean"
    assert Log(DIALECT, Disk(), str(path)).plan_repair().empty
    with QueueStore(path) as store:
        assert store.findings == ()
        assert store.last_lsn == count - 1
        store.queue().add(b"one more")
    with ReplicaLog(path) as log:
        assert log.last_lsn == count


@pytest.mark.parametrize("case", [case for case in cases() if case not in REPAIRS])
def test_a_clean_directory_has_nothing_to_repair(case, tmp_path):
    path = materialise(case, tmp_path)
    plan = Log(DIALECT, Disk(), str(path)).plan_repair()
    assert plan.empty and plan.refusal is None and plan.lost == ()


def test_a_damaged_vote_is_not_given_twice(tmp_path):
    """In the log's term this node may have voted; after the repair it stands in the next one."""
    path = materialise("damaged-metadata-marker", tmp_path)
    Log(DIALECT, Disk(), str(path)).plan_repair().apply()
    with ReplicaLog(path) as log:
        assert log.term == log.last_term + 1
        assert log.vote is None


def test_repair_is_refused_while_a_store_is_open(tmp_path):
    with QueueStore(tmp_path) as store:
        store.queue().add(b"x")
    segment = tmp_path / "data" / FIRST
    whole = segment.read_bytes()
    segment.write_bytes(whole[:-2])  # a torn tail
    plan = Log(DIALECT, Disk(), str(tmp_path)).plan_repair()
    segment.write_bytes(whole)
    with QueueStore(tmp_path):
        segment.write_bytes(whole[:-2])
        with pytest.raises(LockedError):
            plan.apply()
        segment.write_bytes(whole)


def test_two_repairs_in_one_second_keep_both_originals(tmp_path):
    from flintlog.dialects.taskflux.upkeep.repair import plan_repair

    path = materialise("damaged-crc-wrong-last", tmp_path)
    segment = path / FIRST
    first = segment.read_bytes()
    plan_repair(Disk(), str(path), clock=lambda: 0).apply()
    segment.write_bytes(segment.read_bytes()[:-6])
    second = segment.read_bytes()
    plan_repair(Disk(), str(path), clock=lambda: 0).apply()
    kept = [content for name, content in snapshot_of(path / "kept").items() if name.endswith(".log")]
    assert sorted(kept) == sorted([first, second])


# Any damage


ROOT = "/"


def built(edition: str, *, snapshot: bool) -> State:
    kernel = MemoryKernel()
    limits = {"soft_limit": 150, "hard_limit": 150, "snapshot_threshold": 99}
    with ReplicaLog(ROOT, disk=Disk(kernel), edition=edition, **limits) as log:
        log.append(1, [delta(number) for number in range(16)])
        log.set_term(2, 1)
        if snapshot:
            log.commit(7)
            log.snapshot()
    return kernel.visible()


def delta(number: int) -> bytes:
    return encode_delta(AddRecord("", number, b"record %d" % number))


def damaged(state: State, random_: random.Random) -> State:
    """One file cut, gone, or with some bytes changed."""
    files, names = dict(state.files), {inode: dict(held) for inode, held in state.names.items()}
    inode = random_.choice([inode for inode, content in files.items() if content])
    content = bytearray(files[inode])
    match random_.randrange(6):
        case 0:
            del content[random_.randrange(len(content)) :]
        case 1:
            for held in names.values():
                for name in [name for name, target in held.items() if target == inode]:
                    del held[name]
        case 2:
            at = random_.randrange(len(content))
            content[at : at + 40] = bytes(len(content[at : at + 40]))
        case 3:
            at = random_.randrange(len(content))
            content[at:at] = random_.randbytes(random_.randrange(1, 9))
        case _:
            for _ in range(random_.randrange(1, 4)):
                content[random_.randrange(len(content))] ^= 1 << random_.randrange(8)
    files[inode] = bytes(content)
    return State(files, names)


@pytest.mark.parametrize("snapshot", [False, True], ids=["log", "snapshot-and-log"])
@pytest.mark.parametrize("edition", ["designed", "shipped"])
def test_any_damage_is_repaired_to_a_prefix_or_refused_and_never_loses_an_original(edition, snapshot):
    state = built(edition, snapshot=snapshot)
    random_ = random.Random(f"{edition} {snapshot}")
    repaired = refused = opened = 0
    for _ in range(400):
        kernel = MemoryKernel(damaged(state, random_))
        if opens(kernel):
            opened += 1
            continue
        for _ in range(4):  # what stood behind one damage is seen when that is mended
            before = dict(kernel.visible().tree())
            try:
                plan = Log(DIALECT, Disk(kernel), ROOT).plan_repair()
            except FlintlogError:
                refused += 1
                break
            if plan.refusal is not None:
                refused += 1
                break
            assert plan.steps, [finding.json() for finding in plan.findings]
            plan.apply()
            check_kept(before, dict(kernel.visible().tree()))
            if opens(kernel):
                repaired += 1
                break
        else:
            raise AssertionError("four repairs did not help")
    assert repaired > 50 and refused > 0 and opened > 0


def opens(kernel: MemoryKernel) -> bool:
    try:
        with QueueStore(ROOT, disk=Disk(kernel)) as store:
            rows = store.queue().records()
            # Ids, keys and payloads are those of a prefix of the entries: nothing is shifted, nothing invented.
            assert [row.id for row in rows] == list(range(1, len(rows) + 1))
            assert all(row.payload == b"record %d" % row.key and row.key == row.id - 1 for row in rows)
    except (DamageError, UnsupportedError):
        return False
    return True


def check_kept(before: dict[str, bytes | None], after: dict[str, bytes | None]) -> None:
    kept = [content for name, content in after.items() if name.startswith("/data/kept/")]
    for name, content in before.items():
        if content and after.get(name) != content and "/temp" not in name:
            assert content in kept, name
