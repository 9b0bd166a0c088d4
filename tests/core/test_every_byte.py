"""Without a query every byte of every file that a dialect knows is in exactly one field, also in damaged files."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.backup_logs import LOGS
from tests.every_directory import every_directory
from tests.fuzz import decoders
from tests.fuzz.test_mpy6a_fuzz import originals as sessions

from flintlog import Datastore, QueueStore, RaftStore, ReplicaLog
from flintlog.core.dialect import ByteRange, detect
from flintlog.core.dialect import dialect as dialect_of
from flintlog.core.file_fields import PIECE_BYTES, UNEXPLAINED
from flintlog.core.log import Log, open_log
from flintlog.dialects.limestone import layout as lay
from flintlog.dialects.zmqraft.layout import Entry
from flintlog.disk import Disk

pytestmark = pytest.mark.usefixtures("still")

DISK = Disk()
DIALECTS = ["taskflux", "zmqraft", "mpy6a", "limestone"]


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    return every_directory(tmp_path_factory.mktemp("golden"))


def known_files(path):
    """Every file of the directory that is not foreign, by the name that the inventory gives it."""
    found = open_log(path, disk=DISK).inspect()
    foreign = {finding.file.rstrip("/") for finding in found.findings if finding.code == "foreign"}
    home = Path(found.path)
    names = [file.relative_to(home).as_posix() for file in home.rglob("*") if file.is_file()]
    inside = [name for name in names if not any((name + "/").startswith(f"{one}/") for one in foreign)]
    listed = [file.name for file in found.files if file.role != "foreign" and (home / file.name).is_file()]
    return {name: (home / name).read_bytes() for name in inside}, listed


def check(path, case):
    """No gap, no overlap, the right bytes, in the order of the inventory. The fields."""
    files, listed = known_files(path)
    fields = list(open_log(path, disk=DISK).fields())
    ends = dict.fromkeys(files, 0)
    order = []
    for field in fields:
        if field.file not in order:
            order.append(field.file)
        assert field.file == order[-1], (case, field)
        assert field.offset == ends[field.file], (case, field)
        ends[field.file] += len(field.data)
        assert files[field.file][field.offset : ends[field.file]] == field.data, (case, field)
        assert len(field.data) <= PIECE_BYTES
        assert field.meaning != UNEXPLAINED, (case, field)
    sizes = {name: len(raw) for name, raw in files.items()}
    assert ends == sizes, case
    assert [name for name in order if name in listed] == [name for name in listed if sizes[name]], case
    return fields


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_byte_of_every_golden_directory_is_explained(dialect, directories):
    seen = 0
    for case, path in directories.items():
        if case.startswith(f"{dialect}/"):
            seen += bool(check(path, case))
    assert seen > 10


@pytest.mark.parametrize("dialect", [*DIALECTS, "mpy6a-strict"])
def test_every_byte_of_what_the_stores_write_is_explained(dialect, tmp_path):
    home = tmp_path / "log"
    log = LOGS[dialect](home)
    for _ in range(20):
        log.add()
    log.close()
    fields = check(str(home), dialect)
    assert not [field for field in fields if field.name in ("damage", "torn", "rest", "leftover")]


def in_range(field, where):
    if not field.data:
        return where.begin <= field.offset <= where.end
    return where.touches(field.offset, len(field.data))


def test_a_range_is_explained_by_the_fields_of_the_whole_that_touch_it(directories):
    chance = random.Random(5)
    for case, path in directories.items():
        dialect = detect(DISK, path)
        by_file = {}
        for field in Log(dialect, DISK, path).fields():
            by_file.setdefault(field.file, []).append(field)
        for file in chance.sample(sorted(by_file), min(2, len(by_file))):
            fields = by_file[file]
            size = fields[-1].offset + len(fields[-1].data)
            begin = chance.randrange(size)
            where = ByteRange(file, begin, chance.randrange(begin, size) + 1)
            expected = [field for field in fields if in_range(field, where)]
            assert list(Log(dialect, DISK, path).fields(where=where)) == expected, (case, where)


@pytest.mark.parametrize("size", [1, 50])
def test_logs_that_are_read_in_ranges_are_explained_alike(size, directories, monkeypatch):
    from flintlog.dialects.limestone import entries

    for case, path in directories.items():
        if case.startswith("limestone/"):
            whole = list(open_log(path, disk=DISK).fields())
            with monkeypatch.context() as patch:
                patch.setattr(entries, "_FIELDS_BYTES", size)
                assert list(open_log(path, disk=DISK).fields()) == whole, case


@pytest.mark.parametrize("name", DIALECTS)
def test_every_byte_of_mutated_files_is_explained(name):
    """Whatever stands in a file: no error, no gap, and no length in it decides how much is read."""
    chance = random.Random(f"every byte {name}")
    wholes = sessions() if name == "mpy6a" else decoders.directories(name)
    explained = 0
    for _ in range(250):
        files = dict(chance.choice(wholes))
        target = chance.choice(sorted(files))
        files[target] = decoders.mutated(files[target], chance.choice(list(files.values())), chance)
        disk = Disk(decoders.machine(files))
        if not dialect_of(name).recognise(disk, "/log"):
            continue
        ends = {}
        for field in Log(dialect_of(name), disk, "/log").fields():
            raw = files.get(field.file, files.get(f"data/{field.file}", b""))
            end = field.offset + len(field.data)
            assert field.offset == ends.get(field.file, 0), field
            assert raw[field.offset : end] == field.data and field.meaning != UNEXPLAINED, field
            ends[field.file] = end
        shown = target.removeprefix("data/") if target not in ends else target
        explained += ends.get(shown) == len(files[target])
    assert explained > 150


# Hand-checked


def fields_in(path, file):
    found = open_log(str(path), disk=DISK).fields(where=ByteRange(file, 0, 1 << 62))
    return [(field.offset, len(field.data), field.name, field.meaning) for field in found]


def test_the_metadata_of_both_editions(tmp_path):
    for edition, width in (("designed", 4), ("shipped", 8)):
        log = ReplicaLog(tmp_path / edition, edition=edition)
        log.set_term(3, vote=2)
        log.close()
        found = fields_in(tmp_path / edition, "tflux.metadata")
        assert found == [
            (0, 4, "file marker", "term and vote"),
            (4, 4, "version", "2" if edition == "designed" else "1"),
            (8, width, "term", "3"),
            (8 + width, 4, "vote", "for node 2"),
            (12 + width, 4, "checksum", "CRC-32/MPEG-2 of version, term and vote; fits"),
        ]


def snapshot_of_queues(root, edition):
    with QueueStore(root, edition=edition) as store:
        store.create("q", max_size=9, key_range=(-1, 5))
        store.queue("q").add(b"hello", 5)
        store.snapshot()
    return next(root.rglob("tflux.snapshot"))


@pytest.mark.parametrize(("edition", "width"), [("designed", 4), ("shipped", 8)])
def test_a_snapshot_of_queues(edition, width, tmp_path):
    place = snapshot_of_queues(tmp_path / "q", edition)
    found = fields_in(tmp_path / "q", "tflux.snapshot")
    state = 8 + 2 * width
    assert found[:5] == [
        (0, 4, "file marker", "the state up to an LSN"),
        (4, width, "last index", "LSN 1 is the last one in it"),
        (4 + width, width, "last term", "1"),
        (4 + 2 * width, 4, "length", f"{place.stat().st_size - state - 4} bytes of state"),
        (state, 4, "queues", "2"),
    ]
    (at,) = (offset for offset, _, name, meaning in found if (name, meaning) == ("queue", "'q'"))
    behind = [field for field in found if field[0] >= at]
    assert [(name, meaning) for _, _, name, meaning in behind] == [
        ("queue", "'q'"),
        ("implementation", "1: heap"),
        ("last id", "1"),
        ("maximum size", "9"),
        ("maximum payload", "none"),
        ("has key range", "yes"),
        ("lowest key", "-1"),
        ("highest key", "5"),
        ("records", "1"),
        ("id", "1"),
        ("key", "5"),
        ("payload length", "5 bytes"),
        ("payload", "'hello'"),
        ("checksum", "CRC-32/MPEG-2 of the state; fits"),
    ]


def test_a_damaged_snapshot_of_queues_is_explained_as_far_as_it_goes(tmp_path):
    place = snapshot_of_queues(tmp_path / "q", "designed")
    raw = place.read_bytes()
    good = fields_in(tmp_path / "q", "tflux.snapshot")
    at = next(offset for offset, _, name, _ in good if name == "payload")
    place.write_bytes(raw[: at - 4] + b"\x7f\xff\xff\xff" + raw[at:])  # the length of the payload
    *_, broken, checksum = fields_in(tmp_path / "q", "tflux.snapshot")
    assert broken == (
        at - 20,
        len(raw) - 4 - (at - 20),
        "damage",
        "the state ends 1 records before the queue does",
    )
    assert "; does not fit: expected " in checksum[3]
    place.write_bytes(raw[:-7])
    found = fields_in(tmp_path / "q", "tflux.snapshot")
    assert "which cannot be" in found[3][3]
    assert found[-1][2:] == ("damage", "the state ends 1 records before the queue does")


def test_snapshots_and_states_of_a_peer_and_their_predecessors(tmp_path):
    with RaftStore(tmp_path / "peer") as peer:
        peer.append([Entry(1, b"x") for _ in range(5)])
        peer.set_hard_state(term=4, vote="me")
        peer.install_snapshot(2, 1, b"state of two")
        peer.install_snapshot(4, 1, b"state of four")
    names = [path.name for path in (tmp_path / "peer").iterdir()]
    (before,) = [name for name in names if name.startswith("snap-") and b"two" in data_of(tmp_path, name)]
    for name, index, data in (("snap", 4, b"state of four"), (before, 2, b"state of two")):
        found = fields_in(tmp_path / "peer", name)
        assert found[:6] == [
            (0, 4, "token", "a snapshot file begins"),
            (4, 4, "size", "28 bytes of header"),
            (8, 4, "version", "1"),
            (12, 8, "last index", str(index)),
            (20, 8, "last term", "1"),
            (28, 8, "data size", str(len(data))),
        ]
        assert found[6][2:] == ("token", "who made the file, and when")
        meaning = f"{len(data)} bytes of the application's state: {str(data)[1:]}"
        assert found[-1][1:] == (len(data), "data", meaning)
    assert fields_in(tmp_path / "peer", "raft.pers")[-1][2:] == ("record", "currentTerm 4, votedFor 'me'")


def data_of(home, name):
    return (home / "peer" / name).read_bytes()


def test_the_filling_of_a_state_file_is_one_field(tmp_path):
    with RaftStore(tmp_path / "peer") as peer:
        for term in range(1, 40):
            peer.set_hard_state(term=term, vote="a peer with a long name")
    found = fields_in(tmp_path / "peer", "raft.pers")
    (offset, size, _, meaning) = next(field for field in found if field[2] == "filling")
    assert (offset + size) % 512 == 0
    assert meaning == f"empty maps, {size} of them; they change nothing"


@pytest.mark.parametrize("edition", ["designed", "shipped"])
def test_the_small_files_of_a_datastore(edition, tmp_path):
    with Datastore(tmp_path / "log", edition=edition) as store:
        with store.channel().session() as session:
            session.put(1, b"k", b"v")
        store.switch_epoch()
        store.compact()
        with store.channel().session() as session:
            session.put(1, b"l", b"w")
    names = {field.file for field in open_log(str(tmp_path / "log"), disk=DISK).fields()}
    manifest = fields_in(tmp_path / "log", "limestone-manifest.json")
    version = 2 if edition == "designed" else 7
    assert manifest[-1][2:] == (
        "persistent_format_version",
        f"the files of the directory have version {version}",
    )
    compacted = next(name for name in sorted(names) if name.startswith("cmpct") or ".compacted" in name)
    catalog = fields_in(tmp_path / "log", "compaction_catalog")
    assert catalog[0][2:] == ("header", "a catalog begins")
    assert catalog[1][2:] == ("COMPACTED_FILE", f"{compacted} counts")
    assert catalog[-1][2:] == ("footer", "the catalog is whole")
    assert fields_in(tmp_path / "log", compacted)[0][2:] == ("type", "2: a snippet begins")
    for name in (name for name in names if name.startswith("epoch")):
        found = fields_in(tmp_path / "log", name)
        assert [field[:3] for field in found[:2]] == [(0, 1, "type"), (1, 8, "epoch")]
        assert found[0][3] == "4: an epoch is durable"


def test_a_blob_of_more_than_a_piece(tmp_path):
    with Datastore(tmp_path / "log", edition="shipped"):
        pass
    place = tmp_path / "log" / lay.blob_path(7)
    place.parent.mkdir(parents=True)
    place.write_bytes(bytes(PIECE_BYTES + 1))
    (first, second) = fields_in(tmp_path / "log", lay.blob_path(7))
    assert first[:3] == (0, PIECE_BYTES, "blob") and first[3].startswith("blob 7, 65537 bytes: ")
    assert second == (PIECE_BYTES, 1, "blob", "goes on: byte 65536 of 65537")


def test_names_that_are_none_are_not_read(tmp_path):
    for name, make in LOGS.items():
        log = make(tmp_path / name)
        log.add()
        log.close()
    (tmp_path / "secret").write_bytes(b"secret")
    for name in LOGS:
        (tmp_path / name / "mine.txt").write_bytes(b"foreign")
        for file in ("../secret", str(tmp_path / "secret"), "mine.txt", "", ".", "blob/../../secret"):
            assert fields_in(tmp_path / name, file) == [], (name, file)
