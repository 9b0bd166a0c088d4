"""Independent decoders read what the original programs wrote: as those recorded it, and as the stores read it."""

from __future__ import annotations

import pytest
from tests.golden_cases import cases, expected, materialise
from tests.independent import limestone, mpy6a, taskflux, views, zmqraft
from tests.independent.pieces import DamagedError, files_of
from tests.limestone.recorded import every as every_log
from tests.limestone.recorded import lay_out as lay_out_log
from tests.limestone.recorded import rows_of
from tests.mpy6a.recorded import DAMAGED as DAMAGED_SESSIONS
from tests.mpy6a.recorded import TOLD as SESSIONS
from tests.mpy6a.recorded import TORN as TORN_SESSIONS
from tests.mpy6a.recorded import WHOLE as WHOLE_SESSIONS
from tests.mpy6a.recorded import lay_out as lay_out_sessions
from tests.mpy6a.recorded import log_bytes, logs
from tests.taskflux.recorded import recorded_entries, recorded_queues
from tests.zmqraft.recorded import DAMAGED as DAMAGED_PEERS
from tests.zmqraft.recorded import GOOD as GOOD_PEERS
from tests.zmqraft.recorded import digest

from flintlog import Datastore, QueueStore, RaftStore, ReplicaLog, SessionStore

# taskflux


def said(case):
    return expected(case)["real_code_open"]


def is_good(case):
    """The original opened it, restored it, lost nothing of it and could open it again."""
    second = expected(case).get("real_code_second_open", {"open": "ok"})
    lossy = case in (
        "damaged-crc-in-sealed-segment",
        "damaged-missing-middle-segment",
        "damaged-partial-end-marker",
    )
    restored = "restored_queues" in said(case)
    return said(case)["open"] == second["open"] == "ok" and restored and not lossy


GOOD_QUEUES = [case for case in cases() if is_good(case)]


@pytest.mark.parametrize("case", GOOD_QUEUES)
def test_a_taskflux_directory_is_decoded_as_recorded_and_as_the_store_reads_it(case, tmp_path):
    path = materialise(case, tmp_path)
    files, told = files_of(path), said(case)
    state = taskflux.read(files)
    assert (state.term, state.vote) == (told["metadata"]["term"], told["metadata"]["voted_for"])
    assert state.entries == [(one.lsn, one.term, one.data) for one in recorded_entries(case)]
    assert state.last[0] == told["log_last_index"]
    theirs = recorded_queues(told["restored_queues"], "records_dequeue_order")
    assert sorted(state.queues) == sorted(theirs)
    for name, queue in state.queues.items():
        spec = theirs[name].spec
        limits = queue.code, queue.max_size, queue.max_payload, queue.key_range, queue.last_id
        assert limits == (spec.code, spec.max_size, spec.max_payload, spec.key_range, theirs[name].last_id)
        # Among equal keys the original reuses table slots at a restart, and so loses their order.
        by_id = sorted(theirs[name].records, key=lambda row: (row[1], row[0]))
        assert sorted(queue.waiting(), key=lambda row: (row[1], row[0])) == by_id
    before = views.queues_in(files), views.replica_in(files)
    with QueueStore(path, snapshot_in_background=False) as store:
        assert views.queues_of(store) == before[0]
    with ReplicaLog(path) as log:
        assert views.replica_of(log) == before[1]
    assert (views.queues_in(files_of(path)), views.replica_in(files_of(path))) == before


@pytest.mark.parametrize("case", [case for case in cases() if said(case)["open"] != "ok"])
def test_a_taskflux_directory_that_the_original_refuses_is_refused(case, tmp_path):
    with pytest.raises(DamagedError):
        taskflux.read(files_of(materialise(case, tmp_path)))


def test_the_good_taskflux_directories_are_many():
    assert len(GOOD_QUEUES) >= 25


# zmqraft


def opened_peers():
    """Directories that are whole, and spoiled ones that the original opens without a word."""
    for case in GOOD_PEERS:
        yield case, expected(case, "zmqraft")
    for case in DAMAGED_PEERS:
        told = expected(case, "zmqraft").get("openRW", {})
        log = told.get("log")
        # One that ends before its snapshot opens as well, and then takes no entry.
        if told.get("errors") == [] and log and log["lastIndex"] + 1 >= log["firstIndex"]:
            yield case, told


PEERS = dict(opened_peers())


