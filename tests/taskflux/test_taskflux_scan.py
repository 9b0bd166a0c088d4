"""Torn or damaged: the rule of `scan`, at every byte and every bit of a small log."""

from __future__ import annotations

import random
import struct
import tracemalloc

import numpy as np
import pytest

from flintlog import QueueStore
from flintlog.columns.checksum import crc32_mpeg2
from flintlog.core.log import Log
from flintlog.dialects.taskflux import scan
from flintlog.dialects.taskflux.dialect import DIALECT
from flintlog.dialects.taskflux.layout import (
    DESIGNED,
    LAYOUTS,
    RECORD_MARKER,
    SHIPPED,
    AddRecord,
    Layout,
    encode_delta,
    segment_name,
)
from flintlog.dialects.taskflux.survey import Survey, survey
from flintlog.disk import Disk
from flintlog.errors import DamageError
from flintlog.testing import MemoryKernel, State

DATA = "/data"
SEGMENT = "log/0000000000000000000.log"
BOTH = pytest.mark.parametrize("layout", [DESIGNED, SHIPPED], ids=["designed", "shipped"])


def machine(
    layout: Layout, *segments: tuple[int, bytes], metadata: bytes | None = None, snapshot: bytes = b""
):
    """A kernel with one data directory; each segment is its first LSN and its bytes."""
    files = {10 + at: content for at, (_, content) in enumerate(segments)}
    files |= {5: metadata if metadata is not None else layout.encode_metadata(1, None), 6: snapshot}
    names = {
        1: {"data": 2},
        2: {"log": 3, "tflux.metadata": 5, "tflux.snapshot": 6, layout.scratch: 4},
        3: {segment_name(first): 10 + at for at, (first, _) in enumerate(segments)},
        4: {},
    }
    return MemoryKernel(State(files, names))


def looked_at(kernel: MemoryKernel) -> Survey:
    return survey(Disk(kernel), DATA, read_all=True)


def data(number: int, size: int = 6) -> bytes:
    # No zero byte at the end, so that a lost end is seen.
    return encode_delta(AddRecord("", number, bytes([0x80 + number]) * size))


def records(layout: Layout, count: int, first: int = 0, size: int = 6) -> list[bytes]:
    return [layout.encode_record(1, data(number, size)) for number in range(first, first + count)]


def segment(layout: Layout, parts: list[bytes]) -> bytes:
    return layout.segment_header() + b"".join(parts) + bytes(4)


def opens_with(kernel: MemoryKernel, count: int, healed: list[str]) -> None:
    """Opening heals, keeps `count` entries, goes on well, and has nothing to heal the next time."""
    with QueueStore(DATA, disk=Disk(kernel), reserve_bytes=0) as store:
        assert [finding.code for finding in store.findings] == healed
        assert store.last_lsn == count - 1
        assert [row.key for row in store.queue().records()] == list(range(count))
        store.queue().add(b"next", key=99)
    with QueueStore(DATA, disk=Disk(kernel), reserve_bytes=0) as store:
        assert store.findings == ()
        assert store.last_lsn == count
        assert [row.key for row in store.queue().records()] == [*range(count), 99]


def refused(kernel: MemoryKernel, code: str, offset: int | None, file: str = SEGMENT) -> None:
    """Opening names the place and changes nothing; verify says the same."""
    before = dict(kernel.visible().tree())
    with pytest.raises(DamageError) as caught:
        QueueStore(DATA, disk=Disk(kernel))
    assert (caught.value.code, caught.value.file, caught.value.offset) == (code, f"{DATA}/{file}", offset)
    assert caught.value.expected is not None and caught.value.found is not None
    assert dict(kernel.visible().tree()) == before
    seen = Log(DIALECT, Disk(kernel), DATA).verify()
    assert seen.verdict == "corrupt"
    assert (seen.findings[0].code, seen.findings[0].offset) == (code, offset)


# Cut


