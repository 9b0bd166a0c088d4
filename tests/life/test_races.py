"""Races by seed: the scheduler finds them, shows them again, and finds none in the stores."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from tests.independent.witnesses import WITNESSED

from flintlog.core import threads
from flintlog.core.group_commit import GroupCommit
from flintlog.disk import Disk, FailStop
from flintlog.testing import HangError, MemoryKernel, Notes, Scheduler, Subject, explore_races, race_again


class Lines:
    """A store of lines. With `careless` it closes as it must not: what begins while it drains is not waited for."""

    def __init__(self, disk: Disk, path: str, *, careless: bool) -> None:
        disk.make_directory(path)
        self._careless = careless
        self._failstop = FailStop(path)
        self._lock = threads.StoreLock(self._failstop)
        self._file = disk.open(f"{path}/lines", "create")
        self.lines = self._file.pread(self._file.size(), 0).decode().split()
        self._end = self._file.size()
        self._group: GroupCommit[str] = GroupCommit(self._flush)

    def add(self, line: str) -> None:
        with self._lock:
            self._failstop.check()
            ticket = self._group.submit(line)
        self._group.wait(ticket)

    def _flush(self, lines: list[str]) -> None:
        data = "".join(f"{line}\n" for line in lines).encode()
        with self._failstop.guard():
            self._file.pwrite(data, self._end)
            self._file.sync()
        self._end += len(data)

    def close(self) -> None:
        if self._careless:
            self._group.drain()
        with self._lock:
            if not self._failstop.close():
                return
        if not self._careless:
            self._group.drain()
        self._file.truncate(self._end)
        self._file.close()


def add(store: Lines, notes: Notes, chance: random.Random) -> None:
    for _ in range(3):
        name = f"line-{chance.random()}"
        with notes.add(name):
            store.add(name)


def lines(*, careless: bool) -> Subject:
    return Subject(
        "lines",
        lambda disk, path: Lines(disk, path, careless=careless),
        lambda store: store.lines,
        {"add": add},
    )


def test_the_scheduler_finds_a_close_that_does_not_wait_and_a_seed_shows_it_again():
    careless = lines(careless=True)
    report = explore_races(careless, threads=(3,), seeds=range(200), most=1)
    [found] = report.violations
    line = found.partition(": ")[0]
    assert line.startswith(("lines:add+add+close:seed=", "lines:add+close+close:seed="))
    assert [race_again([careless], line) is not None for _ in range(5)] == [True] * 5
    assert race_again([lines(careless=False)], line) is None


def test_two_locks_taken_crosswise_are_a_hang_that_names_both_threads():
    def crosswise(seed: int) -> None:
        scheduler = Scheduler(seed)
        with scheduler.running():
            one, other = threads.lock(), threads.lock()

            def take(first, second):
                with first, second:
                    pass

            scheduler.start(lambda: take(one, other), "there")
            scheduler.start(lambda: take(other, one), "back")

    with pytest.raises(HangError) as caught:
        for seed in range(50):
            crosswise(seed)
    assert "there waits for a lock" in str(caught.value)
    assert "back waits for a lock" in str(caught.value)


def test_the_same_seed_makes_the_same_calls():
    def calls(seed: int) -> list[str]:
        kernel, scheduler = MemoryKernel(), Scheduler(seed)
        with scheduler.running():
            store = Lines(scheduler.disk(kernel), "/lines", careless=False)
            for name in "abc":
                scheduler.start(lambda name=name: [store.add(f"{name}{at}") for at in range(4)])
        return [str(call) for call in kernel.log]

    assert calls(5) == calls(5)
    assert len({tuple(calls(seed)) for seed in range(8)}) > 1


def test_a_timeout_costs_no_time_and_comes_when_all_others_wait():
    scheduler = Scheduler(1)
    with scheduler.running():
        event = threads.event()
        begun = threads.monotonic()
        assert event.wait(3600.0) is False
        assert threads.monotonic() - begun >= 3600.0


@pytest.mark.parametrize("subject", WITNESSED, ids=lambda subject: subject.name)
def test_no_pair_of_calls_loses_invents_or_hangs(subject, record_property, part):
    begin, step = part(3)
    report = explore_races(subject, threads=(2,), seeds=range(begin, 6, step))
    record_property("races", [report.races, report.acknowledged])
    assert not report.violations, "\n".join(report.violations)


@pytest.mark.parametrize("subject", WITNESSED, ids=lambda subject: subject.name)
def test_no_triple_of_calls_loses_invents_or_hangs(subject, record_property):
    report = explore_races(subject, threads=(3,), seeds=[7])
    record_property("races", [report.races, report.acknowledged])
    assert not report.violations, "\n".join(report.violations)


def test_a_replica_closes_while_another_thread_starts_its_snapshot(part):
    [replica] = [subject for subject in WITNESSED if subject.name == "replica"]
    commits = replace(
        replica, operations={"append": replica.operations["append"], "commit": replica.operations["commit"]}
    )
    begin, step = part(4)
    report = explore_races(commits, threads=(2, 3), seeds=range(begin, 60, step))
    assert report.races > 500 // step
    assert not report.violations, "\n".join(report.violations)
