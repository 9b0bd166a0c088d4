"""Every golden directory reads as it was recorded, reading changes nothing, and opening cuts where it has to."""

from __future__ import annotations

import pytest
from tests.golden_cases import snapshot_of
from tests.mpy6a.recorded import DAMAGED, GOOD, TOLD, TORN, WHOLE, lay_out, log_bytes, logs

from flintlog.core.dialect import EntryQuery, detect, dialect
from flintlog.core.log import Log
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import scan
from flintlog.dialects.mpy6a.layout import MalformedError
from flintlog.dialects.mpy6a.store import SessionStore, Topic
from flintlog.dialects.mpy6a.survey import survey
from flintlog.disk import Disk
from flintlog.errors import DamageError

pytestmark = pytest.mark.usefixtures("still")

DISK = Disk()
MPY6A = dialect("mpy6a")
FAR = 1 << 40

# What a recorded error is here: code, file, byte, and words of the message.
ERRORS = {
    "s3_torn_tails/data_short": ("file-short", "30@2022042817.data", 35, "shorter"),
    "s3_torn_tails/data_torn_closed": ("file-long", "30@2022042817.data", 71, "longer"),
    "s3_torn_tails/snapshot_torn": ("snapshot-cut", "state.snapshot", 0, "the bytes end inside"),
    "s3_torn_tails/log_header_torn": ("log-header", "state.log", 0, "16 bytes is cut to 9"),
    "s4_order_violation/in_file": ("record-order", "30@2022042817.data", 71, "before its predecessor"),
    "s4_order_violation/cross_file": (
        "file-order",
        "30@2022042818.data",
        0,
        "last one of 30@2022042817.data",
    ),
    "s4_order_violation/replay_bound": ("replay-bound", "30@2022042817.data", 0, "bound"),
    "s4_order_violation/offset_boundary": ("offset-boundary", "30@2022042817.data", 7, "inside a record"),
    "s4_order_violation/two_writers": ("two-writers", "30@2022042817.data", None, "the delay of 30 s"),
    "s4_order_violation/duplicate_name": ("snapshot-duplicate", "state.snapshot", 62, "described twice"),
    "s5_unknown_op/code_6": ("operation-unknown", "state.log", 56, "(3, 7): 6 is not"),
    "s5_unknown_op/code_0": ("operation-unknown", "state.log", 56, "(3, 7): 0 is not"),
    "s5_unknown_op/code_big_endian": ("operation-unknown", "state.log", 56, "(3, 7): 83886080 is not"),
    "s5_unknown_op/short_code": ("operation-cut", "state.log", 56, "(3, 7): the bytes end"),
    "s5_unknown_op/name_past_end": ("operation-cut", "state.log", 56, "(3, 7): 200 bytes"),
    "s5_unknown_op/trailing_bytes": ("operation-trailing", "state.log", 56, "(3, 7): 1 bytes follow"),
    "s5_unknown_op/unknown_name": ("operation-file", "state.log", 56, "(3, 7): 60@2022042817.data"),
    "s5_unknown_op/bad_name": ("operation-name", "state.log", 56, "(3, 7): '../etc/passwd'"),
    "s5_unknown_op/shift_past_len": ("operation-shift", "state.log", 56, "1000000 more"),
    "s5_unknown_op/log_order": ("operation-order", "state.log", 56, "(3, 6): it comes after (3, 6)"),
}


def rows(batches):
    return [row for batch in batches for row in batch.to_pylist()]


def entries(path, **query):
    asked = EntryQuery(**query)
    return rows(
        batch
        for split in Log(MPY6A, DISK, path).splits(asked)
        for batch in Log(MPY6A, DISK, path).read_split(split, asked)
    )


def session_of(row):
    """A row of the state view as the recordings write it."""
    return {
        "replay_time": row["replay_time"],
        "file": row["file"],
        "offset": row["offset"],
        "id": [int(part) for part in row["id"]],
        "topic": row["topic"],
        "attempts": int(row["attempts"]),
        "data_hex": row["data"].hex(),
    }


def test_the_recordings_cover_what_they_are_known_to_cover():
    assert set(ERRORS) == set(DAMAGED)
    assert (len(WHOLE), len(TORN), len(DAMAGED)) == (6, 7, 20)