@pytest.mark.parametrize("case", PEERS)
def test_a_peer_is_decoded_as_recorded_and_as_the_store_reads_it(case, tmp_path):
    path, told = materialise(case, tmp_path, dialect="zmqraft"), PEERS[case]
    state = zmqraft.read(files_of(path))
    if log := told.get("log"):
        assert [
            (one.index, one.request_id.hex(), one.kind, one.term, one.data.hex()) for one in state.entries
        ] == [
            (one["index"], one["requestId"], one["type"], one["term"], one["data"]) for one in log["entries"]
        ]
        assert state.last_index == log["lastIndex"]
        index, term, data = state.snapshot
        snapshot = told["snapshot"]
        assert (index, term, digest(data)) == (
            snapshot["logIndex"],
            snapshot["logTerm"],
            snapshot["dataSha256"],
        )
    if persistent := told.get("persistence"):
        assert {**state.raft, "peers": state.raft["peers"] or persistent["peers"]} == {
            name: persistent[name] for name in state.raft
        }
    if app := told.get("app"):
        assert state.applied == app["lastApplied"]
    with RaftStore(path) as store:
        shown = views.peer_of(store)
    assert views.peer_in(files_of(path)) == shown


def test_the_whole_peers_are_many():
    assert len(PEERS) >= 20


# mpy6a


def recorded_sessions(told):
    return [
        (
            one["file"],
            one["offset"],
            tuple(one["id"]),
            one["replay_time"],
            one["topic"],
            one["attempts"],
            one["data_hex"],
        )
        for one in told["replay_order"]
    ]


def decoded_sessions(files):
    return [
        (
            one.file,
            one.offset,
            one.record.id,
            one.record.due,
            one.record.topic,
            one.record.attempts,
            one.record.data.hex(),
        )
        for one in mpy6a.read(files).waiting()
    ]


@pytest.mark.parametrize("name", WHOLE_SESSIONS)
def test_a_directory_of_sessions_is_decoded_as_recorded_and_as_the_store_reads_it(name, tmp_path):
    path, told = lay_out_sessions(name, tmp_path), SESSIONS[name]
    files = files_of(path)
    described = {
        file.name: (
            file.delay,
            list(file.id),
            list(file.last_id),
            file.flags,
            file.offset,
            file.length,
            file.bound,
        )
        for file in mpy6a.read(files).files.values()
    }
    keys = ("delay", "id", "last_id", "rwstate", "offset", "len", "replay")
    assert described == {one["name"]: tuple(one[key] for key in keys) for one in told["states"]}
    assert decoded_sessions(files) == recorded_sessions(told)
    with SessionStore(path, strict=True, on_exhausted=lambda record: None) as store:
        shown = views.sessions_of(store)
    assert views.sessions_in(files) == views.sessions_in(files_of(path)) == shown


@pytest.mark.parametrize("name", TORN_SESSIONS)
def test_a_torn_directory_of_sessions_decodes_as_recorded_once_the_store_has_opened_it(name, tmp_path):
    path = lay_out_sessions(name, tmp_path)
    SessionStore(path, strict=True, on_exhausted=lambda record: None).close()
    assert decoded_sessions(files_of(path)) == recorded_sessions(SESSIONS[name])


@pytest.mark.parametrize("name", DAMAGED_SESSIONS)
def test_a_damaged_directory_of_sessions_is_refused(name, tmp_path):
    with pytest.raises(DamagedError):
        mpy6a.read(files_of(lay_out_sessions(name, tmp_path)))


def test_the_log_of_the_original_has_the_events_that_it_wrote():
    [told] = [one for one in logs() if one["file"] == "full.log"]
    found = [list(at) for at, _ in mpy6a.events(log_bytes("full.log"), "full.log")]
    assert found == told["go_events_read"]


# limestone

# Without an epoch file the original comes up empty, and ours refuses.
NO_EPOCHS = ("c20_epoch_missing", "dir")
RECOVERED = [place for place in every_log() if rows_of(*place) is not None and place != NO_EPOCHS]
REFUSED = [
    f"{case}/dir"
    for case in (
        "c11_truncated_durable_entry",
        "c16_unknown_type_in_durable",
        "c19_entry_without_begin",
        "c22_epoch_bad_type",
        "c37_manifest_future",
        "c38_manifest_missing",
        "c40_manifest_corrupt",
        "c44_second_session_same_epoch",
    )
]


@pytest.mark.parametrize(("case", "variant"), RECOVERED)
def test_a_log_directory_is_decoded_as_recorded_and_as_the_store_reads_it(case, variant, tmp_path):
    path = lay_out_log(case, variant, tmp_path)
    found = views.keys_in(files_of(path))
    assert {place: value for place, (value, _) in found.items()} == rows_of(case, variant)
    with Datastore(path) as store:
        assert views.keys_of(store) == found
    assert views.keys_in(files_of(path)) == found


@pytest.mark.parametrize("name", REFUSED)
def test_a_damaged_log_directory_is_refused(name, tmp_path):
    with pytest.raises(DamagedError):
        limestone.read(files_of(lay_out_log(*name.split("/"), tmp_path)))
