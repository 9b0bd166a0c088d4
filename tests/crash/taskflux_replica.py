"""Crash scenarios of `ReplicaLog`. An item of the history is one step of a Raft node's storage.

A node may lose uncommitted entries while it rolls back: every length between the old and the new end is a
log that Raft knows how to go on from. Everything else is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from tests.crash.promises import judge

from flintlog.dialects.taskflux import layout as lay
from flintlog.dialects.taskflux.layout import AddRecord, encode_delta
from flintlog.dialects.taskflux.store import ReplicaLog
from flintlog.disk import Disk
from flintlog.testing import History, Scenario, Suite

ROOT = "/srv/raft"
SMALL = {"soft_limit": 160, "hard_limit": 320}


@dataclass(frozen=True)
class Node:
    """What a Raft node's storage holds; `entries` are those behind the snapshot."""

    term: int = 1
    vote: int | None = None
    snapshot: tuple[int, int] = (-1, 1)
    entries: tuple[tuple[int, bytes], ...] = ()

    @property
    def last(self) -> int:
        return self.snapshot[0] + len(self.entries)


@dataclass(frozen=True)
class Append:
    term: int
    data: bytes


@dataclass(frozen=True)
class RollBack:
    first_gone: int


@dataclass(frozen=True)
class Vote:
    term: int
    vote: int | None


@dataclass(frozen=True)
class Snapshot:
    index: int
    term: int


@dataclass(frozen=True)
class Install:
    index: int
    term: int
    committed: int


Step = Append | RollBack | Vote | Snapshot | Install


def after(node: Node, step: Step) -> Node:
    match step:
        case Append(term, data):
            return replace(node, entries=(*node.entries, (term, data)))
        case RollBack(first_gone):
            return replace(node, entries=node.entries[: first_gone - node.snapshot[0] - 1])
        case Vote(term, vote):
            return replace(node, term=term, vote=vote)
        case Snapshot(index, term):
            return replace(node, snapshot=(index, term), entries=node.entries[index - node.snapshot[0] :])
        case Install(index, term, _):
            agrees = index <= node.last and node.entries[index - node.snapshot[0] - 1][0] == term
            kept = node.entries[index - node.snapshot[0] :] if agrees else ()
            return replace(node, snapshot=(index, term), entries=kept)


def between(node: Node, step: Step) -> set[Node]:
    """What a crash inside a step may leave, besides before and after."""
    shortest = node.last + 1
    if isinstance(step, RollBack):
        shortest = step.first_gone
    elif isinstance(step, Install):
        shortest = step.committed + 1
    first = node.snapshot[0] + 1
    return {
        replace(node, entries=node.entries[: length - first]) for length in range(shortest, node.last + 1)
    }


def shown(log: ReplicaLog) -> Node:
    behind = log.entries(log.snapshot_lsn + 1)
    entries = tuple((entry.term, entry.data) for entry in behind)
    return Node(log.term, log.vote, (log.snapshot_lsn, log.snapshot_term), entries)


class ReplicaOracle:
    def recover(self, disk: Disk) -> Node:
        with ReplicaLog(ROOT, disk=disk, reserve_bytes=0) as log:
            return shown(log)

    def check(self, observed: Node, issued: Sequence[Step], acknowledged: Sequence[Step]) -> str | None:
        return judge(observed, issued, acknowledged, start=Node(), after=after, between=between)

    def extend(self, disk: Disk, observed: Node) -> Node:
        with ReplicaLog(ROOT, disk=disk, reserve_bytes=0) as log:
            log.append(9, [added("one more")])
        return replace(observed, entries=(*observed.entries, (9, added("one more"))))


def added(payload: str, key: int = 0) -> bytes:
    return encode_delta(AddRecord("", key, payload.encode()))


class Driver:
    def __init__(self, disk: Disk, history: History[Step], **options: Any) -> None:
        self.log = ReplicaLog(
            ROOT, disk=disk, snapshot_in_background=False, **({"reserve_bytes": 0} | options)
        )
        self.history = history
        history.opened(lambda: self.log.append(9, [added("probe")]), lambda: self.log.set_term(99))

    def noted(self, steps: Sequence[Step], act: Callable[[], Any]) -> None:
        for step in steps:
            self.history.issue(step)
        act()
        for step in steps:
            self.history.acknowledge(step)

    def append(self, term: int, *payloads: str) -> None:
        datas = [added(payload) for payload in payloads]
        self.noted([Append(term, data) for data in datas], lambda: self.log.append(term, datas))

    def replace_from(self, first: int, term: int, *payloads: str) -> None:
        entries = [(term, added(payload)) for payload in payloads]
        steps = [RollBack(first), *(Append(term, data) for term, data in entries)]
        self.noted(steps, lambda: self.log.append_entries(first, entries))

    def receive(self, first: int, *entries: tuple[int, bytes]) -> None:
        """Entries of a leader, of which some or all are here already."""
        fresh = entries[max(self.log.last_lsn + 1 - first, 0) :]
        steps = [Append(term, data) for term, data in fresh]
        self.noted(steps, lambda: self.log.append_entries(first, entries))

    def install_again(self, index: int, term: int) -> None:
        content = snapshot_bytes(index, term)
        self.noted([], lambda: self.log.receive_snapshot([content[:9], content[9:]]))

    def roll_back(self, first: int) -> None:
        self.noted([RollBack(first)], lambda: self.log.roll_back(first))

    def vote(self, term: int, vote: int | None = None) -> None:
        self.noted([Vote(term, vote)], lambda: self.log.set_term(term, vote))

    def commit(self, index: int) -> None:
        self.log.commit(index)

    def snapshot(self) -> None:
        step = Snapshot(self.log.commit_index, self.log.term_of(self.log.commit_index))
        self.noted([step], self.log.snapshot)

    def install(self, index: int, term: int) -> None:
        content = snapshot_bytes(index, term)
        step = Install(index, term, self.log.commit_index)
        self.noted([step], lambda: self.log.receive_snapshot([content[:50], content[50:]]))

    def close(self) -> None:
        self.log.close()


