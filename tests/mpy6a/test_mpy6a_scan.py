"""Files to columns, and the rule that tells torn from damaged: at every byte of small files."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np
import pytest

from flintlog.columns.zeros import SECTOR_SIZE
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import operations as ops
from flintlog.dialects.mpy6a import scan
from flintlog.dialects.mpy6a.layout import Record, StateID

T = 1_700_000_001
FRAME, LIMIT = 128, 64


def record(number: int, size: int = 5, *, due: int = T) -> bytes:
    # No zero byte at the end, so that a lost end is seen.
    return lay.encode_record(
        Record(due + number, StateID(1, number + 1), -3, number, bytes([0x80 + number % 100]) * size)
    )


def judged(raw: bytes, *, written: bool = True, before: int = T):
    """How many records are good, and what is said of what follows."""
    view = memoryview(raw)
    records, stop = scan.scan_records(view, before=before)
    assert stop is not None
    last = int(records.replay_time[-1]) if len(records) else before
    return len(records), scan.judge_records(view, stop, last, written=written)


# Records


def test_columns_hold_what_the_records_do():
    raw = b"".join(record(number, number * 40) for number in range(6))
    records, stop = scan.scan_records(memoryview(raw))
    assert stop is not None and stop.good and stop.offset == len(raw)
    at = 0
    for row in range(6):
        one, end = lay.read_record(raw, at)
        assert (int(records.offset[row]), int(records.size[row])) == (at, end - at)
        assert int(records.replay_time[row]) == one.replay_time
        assert StateID(int(records.term[row]), int(records.index[row])) == one.id
        assert (int(records.topic[row]), int(records.attempts[row])) == (one.topic, one.attempts)
        begin = int(records.data[row])
        assert raw[begin : begin + int(records.length[row])] == one.data
        at = end


def mutated(raw: bytes, random_: random.Random) -> bytes:
    data = bytearray(raw)
    at = random_.randrange(len(data))
    match random_.randrange(4):
        case 0:
            del data[at:]
        case 1:
            data[at] ^= 1 << random_.randrange(8)
        case 2:
            data[at : at + 9] = b"\xff" * 9
        case _:
            data[at : at + 40] = bytes(40)
    return bytes(data)


def test_compiled_and_uncompiled_see_the_same_records():
    random_ = random.Random(5)
    compiled = scan._scan_records.compiled()
    whole = b"".join(record(number, random_.randrange(60)) for number in range(40))
    for _ in range(300):
        raw = mutated(whole, random_)
        outcomes = []
        for run in (scan._scan_records.python, compiled):
            buffer = np.frombuffer(raw, np.uint8) if run is compiled else memoryview(raw)
            columns = [np.zeros(64, kind) for kind in scan.Records.types().values()]
            ended = run(buffer, 0, len(raw), T, True, *columns)
            outcomes.append((tuple(map(int, ended)), [column[: ended[0]].tolist() for column in columns]))
        assert outcomes[0] == outcomes[1]


def test_batches_go_on_where_the_last_one_ended():
    raw = memoryview(b"".join(record(number // 2) for number in range(10)))
    found = list(scan.record_batches(raw, limit=3))
    assert [len(records) for records, _ in found] == [3, 3, 3, 1]
    assert [stop for _, stop in found[:-1]] == [None] * 3
    whole, _ = scan.scan_records(raw)
    for name in scan.Records.types():
        parts = scan.Records.join([records for records, _ in found])
        assert (getattr(parts, name) == getattr(whole, name)).all()
    assert len(scan.Records.join([])) == 0


def test_the_order_of_time_holds_across_batches():
    raw = memoryview(record(5) + record(6) + record(4))
    found = list(scan.record_batches(raw, limit=2))
    assert found[-1][1] == scan.Stop(len(record(5)) + len(record(6)), scan.ORDER)
    assert [stop for _, stop in scan.record_batches(raw, limit=2, ordered=False)][-1].good


def test_every_cut_of_a_file_that_is_written_is_torn_and_keeps_the_whole_records():
    parts = [record(number, 7) for number in range(4)]
    raw = b"".join(parts)
    size = len(parts[0])
    for end in range(len(raw) + 1):
        count, damage = judged(raw[:end])
        assert count == end // size
        if end % size == 0:
            assert damage is None
            assert judged(raw[:end], written=False)[1] is None
        else:
            assert damage is not None and damage.torn and damage.code == "record-cut"
            closed = judged(raw[:end], written=False)[1]
            assert closed is not None and not closed.torn


@pytest.mark.parametrize("zeros", [1, 7, 8, 27, 29, 30, 31, 60, 4096])
def test_zeros_up_to_the_end_are_torn_in_a_file_that_is_written_only(zeros):
    raw = record(1) + bytes(zeros)
    count, damage = judged(raw)
    assert count == 1 and damage is not None and damage.torn and damage.code == "record-zeros"
    closed = judged(raw, written=False)[1]
    assert closed is not None and not closed.torn


def test_a_write_whose_commit_byte_did_not_arrive_is_torn_whatever_of_it_stands_behind():
    commit = (T.bit_length() + 7) // 8 - 1
    for behind in (b"", record(2), bytes(50), b"\xff" * 9, record(4)[:-3]):
        uncommitted = bytearray(record(2))
        uncommitted[commit] = 0
        count, damage = judged(record(1) + uncommitted + behind)
        assert count == 1 and damage is not None and damage.torn
        assert judged(record(1) + uncommitted + behind, written=False)[1].torn is False


def test_a_record_without_its_time_before_those_of_later_writes_is_damage():
    """One write has one time: what is due later was written later, so this one had arrived."""
    commit = (T.bit_length() + 7) // 8 - 1
    for zeros, behind in (
        ((commit, commit + 1), record(4)),
        ((0, 30), record(3)),
        ((0, 30), record(3) + record(4)),
    ):
        changed = bytearray(record(2))
        changed[slice(*zeros)] = bytes(zeros[1] - zeros[0])
        count, damage = judged(record(1) + changed + behind)
        assert count == 1 and damage is not None and not damage.torn


def test_a_sector_that_did_not_arrive_is_torn_when_what_follows_it_is_of_the_same_write():
    first = record(1, SECTOR_SIZE - len(record(1)) - 26)
    assert len(first) == SECTOR_SIZE - 30
    lost = bytes(30) + record(2, 10)[30:]
    assert judged(first + lost + record(2) + record(2))[1].torn
    assert not judged(first + lost + record(2) + record(3))[1].torn


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ((8, bytes(8)), "record-term"),
        ((0, bytes(8)), "record-time"),
        ((7, b"\x80"), "record-time"),
        ((0, (T - 5).to_bytes(8, "little")), "record-order"),
        ((28, b"\xff" * 10), "record-number"),
    ],
)
def test_what_no_crash_leaves_is_damage(change, code):
    at, data = change
    bad = bytearray(record(2, 30))
    bad[at : at + len(data)] = data
    count, damage = judged(record(1) + bad + record(3))
    assert count == 1 and damage is not None and damage.code == code
    assert not damage.torn


def test_a_cut_with_a_good_record_behind_it_is_damage():
    lying = bytearray(record(2, 30))
    lying[29] = 0x7F  # 127 bytes are announced, fewer follow
    count, damage = judged(record(1) + lying + record(3))
    assert count == 1 and damage is not None and damage.code == "record-cut" and not damage.torn
    assert scan.record_behind(memoryview(record(1) + lying + record(3)), len(record(1)), T) > 0


def test_huge_lengths_take_no_memory():
    head = record(1)[:28]
    tracemalloc.start()
    try:
        for length in (1 << 20, 1 << 31, 1 << 40, 1 << 62, (1 << 64) - 1):
            raw = head + b"\x00" + lay.uvarint(length) + b"data"
            count, damage = judged(raw)
            assert count == 0 and damage is not None and damage.torn
            log = lay.encode_log_header(4096, 1024) + plain(1, 40)[:16] + lay.uvarint(length) + b"data"
            found = scan.scan_log(memoryview(log), checked=False)
            assert len(found.events) == 0
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


# Frames


def framed(events: list[bytes], frame: int = FRAME, limit: int = LIMIT) -> bytes:
    out = bytearray(lay.encode_log_header(frame, limit))
    for one in events:
        out += bytes(lay.padding_before(len(out), frame, len(one))) + one
    return bytes(out)


def plain(number: int, size: int) -> bytes:
    """An event of so many bytes whose payload means nothing."""
    return lay.EVENT.encode(StateID(1, number), bytes([0x90 + number % 16]) * (size - 17))


@pytest.mark.parametrize("first", range(18, FRAME - 17))
@pytest.mark.parametrize("second", [18, 19, 40, 81])
def test_events_at_every_distance_from_the_end_of_a_frame(first, second):
    """The first event leaves every possible rest, and the second goes in or behind it."""
    sizes = [first] if first <= 81 else [60, first - 60] if first - 60 >= 18 else [40, first - 40]
    events = [plain(at + 1, size) for at, size in enumerate([*sizes, second, 33, 81])]
    raw = framed(events)
    found = scan.scan_log(memoryview(raw), checked=False)
    assert found.stop.good and found.end == len(raw)
    read = [raw[int(found.events.offset[row]) : found.events.end(row)] for row in range(len(found.events))]
    assert read == events
    for row in range(len(read)):
        begin, end = int(found.events.offset[row]) - 16, found.events.end(row) - 16
        assert begin // FRAME == (end - 1) // FRAME  # no event crosses a frame


def test_compiled_and_uncompiled_see_the_same_events():
    random_ = random.Random(6)
    compiled = scan._scan_events.compiled()
    for checked in (False, True):
        events = [
            bytes(ops.encode(StateID(1, at + 1), ops.New(1, bytes(random_.randrange(20)))))
            for at in range(30)
        ]
        whole = framed(events)
        for _ in range(200):
            raw = mutated(whole, random_)
            if len(raw) < 16:
                continue
            outcomes = []
            for run in (scan._scan_events.python, compiled):
                buffer = np.frombuffer(raw, np.uint8) if run is compiled else memoryview(raw)
                columns = [np.zeros(64, kind) for kind in scan.Events.types().values()]
                ended = run(buffer, 16, len(raw), FRAME, LIMIT, checked, *columns)
                outcomes.append((tuple(map(int, ended)), [column[: ended[0]].tolist() for column in columns]))
            assert outcomes[0] == outcomes[1]


# Our change log, with every tail that the recordings have

SIZES = (42, 46, 50, 54, 58, 62, 66)


def whole_log() -> tuple[bytes, list[bytes]]:
    events = []
    for at, size in enumerate(SIZES):
        change = lay.Create(30, T) if at % 2 else lay.Shift("30@2022042817.data", 1 << 7 * at)
        payload = lay.encode_change(change)
        events.append(lay.EVENT.encode(StateID(3, at + 1), payload + bytes(size - 17 - len(payload))))
    return framed(events), events


def ends_of(raw: bytes) -> list[int]:
    found = scan.scan_log(memoryview(raw), checked=False)
    return [found.events.end(row) for row in range(len(found.events))]


def test_a_cut_anywhere_keeps_the_events_before_it_and_says_where_to_go_on():
    raw, events = whole_log()
    ends = ends_of(raw)
    assert len(ends) == len(events)
    begins = [end - len(one) for end, one in zip(ends, events, strict=True)]
    for size in range(16, len(raw) + 1):
        view = memoryview(raw[:size])
        found = scan.scan_log(view, checked=False)
        kept = sum(end <= size for end in ends)
        assert len(found.events) == kept
        last = ends[kept - 1] if kept else 16
        clean = size == last or size in begins  # behind an event, or behind the padding that follows it
        assert found.end == (size if clean else last)
        damage = scan.judge_log(view, found, checked=False)
        assert (damage is None) is clean
        if damage is not None:
            assert damage.torn


@pytest.mark.parametrize("size", range(1, 16))
def test_a_header_that_is_cut_is_refused(size):
    with pytest.raises(lay.MalformedError) as caught:
        scan.scan_log(memoryview(whole_log()[0][:size]), checked=False)
    assert caught.value.code == "header"


@pytest.mark.parametrize(
    ("frame", "limit"), [(0, 0), (10, 20), (lay.FRAME_SIZE_MAX + 1, 64), (64, 10), (1 << 63, 1 << 62)]
)
def test_a_header_that_cannot_be_is_refused(frame, limit):
    with pytest.raises(lay.MalformedError):
        lay.read_log_header(lay.encode_log_header(frame, limit))


def test_zeros_behind_the_last_event_are_torn_but_a_frame_that_they_fill_is_padding():
    raw, _ = whole_log()
    to_frame_end = FRAME - (len(raw) - 16) % FRAME
    for zeros in range(1, 3 * FRAME):
        view = memoryview(raw + bytes(zeros))
        found = scan.scan_log(view, checked=False)
        damage = scan.judge_log(view, found, checked=False)
        assert len(found.events) == len(SIZES)
        if zeros == to_frame_end:
            assert damage is None and found.end == len(view)
        else:
            assert damage is not None and damage.torn and found.end == len(raw)
    found = scan.scan_log(memoryview(raw + b"\xff" * 33), checked=False)
    damage = scan.judge_log(memoryview(raw + b"\xff" * 33), found, checked=False)
    assert damage is not None and not damage.torn


def test_an_event_without_its_length_was_not_committed():
    raw, events = whole_log()
    begin = ends_of(raw)[-1] - len(events[-1])
    uncommitted = bytearray(raw)
    uncommitted[begin + 16] = 0
    found = scan.scan_log(memoryview(uncommitted), checked=False)
    damage = scan.judge_log(memoryview(uncommitted), found, checked=False)
    assert damage is not None and damage.torn and len(found.events) == len(SIZES) - 1


def test_a_payload_longer_than_the_log_allows_is_damage():
    for raw in (
        framed([plain(1, 40), plain(2, 100), plain(3, 40)]),  # more than the greatest payload
        framed([plain(1, 40), plain(2, 60)]) + plain(3, 60),  # over the end of its frame
    ):
        found = scan.scan_log(memoryview(raw), checked=False)
        damage = scan.judge_log(memoryview(raw), found, checked=False)
        assert damage is not None and damage.code == "event-length" and not damage.torn


# The operation log


def operation_log(count: int = 5) -> tuple[bytes, list[int]]:
    events = [bytes(ops.encode(StateID(1, at + 1), ops.New(at, b"\x81" * 30))) for at in range(count)]
    raw = framed(events, *lay.OPERATIONS_FRAME)
    return raw, ends_of(raw)


def test_in_the_operation_log_zeros_are_written_ahead_and_every_bad_end_is_torn():
    raw, ends = operation_log()
    for zeros in (1, 100, 5000):
        found = scan.scan_log(memoryview(raw + bytes(zeros)), checked=True)
        assert scan.judge_log(memoryview(raw + bytes(zeros)), found, checked=True) is None
        assert found.end == len(raw)
    for size in range(ends[-2] + 1, ends[-1]):
        for tail in (b"", bytes(600)):
            view = memoryview(raw[:size] + tail)
            found = scan.scan_log(view, checked=True)
            damage = scan.judge_log(view, found, checked=True)
            assert len(found.events) == len(ends) - 1 and found.end == ends[-2]
            assert damage is not None and damage.torn


def test_in_the_operation_log_a_bad_event_before_a_good_one_is_damage():
    raw, ends = operation_log()
    for at in range(ends[1], ends[2]):
        changed = bytearray(raw)
        changed[at] ^= 0x40
        found = scan.scan_log(memoryview(changed), checked=True)
        damage = scan.judge_log(memoryview(changed), found, checked=True)
        assert len(found.events) == 2
        assert damage is not None and not damage.torn, at


def test_a_sector_that_did_not_arrive_inside_one_commit_is_torn():
    events = [bytes(ops.encode(StateID(1, at + 1), ops.New(at, b"\x81" * 400))) for at in range(6)]
    raw = framed(events, *lay.OPERATIONS_FRAME)
    hole = bytearray(raw)
    hole[512:1024] = bytes(512)
    found = scan.scan_log(memoryview(hole), checked=True)
    damage = scan.judge_log(memoryview(hole), found, checked=True)
    assert damage is not None and damage.torn and len(found.events) == 1
