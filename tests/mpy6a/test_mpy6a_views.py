"""Entries, state and bytes as the command line and Spark see them."""

from __future__ import annotations

import random
import shutil

import numpy as np
import pytest
from tests.mpy6a.damaged import BY_CODE, FIRST, SECOND, T0, TOPICS, logged, noted, settled

from flintlog.core.dialect import NO_PAYLOAD, EntryQuery
from flintlog.core.log import Log
from flintlog.dialects.mpy6a import entries, event_columns, scan, tables, waiting
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import operations as ops
from flintlog.dialects.mpy6a.dialect import DIALECT
from flintlog.dialects.mpy6a.layout import Record, StateID
from flintlog.dialects.mpy6a.store import SessionStore, Topic
from flintlog.disk import Disk
from flintlog.errors import DamageError, FlintlogError, RefusedError, UsageError

pytestmark = pytest.mark.usefixtures("still")

DISK = Disk()


def rows(batches):
    return [row for batch in batches for row in batch.to_pylist()]


def state(root, as_of=None):
    return rows(Log(DIALECT, DISK, str(root)).state(as_of))


def dump(root, **query):
    asked = EntryQuery(**query)
    return rows(
        batch
        for split in Log(DIALECT, DISK, str(root)).splits(asked)
        for batch in Log(DIALECT, DISK, str(root)).read_split(split, asked)
    )


@pytest.fixture
def root(tmp_path):
    return tmp_path / "root"


# State


def test_the_order_is_time_then_the_longer_delay_then_the_file(root, monkeypatch):
    monkeypatch.setattr(waiting, "_WINDOW_BYTES_MIN", 64)
    monkeypatch.setattr(waiting, "_WINDOW_BYTES_MAX", 100)
    chance = random.Random(5)
    delays = [1, 2, 3, 5, 30, 31]
    topics = [Topic(number, delay) for number, delay in enumerate(delays)]
    told = []
    with SessionStore(root, topics=topics, file_bytes=400) as store:
        now = T0
        for number in range(600):
            now += chance.choice([0, 0, 1])
            topic = chance.choice(topics)
            data = b"%d" % number + b"x" * chance.choice([0, 5, 300])
            store.put(topic.number, data, now=now)
            told.append((now + topic.delay, -topic.delay, number, data))
        done = store.due(now=T0 + 50, limit=40)
        for session in chance.sample(done, 25):
            session.delete()
            told = [item for item in told if item[3] != session.data]
        shown = state(root)
        found = [(row["replay_time"], -row["delay"], row["data"]) for row in shown]
        assert found == [(time, delay, data) for time, delay, _, data in sorted(told)]
        assert [row["data"] for row in state(root)] == [
            session.data for session in _reopened(store, root, topics).due(now=now + 99, limit=1000)
        ]


def _reopened(store, root, topics):
    store.close()
    return SessionStore(root, topics=topics)


def test_a_session_longer_than_a_window_is_shown(root, monkeypatch):
    monkeypatch.setattr(waiting, "_WINDOW_BYTES_MIN", 64)
    monkeypatch.setattr(waiting, "_WINDOW_BYTES_MAX", 64)
    with SessionStore(root, topics=TOPICS) as store:
        store.put(1, b"a" * 5000, now=T0)
        store.put(1, b"b", now=T0)
    assert [row["data"] for row in state(root)] == [b"a" * 5000, b"b"]


def test_sessions_that_only_the_operation_log_has_are_shown(root):
    logged(root)
    before = state(root)
    raw = (root / SECOND).read_bytes()
    (root / SECOND).write_bytes(raw[:150])
    assert state(root) == before
    assert b"late" in [row["data"] for row in before]


def test_done_out_of_turn_is_not_shown_and_changed_shows_what_it_holds(root):
    logged(root)
    datas = [row["data"] for row in state(root)]
    assert b"short 2 changed" in datas
    assert not {b"short 2", b"short 3", b"open still", b"short 0"} & set(datas)


def test_state_refuses_what_opening_refuses(tmp_path):
    for number, (_, make) in enumerate(BY_CODE):
        root = tmp_path / str(number)
        make(root)
        try:
            SessionStore(shutil.copytree(root, f"{root}-opened"), topics=TOPICS).close()
        except DamageError:
            with pytest.raises(DamageError):
                state(root)
        else:
            state(root)


