"""Writers of the four dialects for the tests of streams, and a stream in a process of its own that can be killed."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager

from flintlog.dialects.limestone.store import Datastore
from flintlog.dialects.mpy6a.store import SessionStore, Topic
from flintlog.dialects.taskflux.store import QueueStore
from flintlog.dialects.zmqraft.store import Entry, RaftStore

DIALECTS = ("taskflux", "zmqraft", "mpy6a", "limestone")
NOW = 1_700_000_000


@contextmanager
def writer(dialect, path):
    """A function that writes numbered entries, and one that rotates and, if told, drops what is old."""
    if dialect == "taskflux":
        with QueueStore(path, soft_limit=2048, hard_limit=2048, snapshot_threshold=1000) as store:
            yield (
                lambda numbers: store.queue().add_many([b"%d" % number for number in numbers]),
                lambda drop: store.snapshot() if drop else None,
            )
    elif dialect == "zmqraft":
        with RaftStore(path, capacity=16) as store:
            yield (
                lambda numbers: store.append([Entry(1, b"%d" % number) for number in numbers]),
                lambda drop: store.snapshot(store.last_index, b"state") if drop else None,
            )
    elif dialect == "mpy6a":
        with SessionStore(path, topics=[Topic(1, 10)], term=1, file_bytes=1000) as store:
            yield (
                lambda numbers: [store.new(1, b"%d" % number) for number in numbers],
                lambda drop: store.snapshot() if drop else None,
            )
    else:
        with Datastore(path, snapshot=False) as store:
            channels = [store.channel(), store.channel()]

            def write(numbers):
                for number in numbers:
                    with channels[number % 2].session() as session:
                        session.put(1, b"key %d" % number, b"%d" % number)
                store.switch_epoch()

            yield write, lambda drop: store.compact() if drop else store.rotate()


def numbers_of(frame):
    """The numbers that were written, as they came out."""
    chosen = frame.where("operation IN ('add', 'state', 'new', 'put')").selectExpr(
        "CAST(payload AS STRING) AS number"
    )
    return sorted(int(row.number) for row in chosen.collect())


def start(spark, path, home, **options):
    """A query to Parquet; `now` for one that ends by itself."""
    now = options.pop("now", False)
    stream = (
        spark.readStream.format("flintlog").options(**options).load(str(path)).writeStream.format("parquet")
    )
    stream = stream.option("checkpointLocation", f"{home}/checkpoint")
    return (stream.trigger(availableNow=True) if now else stream).start(f"{home}/out")


def finish(query):
    """Wait for a query that ends by itself."""
    query.awaitTermination()
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def main(path, home):
    from flintlog.pipeline.session import session

    spark = session()
    spark.sparkContext.setLogLevel("OFF")
    query = start(spark, path, home, max_entries_per_trigger="300")
    while True:
        if query.recentProgress:
            print(len(query.recentProgress), flush=True)
        time.sleep(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