@BOTH
def test_a_log_cut_at_any_byte_is_torn_and_keeps_every_whole_record(layout):
    parts = records(layout, 3)
    whole = segment(layout, parts)
    ends = [8 + sum(map(len, parts[:count])) for count in range(4)]
    for size in range(8, len(whole) + 1):
        count = sum(end <= size for end in ends[1:])
        if size in ends or size == len(whole):
            healed = []  # a file may end behind a record
        else:
            healed = ["torn-tail"]
        kernel = machine(layout, (0, whole[:size]))
        found = looked_at(kernel)
        assert [item.code for item in found.findings] == healed, size
        if healed == ["torn-tail"]:
            assert found.findings[0].offset == ends[count]
        opens_with(kernel, count, healed)


@BOTH
def test_a_closed_segment_cut_at_any_byte_is_damage(layout):
    """It was synced before the next one was begun, so nothing in it can be torn."""
    parts = records(layout, 3)
    whole = segment(layout, parts)
    following = (3, segment(layout, records(layout, 2, first=3)))
    ends = [8 + sum(map(len, parts[:count])) for count in range(4)]
    for size in range(len(whole) - 4):
        kernel = machine(layout, (0, whole[:size]), following)
        if size < 8:
            refused(kernel, "segment-marker", 0)
        elif size in ends:
            refused(kernel, "log-gap", None, f"log/{segment_name(3)}")
        else:
            refused(kernel, "record-cut", max(end for end in ends if end <= size))
    opens_with(machine(layout, (0, whole[:-4]), following), 5, [])
    for size in range(len(whole) - 3, len(whole)):
        refused(machine(layout, (0, whole[:size]), following), "record-cut", ends[3])


@BOTH
def test_an_end_that_arrived_as_zeros_is_torn_at_every_byte(layout):
    parts = records(layout, 3)
    start = 8 + len(parts[0]) + len(parts[1])
    whole = segment(layout, parts)
    for tail in (b"", bytes(1000)):  # as it was, and preallocated
        for kept in range(1, len(parts[2]) - layout.padding(len(data(2)))):
            cut = whole[: start + kept]
            kernel = machine(layout, (0, cut + bytes(len(whole) - len(cut)) + tail))
            assert [(item.code, item.offset) for item in looked_at(kernel).findings] == [("torn-tail", start)]
            opens_with(kernel, 2, ["torn-tail"])
        opens_with(machine(layout, (0, whole[:start] + bytes(len(parts[2])) + tail)), 2, [])


@BOTH
def test_a_preallocated_segment_is_appended_to_over_its_zeros(layout):
    whole = segment(layout, records(layout, 2))
    opens_with(machine(layout, (0, whole + bytes(4096))), 2, [])


@BOTH
def test_a_header_that_arrived_in_part_makes_an_empty_segment(layout):
    header = layout.segment_header()
    older = (0, segment(layout, records(layout, 2)))
    for kept in range(8):
        for zeros in (0, 1, 4, 8 - kept, 4096):
            kernel = machine(layout, older, (2, header[:kept] + bytes(zeros)))
            opens_with(kernel, 2, ["torn-header"] if kept + zeros else [])


def test_an_only_segment_without_a_header_is_damage_because_it_is_there_before_the_metadata():
    for content in (b"", bytes(4096), DESIGNED.segment_header()[:5]):
        kernel = machine(DESIGNED, (0, content))
        before = dict(kernel.visible().tree())
        with pytest.raises(DamageError, match="was emptied") as caught:
            QueueStore(DATA, disk=Disk(kernel))
        assert caught.value.code == "log-emptied"
        assert dict(kernel.visible().tree()) == before
        opens_with(machine(SHIPPED, (0, b"")), 0, [])  # the original makes its metadata first


# Flipped


def flips(content: bytes, start: int, end: int):
    for at in range(start, end):
        for bit in range(8):
            yield at - start, content[:at] + bytes([content[at] ^ (1 << bit)]) + content[at + 1 :]


def field_at(layout: Layout, place: int, data_size: int) -> str:
    header = layout.record_header_size
    if place < 4:
        return "marker"
    if place < 4 + layout.term_size:
        return "term"
    if place < header - 4:
        return "checksum"
    if place < header:
        return "length"
    return "data" if place < header + data_size else "padding"