def test_damage_in_a_file_that_was_not_looked_at_is_met_when_it_is_read(root, monkeypatch):
    noted(root)
    monkeypatch.setattr(entries, "EXAMINE_BYTES", 0)
    raw = bytearray((root / FIRST).read_bytes())
    raw[74 + 8 : 74 + 16] = bytes(8)
    (root / FIRST).write_bytes(raw)
    with pytest.raises(DamageError, match="term is 0") as raised:
        state(root)
    assert raised.value.offset == 74


# State at a position


def _history(root, strict):
    """A store, and after every step its position with what waits then."""
    store = SessionStore(
        root, topics=TOPICS, strict=strict, on_exhausted=print, file_bytes=150, reserve_bytes=0
    )
    told = {}

    def note():
        told[store.last] = [(row["replay_time"], row["data"]) for row in state(root)]

    store.put(2, b"before", now=T0)
    store.snapshot()
    note()
    for number in range(12):
        store.put(1, b"short %d" % number, now=T0 + number)
        note()
    for session in store.due(now=T0 + 40, limit=7):
        session.delete()
        note()
    store.put_many(2, [b"many %d" % number for number in range(3)], now=T0 + 40)
    note()
    return store, told


def test_the_state_at_every_position_is_what_it_was_then(root):
    store, told = _history(root, strict=False)
    for position, waited in told.items():
        shown = [(row["replay_time"], row["data"]) for row in state(root, tuple(position))]
        assert shown == waited, position
    store.close()


def test_inside_many_that_were_put_together_those_up_to_the_position_count(root):
    store, told = _history(root, strict=False)
    last = store.last
    assert told[last] == [(row["replay_time"], row["data"]) for row in state(root, tuple(last))]
    one_less = state(root, (last.term, last.index - 1))
    assert [row["data"] for row in one_less][-2:] == [b"many 0", b"many 1"]
    store.close()


def test_a_position_before_the_checkpoint_is_refused_with_the_first_one_that_can_be(root):
    store, told = _history(root, strict=False)
    first = min(told)
    with pytest.raises(RefusedError, match=f"reaches back to {first.term},{first.index}"):
        state(root, (first.term, first.index - 1))
    store.close()
    with pytest.raises(RefusedError, match="is before the log"):
        state(root, tuple(first))


def test_without_an_operation_log_sessions_begun_later_are_left_out(root):
    store, told = _history(root, strict=True)
    positions = sorted(told)
    with pytest.raises(RefusedError, match="their file was deleted"):
        state(root, tuple(positions[5]))
    shown = state(root, tuple(positions[-2]))
    assert [(row["replay_time"], row["data"]) for row in shown] == told[positions[-2]]
    assert all(StateID(*map(int, row["id"])) <= positions[-2] for row in shown)
    store.close()
    with pytest.raises(RefusedError, match="is before the log"):
        state(root, tuple(positions[-2]))


def test_sessions_of_a_file_that_is_gone_are_not_looked_for_in_another(root):
    with SessionStore(root, topics=TOPICS, strict=True, on_exhausted=print) as store:
        store.put(1, b"first", now=T0)
        position = store.last
        (session,) = store.due(now=T0 + 30)
        session.delete()
        store.rotate(30, now=T0 + 31)
        store.put(1, b"second", now=T0 + 31)
        assert not (root / FIRST).exists()
        with pytest.raises(RefusedError, match="their file was deleted"):
            state(root, tuple(position))


@pytest.mark.parametrize("position", [(5,), (1, 2, 3), (1, 1 << 64)])
def test_what_is_no_position_is_refused(root, position):
    noted(root)
    with pytest.raises(UsageError):
        state(root, position)
    if len(position) > 1:
        with pytest.raises(UsageError):
            dump(root, first=position)


# Entries


def test_every_event_is_an_entry_with_the_fields_of_its_operation(root):
    logged(root)
    found = [row for row in dump(root) if row["file"] == lay.OPERATIONS_FILE]
    view = memoryview((root / lay.OPERATIONS_FILE).read_bytes())
    events = scan.scan_log(view, checked=True).events
    assert [row["offset"] for row in found] == events.offset.tolist()
    assert {row["operation"] for row in found} >= {"base", "shift", "put", "new", "append", "take", "finish"}
    for number, row in enumerate(found):
        own = row["mpy6a"]
        assert (own["term"], own["index"]) == events.state_id(number)
        if row["operation"] in ("base", "open"):
            continue
        operation = ops.decode(view[int(events.payload[number]) : events.end(number)])
        match operation:
            case ops.Put(delay, count, records):
                assert (own["delay"], own["number"], row["payload"]) == (delay, count, bytes(records))
                assert row["key"] == bytes(records[8:24])
            case ops.New(topic, data):
                assert (own["topic"], row["stream"], row["payload"]) == (topic, str(topic), data)
            case ops.Append(session, data):
                assert (row["key"], row["payload"]) == (lay.encode_state_id(session), data)
            case ops.Take(place, record):
                assert (own["name"], own["at"], own["size"], row["payload"]) == (*place, record)
            case ops.Finish(place):
                assert (own["name"], own["at"], own["size"]) == tuple(place)
            case lay.Shift(name, size):
                assert (own["name"], own["size"], row["payload"]) == (name, size, None)


