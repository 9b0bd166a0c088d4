"""The lane of killed processes kills, recovers and notices."""

from __future__ import annotations

import sys

import pytest
from tests.testing.toy import RIGHT, ToyLog

from flintlog.disk import Disk
from flintlog.testing import KillReport, kill_rounds, nothing_lost_nothing_invented


def killed(root: str, kind: str, rounds: int) -> KillReport:
    def recover() -> list[str]:
        log = ToyLog(Disk(), RIGHT, root)
        log.close()
        return [record.decode() for record in log.records]

    return kill_rounds(
        "tests.testing.toy_load",
        [root, kind],
        recover=recover,
        check=nothing_lost_nothing_invented,
        rounds=rounds,
        delay_seconds_max=0.1,
    )


@pytest.fixture(autouse=True)
def importable(monkeypatch):
    """The child finds the package and the tests as this process did."""
    monkeypatch.setenv("PYTHONPATH", ":".join(path or "." for path in sys.path))


def test_a_killed_process_loses_nothing_it_acknowledged(tmp_path):
    report = killed(str(tmp_path / "log"), "appends", rounds=5)
    assert report.violations == ()
    assert report.rounds == 5
    assert report.acknowledged > 0
    assert report.issued - report.acknowledged <= report.rounds


def test_a_process_that_acknowledges_what_it_did_not_write_is_caught(tmp_path):
    report = killed(str(tmp_path / "log"), "lies", rounds=2)
    assert "acknowledged items are gone" in report.violations[0]
    assert report.rounds == 1


def test_a_process_that_ends_before_it_is_killed_is_caught(tmp_path):
    report = killed(str(tmp_path / "log"), "exits", rounds=2)
    assert "ended by itself, with status 7" in report.violations[0]


def test_items_never_issued_and_items_twice_are_told():
    assert nothing_lost_nothing_invented(["a", "b"], ["a", "b", "c"], ["a"]) is None
    assert "never issued" in str(nothing_lost_nothing_invented(["a", "x"], ["a"], ["a"]))
    assert "twice" in str(nothing_lost_nothing_invented(["a", "a"], ["a"], ["a"]))
    assert "gone" in str(nothing_lost_nothing_invented([], ["a"], ["a"]))
