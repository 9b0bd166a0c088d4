"""Spoiled directories: the verbs agree about each, invent nothing, and undo is exact."""

from __future__ import annotations

import pytest

from flintlog.disk import Disk
from flintlog.testing import explore_damage, spoil_again
from flintlog.testing.stores import SUBJECTS

SEEDS = 60


@pytest.mark.parametrize(
    "subject", [each for each in SUBJECTS if each.name != "replica"], ids=lambda each: each.name
)
def test_the_verbs_agree_about_every_spoiled_directory(subject, record_property):
    report = explore_damage(subject, seeds=range(SEEDS))
    record_property("damage", [report.directories, report.repaired])
    assert not report.violations, "\n".join(report.violations)
    assert {"clean", "corrupt"} <= set(report.verdicts)
    assert report.repaired > SEEDS // 10


def test_a_store_that_opens_what_verify_calls_corrupt_is_found_and_its_line_brings_it_back():
    [queues] = [each for each in SUBJECTS if each.name == "queues"]

    def careless(disk: Disk, path: str) -> object:
        """Empties what it cannot read."""
        try:
            return queues.open(disk, path)
        except Exception:
            disk.remove_directory(f"{path}/data")
            return queues.open(disk, path)

    wrong = type(queues)("queues", careless, queues.items, queues.operations)
    report = explore_damage(wrong, seeds=range(40), most=1)
    [line] = report.violations
    assert "verify says corrupt, and it opens" in line
    assert spoil_again([wrong], line)
    assert spoil_again([queues], line) == []
