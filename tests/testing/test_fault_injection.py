"""Every call can fail, and a store that is right says so, stops, and loses nothing."""

from __future__ import annotations

import pytest
from tests.testing.toy import SUITE, Habits, suite

from flintlog.disk import Disk
from flintlog.errors import DiskError
from flintlog.testing import Fault, FaultyKernel, MemoryKernel, inject_everywhere


@pytest.mark.parametrize("scenario", SUITE.scenarios, ids=lambda scenario: scenario.name)
def test_a_store_that_keeps_its_promises_survives_every_fault_of_every_call(scenario):
    report = inject_everywhere(scenario, SUITE.oracle)
    assert report.explain(SUITE.target) == ""
    assert report.faults > 1.5 * report.calls


@pytest.mark.parametrize(
    ("mistake", "promise"),
    [
        (Habits(stops_after_failure=False), "fail-stop"),
        (Habits(tells_failed_syncs=False), "fail-stop"),
        (Habits(keeps_errors_in_tree=False), "one error tree"),
        (Habits(syncs_records=False), "history"),
    ],
    ids=str,
)
def test_each_mistake_is_found(mistake, promise):
    broken = suite(mistake)
    report = inject_everywhere(broken.scenario("append"), broken.oracle)
    assert promise in {violation.promise for violation in report.violations}


def faulty(call: int, kind: str) -> tuple[MemoryKernel, Disk]:
    memory = MemoryKernel()
    return memory, Disk(FaultyKernel(memory, Fault(call, kind)))


WRITE = 3  # opening a file is two calls: the second looks at what was opened


@pytest.mark.parametrize(("kind", "code"), [("EIO", "disk"), ("ENOSPC", "disk-full")])
def test_a_failed_write_writes_nothing(kind, code):
    memory, disk = faulty(WRITE, kind)
    file = disk.open("/f", "create")
    with pytest.raises(DiskError) as raised:
        file.pwrite(b"abcd", 0)
    assert raised.value.code == code
    assert dict(memory.visible().tree()) == {"/f": b""}


def test_a_short_write_is_completed_by_a_second_call():
    memory, disk = faulty(WRITE, "short")
    with disk.open("/f", "create") as file:
        file.pwrite(b"abcd", 0)
    assert dict(memory.visible().tree()) == {"/f": b"abcd"}
    assert len(memory.log) == 3


def test_a_disk_that_fills_up_in_a_write_keeps_the_first_half():
    memory, disk = faulty(WRITE, "full")
    file = disk.open("/f", "create")
    with pytest.raises(DiskError) as raised:
        file.pwrite(b"abcd", 0)
    assert raised.value.code == "disk-full"
    assert dict(memory.visible().tree()) == {"/f": b"ab"}


def test_an_interrupted_call_is_made_again():
    memory, disk = faulty(WRITE, "EINTR")
    with disk.open("/f", "create") as file:
        file.pwrite(b"abcd", 0)
    assert dict(memory.visible().tree()) == {"/f": b"abcd"}