@BOTH
def test_a_flipped_bit_in_the_middle_of_the_log_is_refused_with_its_place(layout):
    parts = records(layout, 3)
    whole = segment(layout, parts)
    start = 8 + len(parts[0])
    unseen = 0
    for place, content in flips(whole, start, start + len(parts[1])):
        kernel = machine(layout, (0, content))
        term = int.from_bytes(content[start + 4 : start + 4 + layout.term_size], "big", signed=True)
        match field_at(layout, place, len(data(1))):
            case "marker":
                refused(kernel, "record-marker", start)
            case "term" if term < 1:
                refused(kernel, "record-term", start)
            case "term":
                # No checksum covers the term: the format cannot see this. The record itself is good; what is
                # seen is that the term falls again behind it.
                unseen += 1
                assert [(item.code, item.severity.value) for item in looked_at(kernel).findings] == [
                    ("term-falls", "note")
                ]
            case "length":
                length = int.from_bytes(
                    content[start + layout.record_header_size - 4 :][:4], "big", signed=True
                )
                code = "record-length" if length < 0 else "record-checksum"
                if length + layout.padding(max(length, 0)) > len(whole) - start - layout.record_header_size:
                    code = "record-cut"
                refused(kernel, code, start)
            case "padding":
                refused(kernel, "record-padding", start)
            case _:
                refused(kernel, "record-checksum", start)
    assert unseen == 8 * layout.term_size - 2  # all but the lowest bit, which makes it 0, and the sign


@BOTH
def test_a_flipped_bit_in_the_last_record_is_torn_where_a_torn_write_could_have_made_it(layout):
    """Nothing behind it tells whether it was acknowledged. Marker, sign of the length and a term below 1 are no
    bytes that a write leaves half done, so these are refused."""
    parts = records(layout, 3)
    whole = segment(layout, parts)
    start = 8 + len(parts[0]) + len(parts[1])
    for place, content in flips(whole, start, start + len(parts[2])):
        kernel = machine(layout, (0, content))
        header = content[start : start + layout.record_header_size]
        term = int.from_bytes(header[4 : 4 + layout.term_size], "big", signed=True)
        match field_at(layout, place, len(data(2))):
            case "marker":
                refused(kernel, "record-marker", start)
            case "term" if term < 1:
                refused(kernel, "record-term", start)
            case "term":
                assert looked_at(kernel).findings == []  # unseen, as above
            case "length" if header[-4] & 0x80:
                refused(kernel, "record-length", start)
            case "padding":
                refused(kernel, "record-padding", start)
            case _:
                assert [(item.code, item.offset) for item in looked_at(kernel).findings] == [
                    ("torn-tail", start)
                ]
                opens_with(kernel, 2, ["torn-tail"])


@BOTH
def test_a_flipped_bit_in_the_last_record_of_a_closed_segment_is_refused(layout):
    parts = records(layout, 2)
    whole = segment(layout, parts)
    start = 8 + len(parts[0])
    following = (2, segment(layout, records(layout, 2, first=2)))
    for place, content in flips(whole, start, start + len(parts[1])):
        if field_at(layout, place, len(data(1))) != "term":
            found = looked_at(machine(layout, (0, content), following))
            assert [(item.severity.value, item.offset) for item in found.findings] == [("corrupt", start)]


@BOTH
def test_a_flipped_bit_in_the_header_is_told(layout):
    whole = segment(layout, records(layout, 2))
    for place, content in flips(whole, 0, 8):
        kernel = machine(layout, (0, content))
        version = int.from_bytes(content[4:8], "big", signed=True)
        [verdict] = {Log(DIALECT, Disk(kernel), DATA).verify().verdict}
        if place < 4:
            assert verdict == "repairable"  # all records are good; `repair` writes the header anew
        elif version > layout.segment_version:
            assert verdict == "unsupported"
        else:
            assert verdict == "clean"  # lower versions are accepted, as the original accepts them


@BOTH
def test_a_flipped_bit_in_the_end_marker_loses_no_record(layout):
    """Followed by zeros it may be the beginning of a write, so it is cut; else it is refused."""
    whole = segment(layout, records(layout, 2))
    for place, content in flips(whole, len(whole) - 4, len(whole)):
        if place < 3:
            opens_with(machine(layout, (0, content)), 2, ["torn-tail"])
        else:
            refused(machine(layout, (0, content)), "record-marker", len(whole) - 4)


