"""A range of bytes is explained by the same fields as the whole log, in every dialect."""

from __future__ import annotations

import pytest
from tests.backup_logs import LOGS

from flintlog.core.dialect import NO_PAYLOAD, ByteRange, EntryQuery, detect
from flintlog.core.log import Log
from flintlog.disk import Disk

DISK = Disk()


@pytest.fixture(scope="module", params=["taskflux", "zmqraft", "mpy6a", "mpy6a-strict", "limestone"])
def log(request, tmp_path_factory):
    home = tmp_path_factory.mktemp("ranges") / "log"
    log = LOGS[request.param](home)
    for _ in range(30):
        log.add()
    log.close()
    return str(home)


def test_every_entry_is_explained_by_its_range_alone(log):
    dialect = detect(DISK, log)
    whole = list(Log(dialect, DISK, log).fields(EntryQuery()))
    query = EntryQuery(skip=NO_PAYLOAD)
    seen = 0
    for split in Log(dialect, DISK, log).splits(query):
        for batch in Log(dialect, DISK, log).read_split(split, query):
            for row in batch.to_pylist():
                seen += 1
                end = row["offset"] + row["length"]
                where = ByteRange(row["file"], row["offset"], end)
                fields = list(Log(dialect, DISK, log).fields(EntryQuery(), where))
                assert all(field in whole and field.file == row["file"] for field in fields)
                inside = [
                    field
                    for field in whole
                    if field.file == row["file"] and row["offset"] <= field.offset < end
                ]
                assert inside and all(field in fields for field in inside)
    assert seen >= 30


def test_a_range_reads_only_what_touches_it(log):
    dialect = detect(DISK, log)
    whole = list(Log(dialect, DISK, log).fields(EntryQuery()))
    middle = whole[len(whole) // 2]
    where = ByteRange(middle.file, middle.offset, middle.offset + 1)
    fields = list(Log(dialect, DISK, log).fields(EntryQuery(), where))
    assert middle in fields
    assert len(fields) < len(whole) / 2
    assert not list(Log(dialect, DISK, log).fields(EntryQuery(), ByteRange("nowhere", 0, 100)))
