"""`repair --apply` says how the directory is then, goes on while nothing more is lost, and is taken back as one."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.cli.test_undo import files_of, typed
from tests.damaged_directories import WRONG, cut, patch, segmented, segments
from tests.limestone.spoiled import laid_out

from flintlog.cli.main import main
from flintlog.core.log import Log, open_log
from flintlog.dialects.taskflux.upkeep.repair import plan_repair
from flintlog.disk import Disk, take_lock
from flintlog.errors import LockedError


def two_headers(root: Path) -> None:
    """Two headers that one round renews."""
    segmented(root)
    for number in (1, 2):
        patch(segments(root)[number], 0, WRONG)


def header_and_record(root: Path) -> None:
    """A header that is renewed, and behind it a record that is lost."""
    segmented(root)
    patch(segments(root)[1], 0, WRONG)
    cut(segments(root)[2], segments(root)[2].stat().st_size - 10)


def begun_segment(root: Path) -> None:
    """A segment that ends inside its header. It is no torn tail before those behind it are gone."""
    segmented(root)
    segments(root)[1].write_bytes(segments(root)[1].read_bytes()[:4] + bytes(11))


def emptied_log(root: Path) -> None:
    """The first segment has lost everything. That it is the only one shows when those behind it are gone."""
    segmented(root)
    size = segments(root)[0].stat().st_size
    segments(root)[0].write_bytes(segments(root)[0].read_bytes()[:7] + bytes(size - 7))


def test_the_verdict_after_the_repair_is_the_exit_status(tmp_path, capsys):
    root = tmp_path / "accounts"
    laid_out(root, "shipped")
    (root / "compaction_catalog").write_bytes(b"")
    max((root / "blob").rglob("*.blob")).unlink()
    before = files_of(root)
    status, [shown], _ = typed(capsys, "repair", str(root), "--apply")
    assert (status, shown["verdict"], shown["applied"]) == (3, "corrupt", True)
    assert [item["code"] for item in shown["findings"]] == ["blob-missing"]
    assert shown["further"]["steps"] == []
    assert typed(capsys, "verify", str(root))[0] == 3
    assert main(["repair", str(root), "--undo"]) == 0
    assert files_of(root) == before
    assert main(["repair", str(root), "--apply"]) == 3
    text = capsys.readouterr().out
    assert "verdict: corrupt" in text.splitlines()[-1]
    assert "restore what is missing from a backup" in text


def test_what_one_look_sees_one_round_heals(tmp_path, capsys):
    for make, lost in ((two_headers, []), (header_and_record, ["LSN 5 to 6"])):
        make(root := tmp_path / make.__name__)
        assert typed(capsys, "verify", str(root))[0] == (3 if lost else 1)
        status, [shown], _ = typed(capsys, "repair", str(root), "--apply")
        assert (status, shown["lost"], shown["verdict"], shown["rounds"]) == (0, lost, "clean", [])


def test_a_round_that_loses_nothing_more_follows_by_itself(tmp_path, capsys):
    begun_segment(root := tmp_path / "queues")
    before = files_of(root)
    status, [shown], _ = typed(capsys, "repair", str(root), "--apply")
    assert (status, shown["verdict"], shown["further"], len(shown["rounds"])) == (0, "clean", None, 1)
    assert typed(capsys, "verify", str(root))[0] == 0
    status, [undone], _ = typed(capsys, "repair", str(root), "--undo")
    assert (status, files_of(root), undone["facts"]["rounds"]) == (0, before, 2)
    assert typed(capsys, "repair", str(root), "--undo")[0] == 3


def test_a_round_that_would_lose_something_is_left_to_a_person(tmp_path, capsys):
    emptied_log(root := tmp_path / "queues")
    before = files_of(root)
    status, [shown], _ = typed(capsys, "repair", str(root), "--apply")
    assert (status, shown["lost"], shown["verdict"]) == (3, ["LSN 0 to 6"], "corrupt")
    assert shown["further"]["lost"] == ["LSN 0"]
    between = files_of(root)
    assert main(["repair", str(root), "--undo"]) == 0
    assert main(["repair", str(root), "--apply"]) == 3
    text = capsys.readouterr().out
    assert "lost: LSN 0\n" in text
    assert f"`flintlog repair {root}/data --apply` goes on with it" in text
    assert files_of(root) == between
    status, [shown], _ = typed(capsys, "repair", str(root), "--apply")
    assert (status, shown["lost"], shown["verdict"]) == (0, ["LSN 0"], "clean")
    status, [undone], _ = typed(
        capsys, "repair", str(root), "--undo"
    )  # of two words one at a time, the last first
    assert (status, files_of(root)) == (0, between)
    assert "of those before it 1 can be taken back too" in undone["done"]
    status, [undone], _ = typed(capsys, "repair", str(root), "--undo")
    assert (status, files_of(root)) == (0, before)
    assert "too" not in undone["done"]


def test_an_interrupt_behind_a_round_says_that_the_repair_stands(tmp_path, capsys, monkeypatch):
    root = tmp_path / "spool"
    header_and_record(root)
    before = files_of(root)
    verify = Log.verify

    def interrupted(log, *arguments):
        verify(log, *arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(Log, "verify", interrupted)
    assert main(["repair", str(root), "--apply"]) == 130
    told = capsys.readouterr().err
    assert "nothing was changed" not in told
    assert "what was repaired stands" in told and "--undo" in told
    monkeypatch.undo()
    assert files_of(root) != before
    assert main(["repair", str(root), "--undo"]) == 0
    assert files_of(root) == before


def test_a_repair_that_is_refused_leaves_the_place_of_another_one_alone(tmp_path):
    root = tmp_path / "spool"
    header_and_record(root)
    data = root / "data"
    plan = plan_repair(Disk(), str(data), clock=lambda: 1_700_000_000)
    theirs = data / "kept" / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime(1_700_000_000))}-segment-header"
    with take_lock(Disk(), str(data / "tflux.metadata"), "write", str(data)):
        theirs.mkdir(parents=True)  # of a repair that begins in the same second
        with pytest.raises(LockedError, match="Nothing was changed"):
            plan.apply()
        assert theirs.is_dir()
    plan.apply()
    assert open_log(root).health == "clean"


def test_a_repair_that_is_cut_short_when_it_begins_leaves_no_place_for_originals(tmp_path, monkeypatch):
    root = tmp_path / "spool"
    header_and_record(root)
    publish = Disk.publish

    def interrupted(disk, target, *arguments, **options):
        if "kept" in target:
            os.rmdir(os.path.dirname(target))  # only the place above was made
            raise KeyboardInterrupt
        publish(disk, target, *arguments, **options)

    monkeypatch.setattr(Disk, "publish", interrupted)
    with pytest.raises(KeyboardInterrupt, match="Nothing was changed"):
        open_log(root).plan_repair().apply()
    assert not (root / "data" / "kept").exists()