@BOTH
def test_a_flipped_bit_anywhere_in_metadata_or_snapshot_never_opens_as_something_else(layout):
    kernel = MemoryKernel()
    with QueueStore("/", disk=Disk(kernel), edition=layout.edition, snapshot_threshold=99) as store:
        store.create("q", max_size=5, key_range=(0, 9)).add_many([b"one", b"two"], [2, 1])
        store.snapshot()
    state = kernel.visible()
    inodes = state.names[state.names[1]["data"]]
    log = state.names[inodes["log"]]
    content = state.files[inodes["tflux.metadata"]]
    for _, bad in flips(content, 0, len(content)):
        files = {**state.files, inodes["tflux.metadata"]: bad}
        assert Log(DIALECT, Disk(MemoryKernel(State(files, state.names))), "/").verify().verdict in (
            "corrupt",
            "unsupported",
        )
    content = state.files[inodes["tflux.snapshot"]]
    index_and_term = range(4, 4 + 2 * layout.term_size)  # no checksum covers them
    for place, bad in flips(content, 0, len(content)):
        files = {**state.files, inodes["tflux.snapshot"]: bad}
        changed = MemoryKernel(State(files, state.names))
        if place not in index_and_term:
            try:
                with QueueStore("/", disk=Disk(changed)) as store:  # the log has all of it
                    assert [finding.code for finding in store.findings] == ["snapshot-unusable"]
                    assert [record.payload for record in store.queue("q").records()] == [b"two", b"one"]
            except DamageError as error:
                assert place < 4, error  # the marker: then nobody knows how far the snapshot reached
    assert len(log) == 1


# Sectors that arrived in another order


def batch_of_sectors(layout: Layout) -> tuple[bytes, list[int]]:
    parts = records(layout, 1) + records(layout, 30, first=1, size=100)
    starts = np.cumsum([8, *map(len, parts)]).tolist()
    return segment(layout, parts), starts


@BOTH
@pytest.mark.parametrize("sector", [1, 2, 3, 5])
def test_a_sector_that_did_not_arrive_tears_the_commit_where_it_was_lost(layout, sector):
    whole, starts = batch_of_sectors(layout)
    lost = whole[: 512 * sector] + bytes(512) + whole[512 * (sector + 1) :]
    torn_at = max(start for start in starts if start < 512 * sector)
    kernel = machine(layout, (0, lost))
    [finding] = looked_at(kernel).findings
    assert finding.code == "torn-tail" or starts.count(512 * sector)
    assert finding.offset in (torn_at, 512 * sector)
    opens_with(kernel, starts.index(finding.offset), ["torn-tail"])


@BOTH
def test_a_lost_sector_further_back_than_one_commit_is_damage(layout, monkeypatch):
    whole, starts = batch_of_sectors(layout)
    lost = whole[:1024] + bytes(512) + whole[1536:]
    monkeypatch.setattr(scan, "COMMIT_BYTES_MAX", 600)
    torn_at = max(start for start in starts if start < 1024)
    refused(machine(layout, (0, lost)), "record-checksum", torn_at)


@BOTH
def test_zeros_of_less_than_a_sector_in_front_of_good_records_are_damage(layout):
    whole, starts = batch_of_sectors(layout)
    at = starts[6] + layout.record_header_size + 20
    hurt = whole[:at] + bytes(50) + whole[at + 50 :]
    refused(machine(layout, (0, hurt)), "record-checksum", starts[6])


# What stands behind the end


def test_good_records_behind_the_end_of_a_designed_log_are_damage():
    layout = DESIGNED
    parts = records(layout, 5)
    zeroed = [parts[0], bytes(len(parts[1])), *parts[2:]]
    refused(machine(layout, (0, segment(layout, zeroed))), "record-behind-end", 8 + len(parts[0]))


def test_stale_records_behind_the_end_marker_never_come_back():
    layout = SHIPPED  # the original leaves them when it overwrites in place
    parts = records(layout, 2)
    stale = b"".join(records(layout, 4, first=50))
    for shift in range(0, 60, 7):
        kernel = machine(layout, (0, segment(layout, parts) + stale[shift:]))
        assert [item.code for item in looked_at(kernel).findings] == ["stale-bytes"]
        opens_with(kernel, 2, [])
        content = Disk(kernel).read(f"{DATA}/{SEGMENT}", 1 << 20)
        assert bytes([0x80 + 51]) not in content