def _every_operation():
    record = lay.encode_record(Record(T0, StateID(3, 9), -7, 1 << 40, b"data"))
    place = ops.Place(FIRST, 300, 45)
    operations = [
        lay.Create(30, T0),
        lay.StopWriting(FIRST),
        lay.Delete(FIRST),
        lay.OpenToRead(FIRST),
        lay.Shift(FIRST, 1 << 40),
        ops.New(-5, b"new"),
        ops.Append(StateID(2, 1), b"more"),
        ops.Replace(StateID(2, 1), b""),
        ops.Drop(StateID(2, 1)),
        ops.Store(StateID(2, 1), 30, T0 + 30),
        ops.Put(30, 1, record),
        ops.Put(30, 2, record + record),
        ops.Take(place, record),
        ops.Finish(place),
        ops.Again(place, 600, record),
        ops.Exhaust(place, record + record),
    ]
    events = [ops.encode(StateID(2, number), operation) for number, operation in enumerate(operations, 2)]
    base = ops.Base(1, 5, (lay.Descriptor(FIRST, StateID(1, 1), StateID(1, 2), 3, 4, 5, T0),), (place,))
    opened = ops.Open(StateID(1, 7), StateID(1, 8), -1, 3, place, b"open data")
    events += [ops.encode_base(StateID(3, 1), base), ops.encode_open(StateID(3, 1), opened)]
    return memoryview(lay.encode_log_header(*lay.OPERATIONS_FRAME) + b"".join(events))


def test_fields_are_the_same_compiled_and_for_every_operation():
    view = _every_operation()
    events = scan.scan_log(view, checked=True).events
    plain = event_columns.read_columns(view, events, checked=True)
    columns = {
        name: np.zeros_like(getattr(plain, name)) for name in event_columns.EventColumns.__dataclass_fields__
    }
    for name, column in columns.items():
        if name != "has_topic":
            column[:] = event_columns.NONE
    event_columns._read_columns.compiled()(
        np.frombuffer(view, np.uint8), events.offset, events.payload, events.length, 4, *columns.values()
    )
    for name, column in columns.items():
        assert column.tolist() == getattr(plain, name).tolist(), name
    assert plain.code.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 11, 12, 13, 14, 15, 32, 33]
    batch = tables.event_batch(view, events, plain, lay.OPERATIONS_FILE, EntryQuery())
    shown = batch.to_pylist()
    assert [row["stream"] for row in shown] == [
        *[None] * 5, "-5", None, None, None, None, "-7", None, "-7", None, "-7", None, None, "-1",
    ]  # fmt: skip
    assert [row["payload"] for row in shown][5:9] == [b"new", b"more", b"", None]
    assert (shown[4]["mpy6a"]["size"], shown[9]["mpy6a"]["replay_time"]) == (1 << 40, T0 + 30)


def test_an_event_that_cannot_be_read_is_an_entry_too(tmp_path):
    for name in ("code_0", "short_code", "name_past_end", "code_big_endian"):
        root = tmp_path / name
        from tests.mpy6a.recorded import lay_out

        shutil.copytree(lay_out(f"s5_unknown_op/{name}", tmp_path / "laid"), root)
        found = [row for row in dump(root) if row["file"] == lay.CHANGES_FILE]
        assert [row["operation"] for row in found][1] == "unreadable", name


def test_a_large_file_is_read_in_ranges_that_begin_with_a_record(root):
    with SessionStore(root, topics=TOPICS) as store:
        store.put_many(1, [b"x" * (number % 90) for number in range(3000)], now=T0)
    whole = dump(root, operations=frozenset({"session"}))
    found = Log(DIALECT, DISK, str(root)).splits(
        EntryQuery(operations=frozenset({"session"}), split_bytes=10_000)
    )
    assert len(found) > 15
    assert [split.end for split in found[:-1]] == [split.start for split in found[1:]]
    offsets = {row["offset"] for row in whole}
    assert all(split.start in offsets for split in found)
    assert dump(root, operations=frozenset({"session"}), split_bytes=10_000) == whole
    assert len(whole) == 3000


