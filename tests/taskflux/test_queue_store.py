"""What `QueueStore` promises an application, call by call."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import numpy as np
import pytest

from flintlog import QueueStore
from flintlog.dialects.taskflux.layout import QueueSpec
from flintlog.dialects.taskflux.store.errors import (
    KeyRangeError,
    LimitError,
    PayloadSizeError,
    QueueExistsError,
    QueueFullError,
    QueueMissingError,
    RecordMissingError,
)
from flintlog.disk import Disk
from flintlog.errors import ClosedError, LockedError, RefusedError, UsageError
from flintlog.testing import MemoryKernel

ROOT = "/srv/queues"


@pytest.fixture
def kernel():
    return MemoryKernel()


@pytest.fixture
def store(kernel):
    with opened(kernel) as store:
        yield store


def opened(kernel: MemoryKernel, **options) -> QueueStore:
    return QueueStore(ROOT, disk=Disk(kernel), **options)


def rows(queue) -> list[tuple[int, int, bytes]]:
    return [tuple(record) for record in queue.records()]


# Order and ids


def test_the_lowest_key_comes_first_and_equal_keys_in_the_order_of_arrival(store):
    queue = store.queue()
    for key, payload in [(5, b"a"), (-3, b"b"), (5, b"c"), (-(2**63), b"d"), (2**63 - 1, b"e"), (-3, b"f")]:
        queue.add(payload, key)
    assert [queue.take().payload for _ in range(6)] == [b"d", b"b", b"f", b"a", b"c", b"e"]
    assert queue.take() is None


def test_ids_count_from_one_in_each_queue_and_are_not_used_again(kernel):
    with opened(kernel) as store:
        other = store.create("other")
        assert [store.queue().add(b""), store.queue().add(b""), other.add(b"")] == [1, 2, 1]
        store.queue().remove(2)
        assert store.queue().add(b"") == 3
        store.queue().remove(3)
    with opened(kernel) as store:
        assert store.queue().last_id == 3
        assert store.queue().add(b"") == 4


def test_a_queue_that_is_deleted_and_made_again_counts_from_one(kernel):
    with opened(kernel) as store:
        store.create("q").add_many([b"x"] * 3)
        store.delete("q")
        assert store.create("q").add(b"new") == 1
    with opened(kernel) as store:
        assert rows(store.queue("q")) == [(1, 0, b"new")]


def test_ids_survive_a_snapshot_that_covers_every_removal(kernel):
    with opened(kernel) as store:
        store.queue().add_many([b"x"] * 3)
        store.queue().ack_many(store.queue().take_many(3))
        store.snapshot()
    with opened(kernel) as store:
        assert store.queue().add(b"") == 4


# Taking, acknowledging, giving back


def test_what_was_taken_and_not_acknowledged_comes_back_in_its_place_after_a_restart(kernel):
    with opened(kernel) as store:
        queue = store.queue()
        queue.add_many([b"a", b"b", b"c"])
        first, second = queue.take_many(2)
        second.ack()
        assert (len(queue), queue.in_flight) == (1, 1)
        assert first.payload == b"a"
    with opened(kernel) as store:
        assert rows(store.queue()) == [(1, 0, b"a"), (3, 0, b"c")]


def test_a_record_in_flight_is_in_the_snapshot(kernel):
    with opened(kernel) as store:
        store.queue().add_many([b"a", b"b"])
        taken = store.queue().take()
        store.snapshot()
        taken.ack()
        store.queue().take()
        store.snapshot()
    with opened(kernel) as store:
        assert rows(store.queue()) == [(2, 0, b"b")]


def test_giving_back_puts_a_record_behind_all_of_its_key_until_the_next_start(kernel):
    with opened(kernel) as store:
        queue = store.queue()
        queue.add_many([b"a", b"b", b"z"], [0, 0, 1])
        queue.take().nack()
        assert [row[2] for row in rows(queue)] == [b"b", b"a", b"z"]
        assert store.last_lsn == 2  # nothing is logged
    with opened(kernel) as store:
        assert [row[2] for row in rows(store.queue())] == [b"a", b"b", b"z"]


def test_acknowledging_twice_is_refused_and_writes_nothing(store):
    store.queue().add(b"x")
    taken = store.queue().take()
    taken.ack()
    before = store.last_lsn
    for again in (taken.ack, taken.nack):
        with pytest.raises(RefusedError, match="record 1 of queue '' is not handed out"):
            again()
    assert store.last_lsn == before


def test_acknowledging_one_record_twice_in_one_call_is_refused_and_acknowledges_none(store):
    store.queue().add_many([b"x", b"y"])
    first, second = store.queue().take_many(2)
    with pytest.raises(UsageError):
        store.queue().ack_many([first, second, first])
    assert store.queue().in_flight == 2
    store.queue().ack_many([first, second])


def test_a_stale_handle_does_not_acknowledge_who_took_the_record_next(store):
    store.queue().add(b"x")
    old = store.queue().take()
    old.nack()
    new = store.queue().take()
    with pytest.raises(RefusedError):
        old.ack()
    new.ack()
    assert (len(store.queue()), store.queue().in_flight) == (0, 0)


def test_a_record_of_one_queue_is_not_acknowledged_in_another(store):
    other = store.create("other")
    store.queue().add(b"x")
    other.add(b"y")
    taken = store.queue().take()
    other.take()
    with pytest.raises(RefusedError):
        other.ack_many([taken])
    taken.ack()


def test_a_block_that_ends_well_acknowledges_and_one_that_raises_gives_back(store):
    queue = store.queue()
    queue.add_many([b"x", b"y"])
    with queue.take() as taken:
        assert taken.payload == b"x"
    with pytest.raises(ZeroDivisionError), queue.take() as taken:
        raise ZeroDivisionError
    assert rows(queue) == [(2, 0, b"y")]


def test_acknowledging_nothing_writes_nothing(store):
    store.queue().ack_many([])
    assert store.last_lsn == -1


# Looking and removing


def test_peek_shows_what_take_hands_out_and_takes_nothing(store):
    assert store.queue().peek() is None
    store.queue().add_many([b"b", b"a"], [1, 0])
    assert tuple(store.queue().peek()) == (2, 0, b"a")
    assert store.queue().take().id == 2
    assert tuple(store.queue().peek()) == (1, 1, b"b")


def test_remove_takes_a_record_out_of_the_middle_for_good(kernel):
    with opened(kernel) as store:
        store.queue().add_many([b"a", b"b", b"c"])
        assert tuple(store.queue().remove(2)) == (2, 0, b"b")
        with pytest.raises(RecordMissingError, match="no waiting record 2"):
            store.queue().remove(2)
    with opened(kernel) as store:
        assert rows(store.queue()) == [(1, 0, b"a"), (3, 0, b"c")]


@pytest.mark.parametrize("id_", [0, -1, 4, 2**63, 2**64])
def test_removing_an_id_that_is_not_there_is_refused(id_, store):
    store.queue().add_many([b"a", b"b", b"c"])
    with pytest.raises(RecordMissingError):
        store.queue().remove(id_)
    assert store.last_lsn == 2


def test_removing_a_record_in_flight_is_refused(store):
    store.queue().add(b"x")
    taken = store.queue().take()
    with pytest.raises(RefusedError, match="handed out") as caught:
        store.queue().remove(1)
    assert caught.value.code == "refused"
    taken.ack()


# Limits


def test_a_full_queue_names_its_size_and_counts_what_may_come_back(store):
    queue = store.create("q", max_size=2)
    queue.add_many([b"", b""])
    with pytest.raises(QueueFullError, match="'q' holds 2 records and at most 2; 1 more") as caught:
        queue.add(b"")
    assert caught.value.code == "queue-full"
    taken = queue.take()
    with pytest.raises(QueueFullError):  # the worker may give it back, or die
        queue.add(b"")
    taken.nack()
    assert len(queue) == 2
    queue.take().ack()
    queue.add(b"")
    assert len(queue) == 2


def test_a_batch_that_does_not_fit_whole_adds_none(store):
    queue = store.create("q", max_size=2)
    with pytest.raises(QueueFullError, match="3 more do not fit"):
        queue.add_many([b""] * 3)
    assert (len(queue), queue.last_id) == (0, 0)
    assert list(queue.add_many([b""] * 2)) == [1, 2]


def test_a_queue_of_size_zero_takes_nothing(store):
    with pytest.raises(QueueFullError):
        store.create("q", max_size=0).add(b"")


@pytest.mark.parametrize(("key", "good"), [(-3, False), (-2, True), (2, True), (3, False)])
def test_the_key_range_holds_at_both_ends_and_is_named(key, good, store):
    queue = store.create("q", code=2, key_range=(-2, 2))
    if good:
        queue.add(b"", key)
        return
    with pytest.raises(KeyRangeError, match=rf"key {key} is outside -2\.\.2") as caught:
        queue.add(b"", key)
    assert caught.value.code == "key-range"
    with pytest.raises(KeyRangeError, match=rf"key {key} "):
        queue.add_many([b""] * 3, [0, key, 0])


def test_the_payload_limit_holds_and_is_named(store):
    queue = store.create("q", max_payload=3)
    queue.add(b"abc")
    with pytest.raises(PayloadSizeError, match="a payload of 4 bytes is over the limit of 3") as caught:
        queue.add(b"abcd")
    assert caught.value.code == "payload-size"
    with pytest.raises(PayloadSizeError):
        queue.add_many([b"", b"abcd"])


def test_limits_are_checked_in_the_order_of_the_format_page(store):
    queue = store.create("q", max_size=0, key_range=(0, 0), max_payload=0)
    with pytest.raises(QueueFullError):
        queue.add(b"x", 1)
    queue = store.create("r", key_range=(0, 0), max_payload=0)
    with pytest.raises(KeyRangeError):
        queue.add(b"x", 1)
    assert all(issubclass(error, LimitError) for error in (QueueFullError, KeyRangeError, PayloadSizeError))


def test_limits_survive_a_restart_and_a_snapshot(kernel):
    specs = [
        QueueSpec(""),
        QueueSpec("a", 2, 1, 2, (-5, 5)),
        QueueSpec("b", 1, 0, None, (-(2**63), 2**63 - 1)),
        QueueSpec("c", 1, None, 2**31 - 1),
    ]
    with opened(kernel) as store:
        for spec in specs[1:]:
            store.create(
                spec.name,
                code=spec.code,
                max_size=spec.max_size,
                max_payload=spec.max_payload,
                key_range=spec.key_range,
            )
        assert store.list() == specs
    with opened(kernel) as store:
        assert store.list() == specs
        store.snapshot()
    with opened(kernel) as store:
        assert store.list() == specs
        store.queue("a").add(b"")
        with pytest.raises(QueueFullError):
            store.queue("a").add(b"")


@pytest.mark.parametrize("key", [2**63, -(2**63) - 1, 1.5, "1", None])
def test_a_key_that_is_no_whole_number_of_64_bits_is_refused(key, store):
    with pytest.raises(KeyRangeError, match="64 bits"):
        store.queue().add(b"", key)
    assert store.last_lsn == -1


def test_a_key_may_come_from_a_numpy_column(store):
    store.queue().add(b"x", np.int64(-7))
    assert rows(store.queue()) == [(1, -7, b"x")]


@pytest.mark.parametrize("payload", ["text", 5, None, [1]])
def test_a_payload_that_is_not_bytes_is_refused(payload, store):
    with pytest.raises(UsageError):
        store.queue().add(payload)
    assert store.last_lsn == -1


def test_a_payload_is_copied_when_it_is_handed_in(store):
    payload = bytearray(b"before")
    store.queue().add(payload)
    store.queue().add_many([payload])
    payload[:] = b"after!"
    assert [row[2] for row in rows(store.queue())] == [b"before", b"before"]


# Queues


def test_creating_and_deleting_survive_a_restart(kernel):
    with opened(kernel) as store:
        store.create("a").add(b"x")
        store.create("b").add(b"y")
        store.delete("a")
    with opened(kernel) as store:
        assert [spec.name for spec in store.list()] == ["", "b"]
        assert rows(store.queue("b")) == [(1, 0, b"y")]
        with pytest.raises(QueueMissingError, match="no queue 'a'"):
            store.queue("a")


def test_the_default_queue_is_there_and_cannot_be_deleted_or_made(store):
    with pytest.raises(RefusedError, match="always there"):
        store.delete("")
    with pytest.raises(QueueExistsError):
        store.create("")
    assert store.queue().add(b"") == 1


def test_a_queue_cannot_be_made_twice_or_deleted_when_it_is_not_there(store):
    store.create("q")
    before = store.last_lsn
    with pytest.raises(QueueExistsError) as caught:
        store.create("q")
    assert caught.value.code == "queue-exists"
    with pytest.raises(QueueMissingError) as caught:
        store.delete("other")
    assert caught.value.code == "queue-missing"
    assert store.last_lsn == before


def test_the_handle_of_a_deleted_queue_refuses_every_call(store):
    queue = store.create("q")
    queue.add_many([b"x", b"y"])
    taken = queue.take()
    store.delete("q")
    store.create("q")
    for act in (
        lambda: queue.add(b""),
        lambda: queue.add_many([b""]),
        queue.take,
        queue.peek,
        queue.records,
        lambda: queue.remove(2),
        taken.ack,
        taken.nack,
    ):
        with pytest.raises(QueueMissingError):
            act()
    assert len(store.queue("q")) == 0


@pytest.mark.parametrize("name", ["a b", "\x7f", "\t", "é", "a\nb", "\x00", "q" * 256])
def test_names_outside_the_94_characters_or_over_255_are_refused(name, store):
    with pytest.raises(UsageError):
        store.create(name)
    with pytest.raises((UsageError, QueueMissingError)):
        store.delete(name)
    assert store.last_lsn == -1


@pytest.mark.parametrize(
    "limits",
    [
        {"code": 0},
        {"code": 3},
        {"code": 2},  # buckets need a range
        {"max_size": -1},
        {"max_size": 2**31},
        {"max_payload": -1},
        {"key_range": (1, 0)},
        {"key_range": (0, 2**63)},
    ],
)
def test_a_queue_that_cannot_be_is_refused(limits, store):
    with pytest.raises(UsageError):
        store.create("q", **limits)
    assert store.last_lsn == -1


def test_a_name_that_looks_like_a_path_is_a_name(tmp_path):
    names = ["../escape", "/etc/passwd", "..", "../../data/tflux.metadata", "log/0000000000000000000.log"]
    root = tmp_path / "root"
    with QueueStore(root) as store:
        for name in names:
            store.create(name).add(b"x")
        store.snapshot()
        store.delete(names[0])
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == [
        "root",
        "root/data",
        "root/data/log",
        "root/data/log/0000000000000000000.log",
        "root/data/temp",
        "root/data/tflux.metadata",
        "root/data/tflux.snapshot",
    ]
    with QueueStore(root) as store:
        assert [spec.name for spec in store.list()] == sorted(["", *names[1:]])


# The store and its directory


def test_two_stores_on_one_directory_are_refused(tmp_path):
    with QueueStore(tmp_path) as store:
        with pytest.raises(LockedError) as caught:
            QueueStore(tmp_path)
        assert caught.value.code == "locked" and caught.value.file == f"{tmp_path}/data"
        store.queue().add(b"x")
    with QueueStore(tmp_path) as store:
        assert len(store.queue()) == 1


def test_another_process_is_refused_while_the_store_is_open_and_let_in_afterwards(tmp_path):
    program = (
        "import sys; from flintlog import QueueStore\n"
        "try: store = QueueStore(sys.argv[1])\n"
        "except Exception as error: print(type(error).__name__)\n"
        "else: print(store.queue().add(b'theirs')); store.close()\n"
    )

    def run() -> str:
        return subprocess.run(
            [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True
        ).stdout.strip()

    with QueueStore(tmp_path) as store:
        store.queue().add(b"ours")
        assert run() == "LockedError"
    assert run() == "2"
    with QueueStore(tmp_path) as store:
        assert [row[2] for row in rows(store.queue())] == [b"ours", b"theirs"]


def test_the_lock_outlives_a_new_metadata_file(tmp_path):
    """Term and vote are replaced by a rename; the name is locked at every moment."""
    from flintlog import ReplicaLog

    with ReplicaLog(tmp_path) as log:
        log.set_term(2, 1)
        log.set_term(3)
        with pytest.raises(LockedError):
            QueueStore(tmp_path)
    QueueStore(tmp_path).close()


def test_a_closed_store_refuses_every_call_and_closes_twice(kernel):
    store = opened(kernel)
    queue = store.queue()
    queue.add(b"x")
    store.close()
    store.close()
    for act in (lambda: queue.add(b""), queue.take, queue.peek, store.queue, store.snapshot):
        with pytest.raises(ClosedError):
            act()
    with pytest.raises(ClosedError):
        store.create("q")


def test_a_store_refused_for_a_closed_directory_leaves_no_queue_behind(kernel):
    with opened(kernel) as store:
        pass
    with pytest.raises(ClosedError):
        store.create("q")
    with opened(kernel) as store:
        assert [spec.name for spec in store.list()] == [""]


def test_an_edition_that_the_directory_does_not_have_is_refused(tmp_path):
    QueueStore(tmp_path, edition="shipped").close()
    with pytest.raises(RefusedError, match="shipped edition, not designed"):
        QueueStore(tmp_path, edition="designed")
    with QueueStore(tmp_path) as store:
        assert store.edition == "shipped"


def test_a_root_and_its_data_directory_are_the_same_store(tmp_path):
    with QueueStore(tmp_path) as store:
        store.queue().add(b"x")
    with QueueStore(tmp_path / "data") as store:
        assert rows(store.queue()) == [(1, 0, b"x")]
    assert not (tmp_path / "data" / "data").exists()


def test_foreign_files_are_left_alone(tmp_path):
    QueueStore(tmp_path).close()
    (tmp_path / "data" / "tflux.log").write_bytes(b"of the note's tree")
    (tmp_path / "data" / "log" / "0000000000000000000.log.old").write_bytes(b"mine")
    (tmp_path / "data" / "log" / "-000000000000000001.log").write_bytes(b"mine")
    with QueueStore(tmp_path) as store:
        store.queue().add(b"x")
        store.snapshot()
    assert (tmp_path / "data" / "tflux.log").read_bytes() == b"of the note's tree"
    assert (tmp_path / "data" / "log" / "0000000000000000000.log.old").read_bytes() == b"mine"
    assert (tmp_path / "data" / "log" / "-000000000000000001.log").read_bytes() == b"mine"


# Segments and snapshots


@pytest.mark.parametrize("edition", ["designed", "shipped"])
def test_segments_roll_by_the_limits_and_go_when_a_snapshot_covers_them(edition, kernel):
    options = {"soft_limit": 200, "hard_limit": 400, "snapshot_threshold": 10**6}
    with opened(kernel, edition=edition, **options) as store:
        for number in range(40):
            store.queue().add(b"x" * 20, number)
        before = segments(kernel)
        assert len(before) > 5
        assert store.snapshot() == 39
        assert segments(kernel) == before[-1:]  # every LSN of the others is below 39
        assert [row[1] for row in rows(store.queue())] == list(range(40))
    with opened(kernel) as store:
        assert [row[1] for row in rows(store.queue())] == list(range(40))
        assert store.queue().last_id == 40


def segments(kernel: MemoryKernel) -> list[str]:
    return sorted(kernel.list(f"{ROOT}/data/log"))


def test_snapshots_come_by_themselves_when_enough_segments_are_closed(kernel):
    options = {"soft_limit": 100, "hard_limit": 100, "snapshot_threshold": 2}
    with opened(kernel, snapshot_in_background=False, **options) as store:
        most = 0
        for number in range(50):
            store.queue().add(b"x" * 50, number)
            most = max(most, len(segments(kernel)))
        assert store.snapshot_lsn > 40
        assert most <= 5
    with opened(kernel) as store:
        assert len(store.queue()) == 50


def test_a_snapshot_of_nothing_new_is_not_written(kernel):
    with opened(kernel) as store:
        assert store.snapshot() == -1
        store.queue().add(b"x")
        assert store.snapshot() == 0
        calls = len(kernel.log)
        assert store.snapshot() == 0
        assert len(kernel.log) == calls


def test_a_snapshot_is_never_changed_only_replaced(tmp_path):
    path = tmp_path / "data" / "tflux.snapshot"
    with QueueStore(tmp_path) as store:
        store.queue().add(b"first")
        store.snapshot()
        old = path.read_bytes()
        with path.open("rb") as file:  # holds the old one, whatever happens to its name
            store.queue().add(b"second")
            assert path.read_bytes() == old
            store.snapshot()
            assert file.read() == old
        assert path.read_bytes() != old


def test_a_torn_tail_is_cut_on_opening_and_told(kernel):
    with opened(kernel) as store:
        store.queue().add(b"x")
    name = f"{ROOT}/data/log/0000000000000000000.log"
    with Disk(kernel).open(name, "write") as file:
        file.truncate(file.size() - 6)
    with opened(kernel) as store:
        [finding] = store.findings
    assert (finding.code, finding.file, finding.offset) == ("torn-tail", "log/0000000000000000000.log", 8)


# What the original must be able to restore, and readers survive


def test_a_range_of_buckets_that_the_original_cannot_restore_is_refused_in_its_edition(tmp_path):
    with QueueStore(tmp_path / "shipped", edition="shipped") as store:
        with pytest.raises(UsageError, match="too wide"):
            store.create("wide", code=2, key_range=(0, 2**31 - 2))
        store.create("wide-enough", code=2, key_range=(0, 10**8))
        store.create("heap", code=1, key_range=(-(2**63), 2**63 - 1))
    with QueueStore(tmp_path / "designed", edition="designed") as store:
        store.create("wide", code=2, key_range=(0, 2**31 - 2))


def test_a_preallocated_segment_has_its_header_before_it_grows():
    kernel = MemoryKernel()
    QueueStore("/q", disk=Disk(kernel), edition="shipped", preallocate=True, soft_limit=4096)
    calls = [str(call) for call in kernel.log if "/log/0" in str(call)]
    header = next(at for at, call in enumerate(calls) if call.startswith("write"))
    grows = next(at for at, call in enumerate(calls) if "4096" in call)
    assert header < grows


def test_a_large_segment_is_not_cut_while_a_reader_may_have_mapped_it(tmp_path):
    """Its reserve stays: 63.5 MiB of records and 1 MiB of zeros are mapped by readers, and a cut would kill them."""
    limit = 200 << 20
    with QueueStore(tmp_path, soft_limit=limit, hard_limit=limit) as store:
        store.queue().add_many([bytes(1 << 20)] * 63)
        store.queue().add(b"brings zeros along")
        [path] = (tmp_path / "data" / "log").iterdir()
        with Disk().open(str(path)) as file:
            view = file.view(copy=True)
    assert view[len(view) - 1] == 0  # killed by SIGBUS where the file had been cut


def test_what_opening_cuts_is_kept(tmp_path):
    with QueueStore(tmp_path) as store:
        store.queue().add(b"whole")
    [path] = (tmp_path / "data" / "log").iterdir()
    whole = path.read_bytes()
    with QueueStore(tmp_path) as store:
        store.queue().add(b"torn")
    torn = path.read_bytes()[: len(whole) + 10]
    path.write_bytes(torn)
    with QueueStore(tmp_path) as store:
        assert [finding.code for finding in store.findings] == ["torn-tail"]
    [kept] = (tmp_path / "data" / "kept" / "opened").iterdir()
    assert kept.read_bytes() == torn[len(whole) - 4 :]


def test_a_queue_that_is_asked_for_twice_is_made_once(tmp_path):
    for _ in range(2):
        with QueueStore(tmp_path) as store:
            with pytest.raises(QueueMissingError):
                store.queue("other")
            store.queue("mail", create=True).add(b"letter")
    with QueueStore(tmp_path) as store:
        assert len(store.queue("mail")) == 2


def test_threads_that_make_the_same_queue_get_the_same(tmp_path):
    with QueueStore(tmp_path) as store, ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda number: store.queue(f"q{number % 3}", create=True), range(60)))
        assert len(set(map(id, made))) == 3


@pytest.mark.parametrize("end", ["ack", "nack"])
def test_a_block_that_ends_its_record_itself_ends_it_once(end, tmp_path):
    with QueueStore(tmp_path) as store:
        store.queue().add(b"letter")
        with store.queue().take() as letter:
            getattr(letter, end)()
        assert len(store.queue()) == (end == "nack")
        store.queue().add(b"another")
        with suppress(ZeroDivisionError), store.queue().take() as letter:
            getattr(letter, end)()
            _ = 1 / 0
        assert store.queue().in_flight == 0