@BOTH
def test_a_payload_full_of_markers_is_a_payload(layout):
    inner = layout.encode_record(1, data(1)) + RECORD_MARKER * 20 + layout.segment_header()
    payload = encode_delta(AddRecord("q", 0, inner))
    whole = layout.segment_header() + layout.encode_record(1, payload) + bytes(4)
    found = looked_at(machine(layout, (0, whole)))
    assert found.findings == [] and len(found.segments[0].records) == 1
    # Cut inside it, the record that stands in the payload looks like one that follows. Calling acknowledged data
    # torn is the mistake that cannot be undone, so this is refused, not cut.
    refused(machine(layout, (0, whole[:-9])), "record-cut", 8)


# Lengths that lie


@BOTH
@pytest.mark.parametrize("length", [0x7FFFFFFF, 0x7FFFFFFC, 0xFFFFFFFF, 0x80000000, 0x10000000])
def test_a_length_field_never_decides_how_much_memory_is_taken(layout, length):
    header = RECORD_MARKER + (1).to_bytes(layout.term_size, "big") + struct.pack(">II", 0, length)
    whole = segment(layout, [*records(layout, 1), header + b"x" * 64])
    kernel = machine(layout, (0, whole))
    tracemalloc.start()
    found = looked_at(kernel)
    Log(DIALECT, Disk(kernel), DATA).plan_repair()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20
    assert len(found.segments[0].records) == 1
    assert found.findings[0].offset == 8 + len(records(layout, 1)[0])


def snapshot_of_state(layout: Layout, state: bytes, size: int | None = None) -> bytes:
    head = layout.snapshot_header.encode(0, 1, len(state) if size is None else size)
    return head + state + struct.pack(">I", crc32_mpeg2(state, 0, len(state)))


DEFAULT_QUEUE = b"\x00" + struct.pack(">iQiiB", 1, 5, -1, -1, 0)
LYING_STATES = {
    "queues": struct.pack(">i", 2**31 - 1),
    "negative queues": struct.pack(">i", -1),
    "records": struct.pack(">i", 1) + DEFAULT_QUEUE + struct.pack(">i", 2**31 - 1),
    "records that nearly fit": struct.pack(">i", 1) + DEFAULT_QUEUE + struct.pack(">i", 3) + bytes(59),
    "negative records": struct.pack(">i", 1) + DEFAULT_QUEUE + struct.pack(">i", -1),
    "payload": struct.pack(">i", 1) + DEFAULT_QUEUE + struct.pack(">iQqI", 1, 1, 0, 2**31 - 1) + b"abc",
    "payload over 2 GiB": struct.pack(">i", 1) + DEFAULT_QUEUE + struct.pack(">iQqI", 1, 1, 0, 2**32 - 1),
    "name": struct.pack(">i", 1) + b"\xff" + b"q" * 10,
    "name with a blank": struct.pack(">i", 1) + b"\x01 " + DEFAULT_QUEUE[1:] + bytes(4),
    "one id twice": struct.pack(">i", 1) + DEFAULT_QUEUE + struct.pack(">iQqIQqI", 2, 1, 0, 0, 1, 0, 0),
    "one queue twice": struct.pack(">i", 2) + (DEFAULT_QUEUE + bytes(4)) * 2,
    "code": struct.pack(">i", 1) + b"\x00" + struct.pack(">iQiiBi", 9, 0, -1, -1, 0, 0),
    "limit": struct.pack(">i", 1) + b"\x00" + struct.pack(">iQiiBi", 1, 0, -7, -1, 0, 0),
}


@BOTH
@pytest.mark.parametrize("what", LYING_STATES)
def test_a_snapshot_whose_numbers_lie_is_refused_in_little_memory(layout, what):
    content = snapshot_of_state(layout, LYING_STATES[what])
    kernel = machine(layout, (1, segment(layout, records(layout, 1))), snapshot=content)
    tracemalloc.start()
    with pytest.raises(DamageError) as caught:
        QueueStore(DATA, disk=Disk(kernel))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 20
    assert caught.value.file == f"{DATA}/tflux.snapshot"