def snapshot_bytes(index: int, term: int) -> bytes:
    """A snapshot as another node would send it: the default queue, empty."""
    state = b"\x00\x00\x00\x01" + lay.encode_queue_header(lay.QueueSpec(""), index + 1, 0)
    header = lay.DESIGNED.snapshot_header.encode(index, term, len(state))
    return header + state + lay.crc32_mpeg2(state, 0, len(state)).to_bytes(4, "big")


def terms_and_votes(disk: Disk, history: History[Step]) -> None:
    driver = Driver(disk, history)
    driver.vote(1, 2)
    driver.vote(3)
    driver.vote(3, 0)
    driver.append(3, "in term 3")
    driver.vote(4, 1)
    driver.close()


def roll_back_in_the_tail(disk: Disk, history: History[Step], **options: Any) -> None:
    driver = Driver(disk, history, **options)
    driver.append(1, "a", "b", "c long enough to show", "d")
    driver.commit(0)
    driver.roll_back(2)
    driver.append(2, "C")
    driver.replace_from(1, 3, "B", "D", "E")
    driver.close()


def roll_back_over_segments(disk: Disk, history: History[Step]) -> None:
    driver = Driver(disk, history, **SMALL)
    for number in range(9):
        driver.append(1, *(f"entry {number}.{part} of some length" for part in range(3)))
    driver.commit(2)
    driver.replace_from(6, 2, "from here on another leader", "speaks")
    driver.roll_back(4)
    driver.append(3, "and another one")
    driver.close()


def snapshot_of_committed(disk: Disk, history: History[Step]) -> None:
    driver = Driver(disk, history, **SMALL)
    driver.append(1, *(f"entry {number} of some length" for number in range(12)))
    driver.commit(7)
    driver.snapshot()
    driver.append(2, "x", "y")
    driver.commit(12)
    driver.snapshot()
    driver.close()


def install_ahead(disk: Disk, history: History[Step]) -> None:
    driver = Driver(disk, history, **SMALL)
    driver.append(1, *(f"entry {number} of some length" for number in range(8)))
    driver.commit(3)
    driver.install(40, 5)
    driver.append(5, "behind the snapshot")
    driver.install(60, 6)
    driver.close()


def install_inside(disk: Disk, history: History[Step]) -> None:
    driver = Driver(disk, history, **SMALL)
    driver.append(1, *(f"entry {number} of some length" for number in range(10)))
    driver.commit(1)
    driver.install(6, 1)
    driver.append(2, "next")
    driver.close()


def install_in_conflict(disk: Disk, history: History[Step]) -> None:
    driver = Driver(disk, history, **SMALL)
    driver.append(1, *(f"entry {number} of some length" for number in range(10)))
    driver.commit(1)
    driver.install(6, 2)
    driver.append(2, "next")
    driver.close()


def received_again(disk: Disk, history: History[Step]) -> None:
    """A leader that hears nothing sends again: the same, a part of it, and more in one piece."""
    sent = [(1 + number // 4, added(f"entry {number} of some length")) for number in range(14)]
    driver = Driver(disk, history, **SMALL)
    driver.receive(0, *sent[:5])
    driver.receive(0, *sent[:5])
    driver.receive(3, *sent[3:9])
    driver.receive(1, *sent[1:4])
    driver.receive(2)
    driver.install(6, 2)
    driver.receive(3, *sent[3:12])
    driver.commit(8)
    driver.install_again(6, 2)
    driver.receive(7, *sent[7:])
    driver.close()


SUITE = Suite(
    "tests.crash.taskflux_replica:SUITE",
    ReplicaOracle(),
    (
        Scenario("terms-and-votes", terms_and_votes),
        Scenario("roll-back-in-the-tail", roll_back_in_the_tail),
        Scenario("roll-back-over-segments", roll_back_over_segments),
        Scenario("roll-back-with-reserve", partial(roll_back_in_the_tail, reserve_bytes=1200)),
        Scenario("snapshot-of-committed", snapshot_of_committed),
        Scenario("received-again", received_again),
        Scenario("install-ahead", install_ahead),
        Scenario("install-inside", install_inside),
        Scenario("install-in-conflict", install_in_conflict),
    ),
)
