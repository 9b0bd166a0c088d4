"""Crash scenarios of `RaftStore`. An item of the history is one step of a peer's storage.

The format has no checksums: the design rests on slots of four bytes that are never torn, so writes tear at
multiples of four bytes here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tests.crash.promises import judge

from flintlog.dialects.zmqraft.files import list_files
from flintlog.dialects.zmqraft.layout import TABLE_OFFSET, Entry, index_path
from flintlog.dialects.zmqraft.scan import read_table
from flintlog.dialects.zmqraft.store import RaftStore, Stamps
from flintlog.disk import Disk
from flintlog.testing import History, Scenario, Suite

ROOT = "/srv/peer"
NOW = 1_800_000_000.0


@dataclass(frozen=True)
class Peer:
    """What a peer holds; `entries` are those behind the snapshot, as (term, data)."""

    term: int = 0
    vote: str | None = None
    applied: int = 0
    snapshot: tuple[int, int, bytes] = (0, 0, b"")
    entries: tuple[tuple[int, bytes], ...] = ()

    @property
    def last(self) -> int:
        return self.snapshot[0] + len(self.entries)


@dataclass(frozen=True)
class Append:
    term: int
    data: bytes


@dataclass(frozen=True)
class Truncate:
    first_gone: int


@dataclass(frozen=True)
class Remember:
    term: int
    vote: str | None


@dataclass(frozen=True)
class Applied:
    index: int


@dataclass(frozen=True)
class Install:
    index: int
    term: int
    data: bytes


Step = Append | Truncate | Remember | Applied | Install


def after(peer: Peer, step: Step) -> Peer:
    match step:
        case Append(term, data):
            return replace(peer, entries=(*peer.entries, (term, data)))
        case Truncate(first_gone):
            kept = peer.entries[: first_gone - peer.snapshot[0] - 1]
            return replace(peer, entries=kept, applied=min(peer.applied, first_gone - 1))
        case Remember(term, vote):
            return replace(peer, term=term, vote=vote)
        case Applied(index):
            return replace(peer, applied=index)
        case Install(index, term, data):
            if agrees(peer, step):
                return replace(
                    peer, snapshot=(index, term, data), entries=peer.entries[index - peer.snapshot[0] :]
                )
            return replace(peer, snapshot=(index, term, data), entries=(), applied=min(peer.applied, index))


def agrees(peer: Peer, snapshot: Install) -> bool:
    at = snapshot.index - peer.snapshot[0]
    if at == 0:
        return snapshot.term == peer.snapshot[1]
    return 0 < at <= len(peer.entries) and peer.entries[at - 1][0] == snapshot.term


def between(peer: Peer, step: Step) -> set[Peer]:
    """What a crash inside a step may leave besides before and after: a log that is rolled back in part.

    What is applied is lowered first.
    """
    lowered = replace(peer, applied=after(peer, step).applied)
    if isinstance(step, Install):
        return {lowered}
    if not isinstance(step, Truncate):
        return set()
    keep = step.first_gone - peer.snapshot[0] - 1
    return {replace(lowered, entries=peer.entries[:count]) for count in range(keep, len(peer.entries) + 1)}


def opened(disk: Disk, **options: Any) -> RaftStore:
    stamps = Stamps(clock=lambda: NOW, hostname="host", process=7)
    return RaftStore(ROOT, disk=disk, stamps=stamps, **({"capacity": 4} | options))


def shown(store: RaftStore) -> Peer:
    state = store.hard_state
    entries = tuple((entry.term, entry.data) for entry in store.entries(store.snapshot_index + 1))
    snapshot = (store.snapshot_index, store.snapshot_term, b"".join(store.read_snapshot()))
    return Peer(state.term, state.vote, state.applied, snapshot, entries)


def files_that_are_not_full(disk: Disk) -> list[int]:
    """Those before the last; the original finds no entry behind one."""
    tables = []
    for file in list_files(disk, ROOT).index_files:
        with disk.open(f"{ROOT}/{file.name}") as opened_file:
            tables.append(read_table(opened_file.view(copy=True), file.first))
    return [table.first for table in tables[:-1] if len(table.ends) < table.capacity]


class PeerOracle:
    def recover(self, disk: Disk) -> Peer:
        with opened(disk) as store:
            peer = shown(store)
        assert not files_that_are_not_full(disk)
        return peer

    def check(self, observed: Peer, issued: Sequence[Step], acknowledged: Sequence[Step]) -> str | None:
        return judge(observed, issued, acknowledged, start=Peer(), after=after, between=between)

    def extend(self, disk: Disk, observed: Peer) -> Peer:
        with opened(disk) as store:
            store.append([Entry(99, b"one more")])
            store.set_hard_state(term=100)
        return replace(observed, term=100, vote=None, entries=(*observed.entries, (99, b"one more")))


class Driver:
    def __init__(self, disk: Disk, history: History[Step], **options: Any) -> None:
        self.store = opened(disk, **options)
        self.history = history
        history.opened(
            lambda: self.store.append([Entry(99, b"probe")]),
            lambda: self.store.truncate(self.store.last_index + 1),
        )

    def noted(self, steps: Sequence[Step], act: Callable[[], Any]) -> None:
        for step in steps:
            self.history.issue(step)
        act()
        for step in steps:
            self.history.acknowledge(step)

    def append(self, term: int, *datas: bytes) -> None:
        self.noted(
            [Append(term, data) for data in datas],
            lambda: self.store.append([Entry(term, data) for data in datas]),
        )

    def replace_from(self, index: int, term: int, *datas: bytes) -> None:
        steps = [Truncate(index), *(Append(term, data) for data in datas)]
        self.noted(steps, lambda: self.store.append_at(index, [Entry(term, data) for data in datas]))

    def receive(self, index: int, *entries: Entry) -> None:
        """Entries of a leader, of which some or all are here already."""
        fresh = entries[max(self.store.last_index + 1 - index, 0) :]
        steps = [Append(entry.term, entry.data) for entry in fresh]
        self.noted(steps, lambda: self.store.append_at(index, entries))

    def install_again(self, index: int, term: int, data: bytes) -> None:
        self.noted([], lambda: self.store.install_snapshot(index, term, [data[:3], data[3:]]))

    def truncate(self, index: int) -> None:
        self.noted([Truncate(index)], lambda: self.store.truncate(index))

    def remember(self, term: int, vote: str | None = None) -> None:
        self.noted([Remember(term, vote)], lambda: self.store.set_hard_state(term=term, vote=vote))

    def applied(self, index: int) -> None:
        self.noted([Applied(index)], lambda: self.store.set_hard_state(applied=index))

    def snapshot(self, index: int, data: bytes) -> None:
        term = self.store.term_of(index)
        self.noted([Install(index, term, data)], lambda: self.store.snapshot(index, data))

    def install(self, index: int, term: int, data: bytes) -> None:
        def act() -> None:
            received = self.store.receive_snapshot(index, term, len(data))
            received.write(data[4:], 4)
            received.write(data[:4], 0)
            self.store.install_received(received)

        self.noted([Install(index, term, data)], act)

    def close(self) -> None:
        self.store.close()


def new_peer(disk: Disk, history: History[Step]) -> None:
    driver = Driver(disk, history)
    driver.remember(1, "me")
    driver.append(1, b"first")
    driver.close()


def append_over_files(disk: Disk, history: History[Step]) -> None:
    driver = Driver(disk, history)
    driver.append(1, b"one")
    driver.append(1, *(b"entry %d" % number * (number + 1) for number in range(7)))
    driver.append(2, b"a longer entry " * 9)
    driver.close()


def large_batch(disk: Disk, history: History[Step]) -> None:
    driver = Driver(disk, history, capacity=64)
    driver.append(1, *(b"%03d" % number * 60 for number in range(40)))
    driver.append(1, b"after")
    driver.close()


def truncate_and_overwrite(disk: Disk, history: History[Step]) -> None:
    driver = Driver(disk, history)
    driver.append(1, *(b"entry %d" % number for number in range(10)))
    driver.applied(8)
    driver.truncate(10)
    driver.truncate(6)
    driver.append(2, b"other")
    driver.replace_from(3, 3, b"and", b"another", b"leader")
    driver.truncate(1)
    driver.append(4, b"from the start")
    driver.close()


def truncate_over_directories(disk: Disk, history: History[Step]) -> None:
    """Rolled back over the border between two directories of the tree."""
    border = 1 << 20
    driver = Driver(disk, history)
    driver.install(border - 9, 1, b"state before the border")
    driver.append(1, *(b"entry %d" % number for number in range(11)))
    driver.truncate(border - 3)
    driver.append(2, b"another", b"history")
    driver.close()


def overwrite_dirty_slots(disk: Disk, history: History[Step]) -> None:
    driver = Driver(disk, history, capacity=16)
    driver.append(1, *(b"entry %d" % number for number in range(9)))
    driver.truncate(3)
    driver.append(2, b"x")
    driver.append(2, b"y", b"z")
    driver.close()


def rolled_back_in_part(disk: Disk, history: History[Step]) -> None:
    """A rollback of which only the first slot reached the disk: others of the old life follow it."""
    driver = Driver(disk, history, capacity=16)
    driver.append(1, *(b"entry %d" % number for number in range(9)))
    with disk.open(f"{ROOT}/{index_path(1)}", "write") as file:
        slots = file.pread(SLOT * 6, TABLE_OFFSET + SLOT * 3)
        driver.truncate(3)
        driver.close()
        file.pwrite(slots, TABLE_OFFSET + SLOT * 3)


def append_before_dirty_slots(disk: Disk, history: History[Step]) -> None:
    driver = Driver(disk, history, capacity=16)
    driver.append(2, b"x")
    driver.append(2, b"y", b"z")
    driver.close()


def append_over_dirty_slots(disk: Disk, history: History[Step]) -> None:
    """The new slots stand where those of the old life are: a tear must not join the two."""
    driver = Driver(disk, history, capacity=16)
    driver.append(2, b"", b"an odd size", b"xyz", b"and one that is longer than the others", b"v", b"w" * 5)
    driver.append(2, b"behind them")
    driver.close()


def terms_and_votes(disk: Disk, history: History[Step]) -> None:
    driver = Driver(disk, history)
    driver.append(1, *[b""] * 23)
    for term in range(1, 24):
        driver.remember(term, f"peer {term}")
        driver.applied(term)
    driver.close()


def state_rolls(disk: Disk, history: History[Step]) -> None:
    driver = Driver(disk, history)
    driver.remember(1, "a name that fills more than a sector" * 20)
    driver.remember(2, "me")
    driver.remember(3, "and another one" * 50)
    driver.close()


def compaction(disk: Disk, history: History[Step]) -> None:
    driver = Driver(disk, history)
    driver.append(1, *(b"entry %d" % number for number in range(11)))
    driver.snapshot(6, b"state at six")
    driver.append(2, b"next")
    driver.snapshot(12, b"state at twelve")
    driver.append(2, b"behind it")
    driver.close()


def received_again(disk: Disk, history: History[Step]) -> None:
    """A leader that hears nothing sends again: the same, a part of it, and more in one piece."""
    sent = [Entry(1 + number // 4, b"entry %d" % number * (number % 3 + 1)) for number in range(10)]
    driver = Driver(disk, history)
    driver.receive(1, *sent[:5])
    driver.applied(4)
    driver.receive(1, *sent[:5])
    driver.receive(4, *sent[3:8])
    driver.receive(2, *sent[1:4])
    driver.receive(3)
    driver.snapshot(6, b"state at six")
    driver.receive(4, *sent[3:])
    driver.install_again(6, 2, b"state at six")
    driver.receive(7, *sent[6:])
    driver.close()


def install_ahead(disk: Disk, history: History[Step]) -> None:
    driver = Driver(disk, history)
    driver.append(1, *(b"entry %d" % number for number in range(6)))
    driver.install(40, 5, b"state at forty, from afar")
    driver.append(5, b"behind it")
    driver.close()


def install_in_conflict(disk: Disk, history: History[Step]) -> None:
    driver = Driver(disk, history)
    driver.append(1, *(b"entry %d" % number for number in range(9)))
    driver.applied(7)
    driver.install(5, 3, b"another history")
    driver.append(3, b"behind it")
    driver.close()


def install_in_another_term(disk: Disk, history: History[Step]) -> None:
    """At the index of the snapshot that is there: no entry tells that the log is not of the new one."""
    driver = Driver(disk, history)
    driver.install(8, 2, b"state at eight")
    driver.append(2, *(b"entry %d" % number for number in range(5)))
    driver.applied(10)
    driver.install(8, 3, b"another state at eight")
    driver.append(3, b"behind it")
    driver.close()


def install_at_the_end(disk: Disk, history: History[Step]) -> None:
    driver = Driver(disk, history)
    driver.append(1, *(b"entry %d" % number for number in range(5)))
    driver.install(5, 1, b"all of it")
    driver.append(2, b"behind it")
    driver.close()


def size_rollover(disk: Disk, history: History[Step]) -> None:
    """The bytes run out with an even number of slots left, an odd one, and a single one."""
    driver = Driver(disk, history, capacity=8, data_size_max=220)
    for number in range(9):
        driver.append(1, b"%d" % number * 40)
    driver.append(1, b"x" * 100, b"y" * 100, b"z" * 100)
    driver.append(1, *(b"%d" % number * 13 for number in range(9)))
    driver.close()


SLOT = 4
ON_DIRTY_SLOTS = (append_before_dirty_slots, append_over_dirty_slots)
SUITE = Suite(
    "tests.crash.zmqraft_peer:SUITE",
    PeerOracle(),
    tuple(
        Scenario(
            function.__name__.replace("_", "-"),
            function,
            prepare=rolled_back_in_part if function in ON_DIRTY_SLOTS else None,
            atomic_bytes=SLOT,
        )
        for function in (
            new_peer,
            append_over_files,
            large_batch,
            truncate_and_overwrite,
            truncate_over_directories,
            overwrite_dirty_slots,
            *ON_DIRTY_SLOTS,
            terms_and_votes,
            state_rolls,
            compaction,
            received_again,
            install_ahead,
            install_in_conflict,
            install_in_another_term,
            install_at_the_end,
            size_rollover,
        )
    ),
)