def test_filters(root):
    noted(root)
    everything = dump(root)
    assert {row["file"] for row in everything} == {path.name for path in root.iterdir()}
    assert [row["operation"] for row in dump(root, operations=frozenset({"shift"}))] == ["shift", "shift"]
    assert {row["operation"] for row in dump(root, operations=frozenset({"descriptor"}))} == {"descriptor"}
    longs = dump(root, streams=frozenset({"2"}))
    assert [row["payload"] for row in longs] == [b"long", b"longer"]
    assert dump(root, streams=frozenset({"no topic", "2x"})) == []
    key = longs[0]["mpy6a"]
    (one,) = dump(root, key=f"{key['term']},{key['index']}")
    assert one["payload"] == b"long"
    term, index = int(key["term"]), int(key["index"])
    ranged = dump(root, first=(term, index), last=(term, index))
    assert {(row["term"], row["position"]) for row in ranged} == {(term, index)}
    assert {row["position"] for row in dump(root, first=(index,), last=(index,))} == {index}
    assert all("payload" not in row for row in dump(root, skip=NO_PAYLOAD))
    with pytest.raises(UsageError, match="not the id of a session"):
        dump(root, key="seventeen")


def test_a_key_finds_every_event_of_a_session(root):
    logged(root)
    (opened,) = [row for row in dump(root) if row["operation"] == "new"]
    own = opened["mpy6a"]
    found = dump(root, key=f"{own['term']},{own['index']}")
    assert [row["operation"] for row in found] == ["new", "append"]


def test_a_torn_end_is_no_entry_and_damage_is_an_error_behind_the_good_ones(root):
    noted(root)
    whole = len(dump(root))
    with (root / SECOND).open("ab") as file:
        file.write(b"torn")
    assert len(dump(root)) == whole
    raw = bytearray((root / FIRST).read_bytes())
    raw[74 + 8 : 74 + 16] = bytes(8)
    (root / FIRST).write_bytes(raw)
    query = EntryQuery(operations=frozenset({"session"}))
    (split,) = [split for split in Log(DIALECT, DISK, str(root)).splits(query) if split.file == FIRST]
    batches = Log(DIALECT, DISK, str(root)).read_split(split, query)
    assert next(batches).num_rows == 2
    with pytest.raises(DamageError, match="term is 0"):
        next(batches)


def test_a_file_that_goes_away_is_told(root):
    noted(root)
    query = EntryQuery()
    found = Log(DIALECT, DISK, str(root)).splits(query)
    (root / FIRST).unlink()
    (split,) = [split for split in found if split.file == FIRST]
    with pytest.raises(RefusedError, match="Read the directory again"):
        rows(Log(DIALECT, DISK, str(root)).read_split(split, query))


# Bytes


@pytest.mark.parametrize("make", [noted, logged, settled])
def test_every_byte_of_every_file_is_explained(make, root):
    make(root)
    covered = {path.name: bytearray(path.stat().st_size) for path in root.iterdir()}
    for field in Log(DIALECT, DISK, str(root)).fields(EntryQuery()):
        raw = (root / field.file).read_bytes()
        end = field.offset + len(field.data)
        assert raw[field.offset : end] == field.data
        assert not any(covered[field.file][field.offset : end]), field
        covered[field.file][field.offset : end] = b"\x01" * len(field.data)
    assert all(all(bytes_) for bytes_ in covered.values())


def test_every_operation_is_explained_to_its_last_byte(tmp_path):
    from flintlog.dialects.mpy6a import fields

    view = _every_operation()
    events = scan.scan_log(view, checked=True).events
    spans = list(fields.log_header(view))
    end = lay.LOG_HEADER_SIZE
    for row in range(len(events)):
        spans += fields.event(view, end, int(events.offset[row]), events.end(row), checked=True)
        end = events.end(row)
    assert b"".join(view[span.begin : span.end] for span in spans) == bytes(view)
    assert not [span for span in spans if span.name == "rest"]


def test_damaged_bytes_are_explained_up_to_the_damage_and_it_is_shown(tmp_path):
    for number, (_, make) in enumerate(BY_CODE):
        root = tmp_path / str(number)
        make(root)
        try:
            for field in Log(DIALECT, DISK, str(root)).fields(EntryQuery()):
                raw = (root / field.file).read_bytes()
                assert raw[field.offset : field.offset + len(field.data)] == field.data
        except FlintlogError as error:
            pytest.fail(f"{number}: {error}")