@BOTH
def test_the_length_of_a_snapshots_state_is_bounded_by_its_file(layout):
    content = snapshot_of_state(layout, struct.pack(">i", 0), size=2**31 - 1)
    with pytest.raises(DamageError, match="ends early"):
        QueueStore(DATA, disk=Disk(machine(layout, (1, segment(layout, [])), snapshot=content)))


# Which edition


@BOTH
def test_the_edition_is_recognised_without_metadata(layout):
    kernel = machine(layout, (0, segment(layout, records(layout, 2))), metadata=b"")
    assert looked_at(kernel).layout is layout


def test_version_one_in_a_designed_segment_is_accepted_when_its_checksum_proves_the_layout():
    whole = bytearray(segment(DESIGNED, records(DESIGNED, 2)))
    whole[7] = 1
    assert looked_at(machine(DESIGNED, (0, bytes(whole)), metadata=b"")).layout is DESIGNED
    kernel = machine(DESIGNED, (0, bytes(whole)), metadata=DESIGNED.encode_metadata(1, None))
    with QueueStore(DATA, disk=Disk(kernel)) as store:
        assert (store.edition, store.last_lsn) == ("designed", 1)


@BOTH
def test_the_edition_of_an_empty_log_is_that_of_its_version(layout):
    found = looked_at(machine(layout, (0, segment(layout, [])), metadata=b""))
    assert found.layout is layout


def test_the_original_refuses_a_designed_segment_by_its_version():
    assert DESIGNED.segment_version > SHIPPED.segment_version
    assert DESIGNED.metadata_version > SHIPPED.metadata_version


# The compiled scan


@pytest.mark.parametrize("edition", LAYOUTS)
def test_the_compiled_scan_sees_what_the_plain_one_sees(edition):
    layout = LAYOUTS[edition]
    random_ = random.Random(11)
    base = bytearray(segment(layout, records(layout, 12)))
    for round_ in range(300):
        content = bytearray(base)
        for _ in range(round_ % 4):
            content[random_.randrange(8, len(content))] = random_.randrange(256)
        content = content[: random_.randrange(8, len(content) + 1)]
        plain = run(scan._scan.python, content, layout, memoryview(bytes(content)))
        compiled = run(scan._scan.compiled(), content, layout, np.frombuffer(bytes(content), np.uint8))
        assert plain == compiled


def run(function, content, layout, buffer):
    columns = [np.zeros(20, kind) for kind in scan.Records.types().values()]
    result = function(buffer, 8, len(content), layout.term_size, layout.alignment, *columns)
    count = int(result[0])
    return tuple(map(int, result)), [column[:count].tolist() for column in columns]


@BOTH
def test_a_snapshot_whose_last_id_is_too_low_gives_no_id_out_twice(layout):
    record = struct.pack(">QqI", 7, 0, 1) + b"x"
    state = struct.pack(">i", 1) + DEFAULT_QUEUE + struct.pack(">i", 1) + record
    kernel = machine(layout, (1, segment(layout, [])), snapshot=snapshot_of_state(layout, state))
    with QueueStore(DATA, disk=Disk(kernel)) as store:
        assert store.queue().last_id == 7  # the state says 5
        assert store.queue().add(b"") == 8


@BOTH
def test_queues_and_records_of_a_snapshot_may_stand_in_any_order(layout):
    def queue(name: bytes, *keys: int) -> bytes:
        rows = [struct.pack(">QqI", id_, key, 0) for id_, key in enumerate(keys, 1)]
        head = bytes([len(name)]) + name + struct.pack(">iQiiBi", 1, 5, -1, -1, 0, len(keys))
        return head + b"".join(rows)

    state = struct.pack(">i", 3) + queue(b"z", 3, 1, 2) + queue(b"") + queue(b"a", 2, -1)
    kernel = machine(layout, (1, segment(layout, [])), snapshot=snapshot_of_state(layout, state))
    with QueueStore(DATA, disk=Disk(kernel)) as store:
        assert [spec.name for spec in store.list()] == ["", "a", "z"]
        taken = {name: [record.key for record in store.queue(name).take_many(9)] for name in "az"}
        assert taken == {"a": [-1, 2], "z": [1, 2, 3]}
