"""The end of the numbers: names of segments that no record can have are damage, for every reader, and never a fault."""

from __future__ import annotations

import pytest
from tests.damaged_directories import beyond_the_last_lsn, near_the_last_lsn

from flintlog import QueueStore
from flintlog.cli.main import main
from flintlog.core.dialect import EntryQuery
from flintlog.core.log import Log
from flintlog.dialects.taskflux.dialect import DIALECT
from flintlog.dialects.taskflux.layout import LSN_MAX
from flintlog.disk import Disk
from flintlog.errors import DamageError, RefusedError

NAMES = [LSN_MAX + 1, 2**63, 2**63 + 1, 10**19 - 1]


def test_the_last_lsn_can_be_written_and_read_and_none_behind_it(tmp_path):
    near_the_last_lsn(tmp_path / "log", first=LSN_MAX - 1)
    store = QueueStore(tmp_path / "log")
    store.queue().add(b"the last", 1)
    with pytest.raises(RefusedError, match="the log is full"):
        store.queue().add(b"too many")
    store.close()
    with QueueStore(tmp_path / "log") as store:
        assert [store.queue().take(timeout=0).payload for _ in range(2)] == [b"x", b"the last"]
    found = Log(DIALECT, Disk(), str(tmp_path / "log")).verify(lambda done, total: None)
    assert (found.verdict, found.last) == ("clean", (LSN_MAX,))


def test_records_behind_the_last_lsn_are_damage_where_they_begin(tmp_path, capsys):
    near_the_last_lsn(tmp_path / "log", records=3)
    (finding,) = Log(DIALECT, Disk(), str(tmp_path / "log")).verify(lambda done, total: None).findings
    assert (finding.code, finding.file) == ("segment-lsn", f"log/{LSN_MAX}.log")
    with pytest.raises(DamageError, match="segment is wrong") as told:
        QueueStore(tmp_path / "log")
    assert told.value.offset == finding.offset
    assert main(["dump", str(tmp_path / "log"), "--json"]) == 3
    out, talk = capsys.readouterr()
    assert out.count("\n") == 1 and f'"position": {LSN_MAX}' in out and "segment is wrong" in talk


@pytest.mark.parametrize("first", NAMES)
@pytest.mark.parametrize(
    ("words", "status"),
    [
        (["inspect"], 3),
        (["verify"], 3),
        (["state"], 3),
        (["dump"], 3),
        (["dump", "--reverse"], 3),
        (["dump", "--hex"], 0),
        (["dump", "--hex", "--limit", "9"], 0),
        (["tail"], 3),
        (["snapshot"], 3),
        (["compact"], 3),
        (["repair"], 3),
        (["export", "out", "--format", "ndjson"], 3),
        (["backup", "copy"], 3),
    ],
)
def test_a_segment_named_beyond_the_last_lsn_is_told_by_every_verb(
    first, words, status, tmp_path, capsys, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    beyond_the_last_lsn(tmp_path / "log", first)
    found = main([words[0], "log", *words[1:]])
    told = capsys.readouterr()
    assert "fault in flintlog" not in told.err
    assert found == status, told


@pytest.mark.parametrize("first", NAMES)
def test_a_segment_named_beyond_the_last_lsn_is_moved_aside_by_repair(first, tmp_path):
    beyond_the_last_lsn(tmp_path / "log", first)
    with pytest.raises(DamageError):
        QueueStore(tmp_path / "log")
    plan = Log(DIALECT, Disk(), str(tmp_path / "log")).plan_repair()
    plan.apply()
    QueueStore(tmp_path / "log").close()
    assert Log(DIALECT, Disk(), str(tmp_path / "log")).verify(lambda done, total: None).verdict == "clean"


@pytest.mark.parametrize("first", NAMES)
def test_pieces_of_such_a_segment_are_read_with_an_error_and_nothing_less(first, tmp_path):
    beyond_the_last_lsn(tmp_path / "log", first)
    disk, path = Disk(), str(tmp_path / "log")
    for size in (1, 1 << 20):
        query = EntryQuery(split_bytes=size)
        with pytest.raises(DamageError):
            for split in Log(DIALECT, disk, path).splits(query):
                list(Log(DIALECT, disk, path).read_split(split, query))
