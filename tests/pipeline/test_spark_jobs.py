"""verify, state, snapshot and compact by Spark: what the engine says and writes, for every golden directory."""

from __future__ import annotations

import functools
import re
import shutil

import pytest
from tests.golden_cases import cases, materialise, snapshot_of
from tests.limestone import recorded as limestone
from tests.mpy6a import recorded as mpy6a
from tests.pipeline.in_process import rows, state_in_process
from tests.pipeline.together import Together

from flintlog import Datastore, QueueStore, RaftStore, SessionStore
from flintlog.core.dialect import detect, dialect_names
from flintlog.core.log import Log, open_log
from flintlog.dialects.mpy6a.store import Topic
from flintlog.dialects.zmqraft.layout import Entry
from flintlog.disk import Disk
from flintlog.errors import FlintlogError
from flintlog.pipeline import jobs
from flintlog.pipeline.workers import SparkWorkers

pytestmark = pytest.mark.spark


def lay_out(home):
    """Every golden directory, by a name of its own."""
    found = {f"taskflux/{case}": materialise(case, home / "taskflux") for case in cases()}
    found |= {
        f"zmqraft/{case}": materialise(case, home / "zmqraft", dialect="zmqraft") for case in cases("zmqraft")
    }
    found |= {f"mpy6a/{name}": mpy6a.lay_out(name, home / "mpy6a") for name in mpy6a.TOLD}
    found |= {
        f"limestone/{case}/{variant}": limestone.lay_out(case, variant, home / "limestone" / variant)
        for case, variant in limestone.every()
    }
    return found


def said(work):
    """What comes of it: a value, or what the error says."""
    try:
        return work()
    except FlintlogError as error:
        return type(error), error.message, error.offset


@pytest.fixture(scope="module")
def directories(tmp_path_factory):
    return lay_out(tmp_path_factory.mktemp("golden"))


@pytest.fixture(scope="module")
def together(spark):
    return Together(SparkWorkers(spark))


def compare(together, directories, work, begin, step):
    """What `work(dialect, path, workers)` gives in this process is what it gives in Spark; returns it by name."""
    disk = Disk()
    alone, spread = {}, []
    for name, path in sorted(directories.items())[begin::step]:
        found = said(lambda path=path: detect(disk, str(path)))
        if not isinstance(found, tuple):
            alone[name] = said(functools.partial(work, found, str(path), None))
            spread.append(functools.partial(said, functools.partial(work, found, str(path), together)))
    for name, answer in zip(alone, together.run(spread), strict=True):
        assert answer == alone[name], name
    assert len(alone) > 150 // step
    return alone


def test_verify_finds_what_the_engine_finds(together, directories, part):
    def work(dialect, path, workers):
        return Log(dialect, Disk(), path).verify(workers=workers).json()

    begin, step = part(3)
    found = compare(together, directories, work, begin, step)
    rare = {"unsupported"} if step == 1 else set()
    assert {found[name]["verdict"] for name in found} >= {"clean", "repairable", "corrupt", *rare}


def test_state_is_that_of_the_engine_at_the_end_and_before(together, directories, part):
    def work(dialect, path, workers, before):
        as_of = None
        if before:
            *higher, last = Log(dialect, Disk(), path).inspect().last or (0,)
            as_of = (*higher, max(last - 1, 0))
        if workers is None:
            return [row for batch in Log(dialect, Disk(), path).state(as_of) for row in batch.to_pylist()]
        return Log(dialect, Disk(), path).state(as_of, workers=workers).to_pylist()

    for before in (False, True):
        begin, step = part(3)
        found = compare(together, directories, functools.partial(work, before=before), begin, step)
        assert sum(len(rows) for rows in found.values() if isinstance(rows, list)) > 500 // step


@pytest.mark.parametrize("verb", ["snapshot", "compact"])
def test_what_is_written_is_what_the_engine_writes(together, verb, tmp_path, part):
    alone, spread = lay_out(tmp_path / "alone"), lay_out(tmp_path / "spread")
    begin, step = part(3)
    good = [name for name, path in sorted(alone.items())[begin::step] if is_good(str(path))]
    disk = Disk()

    def work(path, workers):
        plan = getattr(open_log(path, disk=disk), f"plan_{verb}")(workers=workers)
        return plan.apply()

    done = [said(functools.partial(work, alone[name], None)) for name in good]
    assert sum(not isinstance(one, tuple) for one in done) > 50 // step
    again = [functools.partial(said, functools.partial(work, spread[name], together)) for name in good]
    for name, one, other in zip(good, done, together.run(again), strict=True):
        assert one == other, name
        assert timeless(alone[name]) == timeless(spread[name]), name


def timeless(directory):
    """What a directory holds, without the times in the names of rotated logs and the names of new directories."""
    found = {}
    for name, data in snapshot_of(directory).items():
        if data is not None and ("catalog" in name or "manifest" in name):
            data = re.sub(rb"\d{14}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", b"?", data)
        found[re.sub(r"\d{14}", "?", name)] = data
    return found


def is_good(path):
    found = said(lambda: open_log(path).verify())
    return not isinstance(found, tuple) and found.verdict in ("clean", "repairable")


def write_samples(home):
    """A directory of each dialect, with something to compact in each."""
    with QueueStore(home / "taskflux", soft_limit=4096, hard_limit=4096, snapshot_threshold=1000) as queues:
        mail = queues.create("mail")
        for number in range(40):
            queues.queue().add_many([b"%05d" % (10 * number + at) for at in range(10)], number)
            mail.add(b"letter %d" % number)
        for _ in range(100):
            queues.queue().take().ack()
    with RaftStore(home / "zmqraft", capacity=64) as peer:
        peer.append([Entry(1, b"entry %04d" % number) for number in range(500)])
        peer.snapshot(200, [b"what the application knows"], prune=False)
    with SessionStore(home / "mpy6a", topics=[Topic(1, 60), Topic(2, 90)]) as sessions:
        for number in range(200):
            sessions.put(1 + number % 2, b"session %03d" % number, now=1_700_000_000 + number)
            if number % 50 == 49:
                sessions.rotate(60, now=1_700_000_000 + number)
    with Datastore(home / "limestone", snapshot=False) as store:
        channels = [store.channel(), store.channel()]
        for number in range(10):
            with channels[number % 2].session() as session:
                keys = [b"key %05d" % (number * 30 + at) for at in range(50)]
                session.put_many(7, keys, [b"value %d" % number] * 50)
                session.remove(7, b"key %05d" % number)
            store.switch_epoch()


def test_the_jobs_on_a_directory_of_each_dialect(spark, tmp_path):
    """The same without anybody in between."""
    write_samples(tmp_path / "alone")
    shutil.copytree(tmp_path / "alone", tmp_path / "spread")
    disk = Disk()
    for name in dialect_names():
        path, other = str(tmp_path / "spread" / name), tmp_path / "alone" / name
        dialect = detect(disk, path)
        assert jobs.verify(spark, path).json() == Log(dialect, disk, path).verify().json()
        assert rows(jobs.state(spark, path)) == state_in_process(path)
        plan = Log(dialect, disk, str(other)).plan_compact()
        assert plan.steps
        assert jobs.compact(spark, path) == plan.apply(), name
        assert timeless(other) == timeless(tmp_path / "spread" / name), name
