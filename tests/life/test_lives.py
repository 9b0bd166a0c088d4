"""Stores as they live: a few lives of each here, more by `python -m flintlog.testing life --seconds 600`."""

from __future__ import annotations

import itertools
import random
import time

import pytest
from tests.independent.witnesses import WITNESSED

from flintlog.disk import Disk
from flintlog.testing import Notes, Subject, explore_races, live
from flintlog.testing.__main__ import OWN_STORES, main
from flintlog.testing.stores import look


@pytest.mark.parametrize("subject", WITNESSED, ids=lambda subject: subject.name)
def test_a_store_lives_with_threads_signals_forks_and_kills(subject, record_property, part):
    begin, step = part(3)
    report = live(OWN_STORES, subject, seeds=range(begin, 3, step), look=look)
    record_property("life", [report.lives, report.acknowledged])
    assert not report.violations, "\n".join(report.violations)
    assert report.acknowledged > 100 // step


class Forgetful:
    """A store that acknowledges what it keeps in memory only."""

    def __init__(self, disk: Disk, path: str) -> None:
        disk.make_directory(path)

    def close(self) -> None:
        pass


numbers = itertools.count()


def forget(store: Forgetful, notes: Notes, chance: random.Random) -> None:
    with notes.add(f"thing-{next(numbers)}"):
        pass


FORGETFUL = (Subject("forgetful", Forgetful, lambda store: [], {"forget": forget}),)


def test_a_store_that_loses_what_it_acknowledged_is_found_and_the_seed_is_told():
    report = live("tests.life.test_lives:FORGETFUL", FORGETFUL[0], seeds=[3])
    [line] = report.violations
    assert line.startswith("forgetful:seed=3: ")


class Remembering(Forgetful):
    """A store that does nothing, and so loses nothing."""


def wait(store: Remembering, notes: Notes, chance: random.Random) -> None:
    time.sleep(0.001)


REMEMBERING = (
    Subject("remembering", Remembering, lambda store: [], {"wait": wait}, lambda disk, path: "a second look"),
)


def test_what_a_second_look_finds_is_a_violation():
    report = explore_races(REMEMBERING[0], threads=(2,), seeds=[1], most=1)
    [line] = report.violations
    assert line == "remembering:wait+wait:seed=1: a second look"


def test_the_command_tells_totals_and_fails_where_something_is_lost(capsys):
    arguments = ["--target", "tests.life.test_lives:FORGETFUL", "--subject", "forgetful"]
    assert main(["races", *arguments, "--seeds", "1"]) == 3
    assert "acknowledged things are gone" in capsys.readouterr().out
    assert main(["races", "--subject", "peer", "--seeds", "1", "--line", "peer:append+close:seed=1"]) == 0
    assert main(["races", "--subject", "nobody"]) == 2
