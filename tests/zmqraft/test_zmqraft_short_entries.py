"""Entries of less than 20 bytes, which the note allows: every reader shows them whole, and nothing writes them."""

from __future__ import annotations

import pytest
from tests.golden_cases import snapshot_of
from tests.zmqraft.damaged import ONE, SHORT, short_entries

from flintlog import RaftStore
from flintlog.core.dialect import EntryQuery, dialect
from flintlog.core.log import Log
from flintlog.dialects.zmqraft.layout import Entry
from flintlog.dialects.zmqraft.store import FileLog
from flintlog.disk import Disk
from flintlog.errors import UsageError

pytestmark = pytest.mark.usefixtures("still")

DISK = Disk()
ZMQRAFT = dialect("zmqraft")
SHOWN = [(1, 1, b"data"), (2, 0, b"short"), (3, 2, b"whole"), (4, 0, b"x"), (5, 0, bytes(19))]


@pytest.fixture
def peer(tmp_path):
    short_entries(tmp_path / "peer")
    return tmp_path / "peer"


def test_the_store_reads_and_goes_on_behind_them(peer):
    with RaftStore(peer) as store:
        found = list(store.entries(1))
        assert [(at, entry.term, entry.data) for at, entry in enumerate(found, 1)] == SHOWN
        assert {(entry.type, entry.request_id) for entry in found} == {(0, bytes(12))}
        assert [entry.data for entry in store.entries(4, 4)] == [b"x"]
        rows = [row for batch in store.record_batches(2) for row in batch.to_pylist()]
        assert [(row["index"], row["term"], row["data"]) for row in rows] == SHOWN[1:]
        assert [bytes(raw) for raw in store.log.raw_entries(2)] == list(SHORT)
        assert (store.last_term, store.term_of(3), store.find_request(b"x" * 12)) == (0, 2, None)
        store.append([Entry(2, b"more", request_id=b"x" * 12)])
        assert store.find_request(b"x" * 12) == 6
        store.append([Entry(2, b"in the next file")] * 3)
        assert store.find_request(b"x" * 12) == 6
        assert [entry.data for entry in store.entries(5, 6)] == [bytes(19), b"more"]
        store.truncate(5)
        assert store.last_index == 4


def test_the_verbs_read_them_and_call_them_a_note(peer):
    before = snapshot_of(peer)
    found = Log(ZMQRAFT, DISK, str(peer)).verify()
    assert (found.verdict, [(item.code, item.file) for item in found.findings]) == (
        "clean",
        [("entry-short", ONE)],
    )
    assert Log(ZMQRAFT, DISK, str(peer)).plan_repair().empty
    query = EntryQuery()
    rows = [
        row
        for split in Log(ZMQRAFT, DISK, str(peer)).splits(query)
        for batch in Log(ZMQRAFT, DISK, str(peer)).read_split(split, query)
        for row in batch.to_pylist()
    ]
    assert [(row["position"], row["term"], row["payload"]) for row in rows] == SHOWN
    assert {row["key"] for row in rows} == {None}
    state = [row for batch in Log(ZMQRAFT, DISK, str(peer)).state() for row in batch.to_pylist()]
    assert [(row["index"], row["term"], row["data"]) for row in state] == SHOWN
    fields = list(Log(ZMQRAFT, DISK, str(peer)).fields())
    short = [field.meaning[:14] for field in fields if "too short" in field.meaning]
    assert short == ["index 2 begins", "index 4 begins", "index 5 begins"]
    assert snapshot_of(peer) == before


def test_none_is_written(tmp_path):
    log = FileLog(str(tmp_path))
    with pytest.raises(UsageError, match="at least 20 bytes"):
        log.append([b"short"])
    assert log.last == 0
    log.close()
