"""Nobody sees a change before it is saved."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from contextlib import contextmanager

import pytest

from flintlog import QueueStore
from flintlog.dialects.taskflux.store.errors import QueueExistsError, QueueMissingError, RecordMissingError
from flintlog.disk import Disk
from flintlog.disk.kernel import LocalKernel
from flintlog.errors import DiskError, RefusedError, StoppedError

PATIENCE = 60


class HeldKernel(LocalKernel):
    """Its syncs wait, or fail, while somebody asks for it."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.go_on = threading.Event(), threading.Event()
        self.holds = self.fails = False

    def sync(self, handle: int) -> None:
        if self.holds:
            self.reached.set()
            assert self.go_on.wait(PATIENCE)
        if self.fails:
            raise OSError(errno.EIO, "the device failed")
        super().sync(handle)


class Bench:
    """A store with a queue, records in it, and one of them handed out."""

    def __init__(self, path) -> None:
        self.kernel = HeldKernel()
        self.store = QueueStore(path, disk=Disk(self.kernel))
        self.queue = self.store.create("mail")
        self.queue.add_many([b"a", b"b", b"c"])
        self.queue.add(b"d")
        self.taken = self.queue.take()

    def view(self) -> dict[str, object]:
        try:
            mail = self.store.queue("mail")
        except QueueMissingError:
            return {"names": [spec.name for spec in self.store.list()]}
        return {
            "names": [spec.name for spec in self.store.list()],
            "records": [record.id for record in mail.records()],
            "length": len(mail),
            "in flight": mail.in_flight,
        }

    @contextmanager
    def held(self, act: Callable[[], object]):
        """A block that runs while `act` waits for its sync in another thread."""
        self.kernel.holds = True
        worker = threading.Thread(target=act)
        worker.start()
        try:
            assert self.kernel.reached.wait(PATIENCE)
            yield
        finally:
            self.kernel.holds = False
            self.kernel.go_on.set()
            worker.join(PATIENCE)
        assert not worker.is_alive()


@pytest.fixture
def bench(tmp_path):
    made = Bench(tmp_path)
    yield made
    made.store.close()


CHANGES = {
    "create": lambda bench: bench.store.create("news"),
    "delete": lambda bench: bench.store.delete("mail"),
    "remove": lambda bench: bench.queue.remove(3),
    "remove the first": lambda bench: bench.queue.remove(2),
    "remove a loose one": lambda bench: bench.queue.remove(4),
    "ack": lambda bench: bench.taken.ack(),
    "add": lambda bench: bench.queue.add(b"e"),
    "add_many": lambda bench: bench.queue.add_many([b"e", b"f"]),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_seen_when_it_is_saved(bench, change):
    before = bench.view()
    with bench.held(lambda: CHANGES[change](bench)):
        assert bench.view() == before
    assert bench.view() != before


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_that_was_not_saved_is_never_seen(bench, tmp_path, change):
    bench.kernel.fails = True
    with pytest.raises(DiskError):
        CHANGES[change](bench)
    with pytest.raises(StoppedError):
        bench.store.list()
    bench.kernel.fails = False
    bench.store.close()
    with QueueStore(tmp_path) as store:  # it may have come to the disk; what was there before is there
        kept = {record.id for queue in store for record in queue.records()}
        assert kept >= {2, 3, 4} - {
            {"remove": 3, "remove the first": 2, "remove a loose one": 4}.get(change)
        } or (change == "delete")


def test_a_record_whose_removal_is_on_its_way_is_neither_taken_nor_removed_again(bench):
    with bench.held(lambda: bench.queue.remove(2)):
        assert bench.queue.peek().id == 3
        assert bench.queue.take().id == 3
        with pytest.raises(RecordMissingError):
            bench.queue.remove(2)


def test_a_record_whose_acknowledgement_is_on_its_way_is_not_given_back(bench):
    with bench.held(bench.taken.ack):
        for again in (bench.taken.ack, bench.taken.nack):
            with pytest.raises(RefusedError, match="acknowledged already"):
                again()


def test_nothing_is_written_behind_a_deletion(bench, tmp_path):
    said = []

    def write(act: Callable[[], object]) -> None:
        try:
            act()
        except QueueMissingError:
            said.append("missing")

    acts = [lambda: bench.queue.add(b"x"), bench.taken.ack, lambda: bench.queue.remove(3)]
    writers = [threading.Thread(target=write, args=(act,)) for act in acts]
    with bench.held(lambda: bench.store.delete("mail")):
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join(0.05)
        assert said == []
    for writer in writers:
        writer.join(PATIENCE)
    assert said == ["missing"] * 3
    bench.store.close()
    with QueueStore(tmp_path) as store:
        assert [spec.name for spec in store.list()] == [""]


def test_a_queue_that_is_being_made_is_made_once(bench):
    said = []

    def make() -> None:
        try:
            bench.store.create("news")
        except QueueExistsError:
            said.append("there")

    second = threading.Thread(target=make)
    with bench.held(lambda: bench.store.create("news")):
        with pytest.raises(QueueMissingError):
            bench.store.delete("news")
        second.start()
        second.join(0.05)
        assert said == []
    second.join(PATIENCE)
    assert said == ["there"]


def test_those_who_wait_behind_a_change_that_fails_learn_of_it(bench):
    said = []

    def write() -> None:
        try:
            bench.queue.add(b"x")
        except StoppedError:
            said.append("stopped")

    def delete() -> None:
        with pytest.raises(DiskError):
            bench.store.delete("mail")

    writer = threading.Thread(target=write)
    with bench.held(delete):
        writer.start()
        writer.join(0.05)
        bench.kernel.fails = True
    writer.join(PATIENCE)
    bench.kernel.fails = False
    assert said == ["stopped"]