@pytest.mark.parametrize("name", list(TOLD))
def test_every_directory_is_recognised(name, tmp_path):
    assert detect(DISK, str(lay_out(name, tmp_path))).name == "mpy6a"


@pytest.mark.parametrize("name", GOOD)
def test_the_state_is_the_recorded_order_of_replay(name, tmp_path):
    path = lay_out(name, tmp_path)
    before = snapshot_of(path)
    state = rows(Log(MPY6A, DISK, str(path)).state())
    assert [session_of(row) for row in state] == TOLD[name]["replay_order"]
    assert [row["delay"] for row in state] == [int(row["file"].partition("@")[0]) for row in state]
    assert snapshot_of(path) == before


@pytest.mark.parametrize("name", GOOD)
def test_the_store_replays_the_recorded_order(name, tmp_path):
    with SessionStore(lay_out(name, tmp_path), strict=True) as store:
        replayed = [
            {
                "replay_time": session.replay_time,
                "file": session.place.name,
                "offset": session.place.offset,
                "id": list(session.id),
                "topic": session.topic,
                "attempts": session.attempts,
                "data_hex": session.data.hex(),
            }
            for session in store.due(now=FAR // 8, limit=1000)
        ]
    assert replayed == TOLD[name]["replay_order"]


@pytest.mark.parametrize("name", GOOD)
def test_the_entries_are_the_recorded_records(name, tmp_path):
    found = entries(str(lay_out(name, tmp_path)), operations=frozenset({"session"}))
    told = [(file["name"], record) for file in TOLD[name]["files"] for record in file["records"]]
    assert [
        {
            "offset": row["offset"],
            "size": row["length"],
            "replay_time": row["mpy6a"]["replay_time"],
            "id": [int(row["mpy6a"]["term"]), int(row["mpy6a"]["index"])],
            "topic": row["mpy6a"]["topic"],
            "attempts": int(row["mpy6a"]["attempts"]),
            "data_hex": row["payload"].hex(),
        }
        for row in found
    ] == [record for _, record in told]
    assert [row["file"] for row in found] == [file for file, _ in told]
    for row, (_, record) in zip(found, told, strict=True):
        assert (row["term"], row["position"]) == tuple(min(part, 2**63 - 1) for part in record["id"])
        assert (row["stream"], row["key"]) == (
            str(record["topic"]),
            lay.encode_state_id(lay.StateID(*record["id"])),
        )


@pytest.mark.parametrize("name", GOOD)
def test_the_descriptors_are_the_recorded_ones(name, tmp_path):
    found = survey(DISK, str(lay_out(name, tmp_path))).machine.descriptors()
    assert [
        {
            "name": item.name,
            "delay": item.delay,
            "id": list(item.id),
            "last_id": list(item.last_id),
            "write": bool(item.flags & lay.WRITTEN),
            "read": bool(item.flags & lay.READ),
            "rwstate": item.flags,
            "offset": item.offset,
            "len": item.length,
            "replay": item.replay,
        }
        for item in found
    ] == TOLD[name]["states"]


@pytest.mark.parametrize("name", WHOLE)
def test_verify_finds_nothing_in_a_whole_directory(name, tmp_path):
    inventory = Log(MPY6A, DISK, str(lay_out(name, tmp_path))).verify()
    assert (inventory.verdict, inventory.findings, inventory.exit_status) == ("clean", (), 0)


@pytest.mark.parametrize("name", TORN)
def test_verify_names_the_torn_end_and_opening_cuts_it(name, tmp_path):
    path = lay_out(name, tmp_path)
    inventory = Log(MPY6A, DISK, str(path)).verify()
    ((file, told),) = TOLD[name]["truncated"].items()
    assert [(item.severity, item.file, item.offset) for item in inventory.findings] == [
        ("repairable", file, told["from_"])
    ]
    assert inventory.findings[0].found.split()[0] == str(told["dropped"])
    assert (path / file).stat().st_size == told["from_"] + told["dropped"]
    with SessionStore(path, strict=True, follower=True) as store:
        assert [(item.file, item.offset) for item in store.findings] == [(file, told["from_"])]
    assert (path / file).stat().st_size == told["from_"]
    assert Log(MPY6A, DISK, str(path)).verify().verdict == "clean"


# Only descriptors are wrong, and what is right follows from the data files.
HEALED_BY_REPAIR = ("replay-bound", "two-writers", "snapshot-duplicate")


@pytest.mark.parametrize("name", DAMAGED)
def test_verify_state_and_opening_name_the_damage_and_change_nothing(name, tmp_path):
    path = lay_out(name, tmp_path)
    before = snapshot_of(path)
    code, file, offset, words = ERRORS[name]
    inventory = Log(MPY6A, DISK, str(path)).verify()
    verdict = ("repairable", 1) if code in HEALED_BY_REPAIR else ("corrupt", 3)
    assert (inventory.verdict, inventory.exit_status) == verdict
    (finding,) = [item for item in inventory.findings if item.severity == verdict[0]]
    assert (finding.code, finding.file, finding.offset) == (code, file, offset)
    assert words in finding.message
    for refused in (
        lambda: SessionStore(path, strict=True),
        lambda: SessionStore(path),
        lambda: rows(Log(MPY6A, DISK, str(path)).state()),
    ):
        with pytest.raises(DamageError) as raised:
            refused()
        assert (raised.value.code, raised.value.offset) == (code, offset)
        assert "flintlog repair" in str(raised.value)
    assert snapshot_of(path) == before


@pytest.mark.parametrize("name", DAMAGED)
def test_the_recorded_error_is_at_the_same_place(name):
    told = TOLD[name]
    code, file, offset, _ = ERRORS[name]
    if "event_start" in told:
        assert (file, offset) == ("state.log", told["event_start"])
    if "file" in told and code != "snapshot-duplicate":
        assert file == told["file"]
    if "offset" in told:
        assert offset == told["offset"]


@pytest.mark.parametrize("told", logs(), ids=lambda told: told["file"])
def test_the_container_of_the_original_is_cut_where_it_was_recorded(told):
    view = memoryview(log_bytes(told["file"]))
    if not len(view):
        assert (told["ref_events"], told["ref_truncate_to"]) == (0, 0)
        return
    if told.get("ref_error") == "log_header":
        with pytest.raises(MalformedError, match="cut to 9"):
            scan.scan_log(view, checked=False)
        return
    log = scan.scan_log(view, checked=False)
    damage = scan.judge_log(view, log, checked=False)
    if "ref_error" in told:
        assert damage is not None
        assert not damage.torn
        assert damage.code == "event-number"
        return
    assert damage is None or damage.torn
    assert (len(log.events), log.end) == (told["ref_events"], told["ref_truncate_to"])
    assert [list(log.events.state_id(row)) for row in range(len(log.events))] == [
        [3, number] for number in range(1, told["ref_events"] + 1)
    ]


@pytest.mark.parametrize("case", ["01_few", "11_snapshot_pruned"])
def test_a_peer_of_zmqraft_is_not_taken_for_mpy6a(case, tmp_path):
    from tests.golden_cases import materialise

    path = str(materialise(case, tmp_path, dialect="zmqraft"))
    assert detect(DISK, path).name == "zmqraft"
    assert not MPY6A.recognise(DISK, path)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("state.log", b"12:00 the application is in state READY\n" * 3),
        ("state.log", b""),
        ("operations.log", b"INFO nothing happened\n"),
        ("state.snapshot", b"{}"),
        ("state.snapshot", b""),
        ("exhausted.sessions", bytes(100)),
        ("data.new", b"scratch"),
    ],
)
def test_a_file_that_only_has_a_name_of_ours_is_no_log(name, content, tmp_path):
    (tmp_path / name).write_bytes(content)
    assert not MPY6A.recognise(DISK, str(tmp_path))


def test_a_directory_with_a_name_of_ours_is_no_log(tmp_path):
    (tmp_path / "state.log").mkdir()
    assert not MPY6A.recognise(DISK, str(tmp_path))


@pytest.mark.parametrize("name", ["state.log", "state.snapshot", "operations.log", "60@2023111422.data"])
def test_each_file_of_a_store_tells_the_directory_on_its_own(name, tmp_path):
    with SessionStore(tmp_path / "sessions", topics=[Topic(1, 60)]) as store:
        store.put(1, b"hi", now=1_700_000_000)
    for other in (tmp_path / "sessions").iterdir():
        if other.name != name:
            other.unlink()
    assert MPY6A.recognise(DISK, str(tmp_path / "sessions"))
