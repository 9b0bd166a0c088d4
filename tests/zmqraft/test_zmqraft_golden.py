"""Every golden directory of the original reads as it recorded, and reading changes nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.golden_cases import materialise, snapshot_of
from tests.zmqraft.recorded import DAMAGED, GOOD, LOGS, STATES, digest, entry, recorded

from flintlog import RaftStore
from flintlog.core.dialect import EntryQuery, detect, dialect
from flintlog.core.log import Log
from flintlog.disk import Disk

pytestmark = pytest.mark.usefixtures("still")

DISK = Disk()
ZMQRAFT = dialect("zmqraft")


def rows(batches):
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.fixture
def peer(tmp_path):
    return lambda case, part="dir": str(materialise(case, tmp_path, part=part, dialect="zmqraft"))


@pytest.mark.parametrize("case", LOGS)
def test_the_store_reads_what_the_original_read(case, peer):
    log = recorded(case)["log"]
    with RaftStore(peer(case)) as store:
        assert (store.first_index, store.last_index) == (log["firstIndex"], log["lastIndex"])
        assert store.last_term == log["lastTerm"]
        assert list(store.entries(store.first_index)) == [entry(told) for told in log["entries"]]
        assert store.findings == ()


@pytest.mark.parametrize("case", LOGS)
def test_the_store_finds_the_request_ids_the_original_found(case, peer):
    log = recorded(case)["log"]
    with RaftStore(peer(case)) as store:
        for request_id, index in log["requestDb"]:
            if index >= log["firstIndex"]:
                assert store.find_request(bytes.fromhex(request_id)) == index
        assert store.find_request(b"nobody asked") is None


@pytest.mark.parametrize("case", LOGS)
def test_the_snapshot_is_the_one_recorded(case, peer):
    told = recorded(case)["snapshot"]
    with RaftStore(peer(case)) as store:
        assert (store.snapshot_index, store.snapshot_term) == (told["logIndex"], told["logTerm"])
        data = b"".join(store.read_snapshot())
        assert (len(data), digest(data)) == (told["dataSize"], told["dataSha256"])


@pytest.mark.parametrize("case", STATES)
def test_the_state_is_the_one_recorded_with_integers(case, peer):
    told = recorded(case)["persistence"]
    with RaftStore(peer(case)) as store:
        values = store.raft.values()
        assert values == {name: told[name] for name in values}
        assert isinstance(values["currentTerm"], int)
        if app := recorded(case).get("app"):
            assert store.hard_state.applied == app["lastApplied"]


@pytest.mark.parametrize("case", GOOD)
def test_verify_finds_nothing_and_the_range_of_the_original(case, peer):
    path = peer(case)
    before = snapshot_of(Path(path))
    inventory = Log(ZMQRAFT, DISK, path).verify()
    assert (inventory.verdict, inventory.findings) == ("clean", ())
    log = recorded(case).get("log")
    if log and log["entries"]:
        assert (inventory.first, inventory.last) == ((log["firstIndex"],), (log["lastIndex"],))
    assert snapshot_of(Path(path)) == before


@pytest.mark.parametrize("case", LOGS)
def test_the_entries_view_holds_every_committed_entry_of_every_file(case, peer):
    path = peer(case)
    query = EntryQuery()
    found = rows(
        batch
        for split in Log(ZMQRAFT, DISK, path).splits(query)
        for batch in Log(ZMQRAFT, DISK, path).read_split(split, query)
    )
    files = recorded(case)["files"]
    assert [row["position"] for row in found] == [
        file["firstAllowedIndex"] + at for file in files for at in range(file["count"])
    ]
    ends = [file["dataOffset"] + end for file in files for end in file["offsets"][: file["count"]]]
    assert [row["offset"] + row["length"] for row in found] == ends
    told = {one["index"]: entry(one) for one in recorded(case)["log"]["entries"]}
    for row in found:
        if row["position"] in told:
            one = told[row["position"]]
            assert (row["term"], row["payload"], row["zmqraft"]["type"]) == (one.term, one.data, one.type)
            assert row["zmqraft"]["request_id"] == one.request_id


@pytest.mark.parametrize("case", LOGS)
def test_the_state_view_is_the_live_range(case, peer):
    words = {0: "state", 1: "config", 2: "checkpoint"}
    told = [(one["index"], entry(one)) for one in recorded(case)["log"]["entries"]]
    expected_rows = [
        {
            "index": index,
            "term": one.term,
            "type": words.get(one.type, str(one.type)),
            "request_id": one.request_id,
            "data": one.data,
        }
        for index, one in told
    ]
    path = peer(case)
    assert rows(Log(ZMQRAFT, DISK, path).state()) == expected_rows
    middle = len(told) // 2
    if told:
        assert rows(Log(ZMQRAFT, DISK, path).state((told[middle][0],))) == expected_rows[: middle + 1]


def test_the_second_directory_of_a_case_reads_too(peer):
    with RaftStore(peer("19_capacity_one", "dir2")) as store:
        assert store.first_index == 15
        assert [entry.data for entry in store.entries(15)][:2] == [b"b0", b"b1"]


@pytest.mark.parametrize("case", GOOD + DAMAGED)
def test_every_directory_is_recognised_as_zmqraft(case, peer):
    assert detect(DISK, peer(case)).name == "zmqraft"


@pytest.mark.parametrize("case", ["single-segment", "snapshot-plus-suffix", "fresh-init"])
def test_a_taskflux_directory_is_not_taken_for_zmqraft(case, tmp_path):
    path = str(materialise(case, tmp_path))
    assert detect(DISK, path).name == "taskflux"
    assert not ZMQRAFT.recognise(DISK, path)
