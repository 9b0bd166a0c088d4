"""Logs to read with Spark, and a short way to read them."""

from __future__ import annotations

import pytest

from flintlog.dialects.taskflux.store import QueueStore


@pytest.fixture
def load(spark):
    """Reads directories: `load(path, view="state")`, `load(one, other, **{"from": "3"})`."""

    def read(*paths, **options):
        reader = spark.read.format("flintlog").options(**options)
        return reader.load([str(path) for path in paths] if len(paths) > 1 else str(paths[0]))

    return read


@pytest.fixture(scope="session")
def segmented(tmp_path_factory):
    """A log of several segments and two queues; nothing writes to it. LSN 0 creates `mail`."""
    root = tmp_path_factory.mktemp("segmented") / "queues"
    with QueueStore(root, soft_limit=4096, hard_limit=4096, snapshot_threshold=1000) as store:
        mail = store.create("mail")
        for number in range(40):
            store.queue().add_many([b"%05d" % (10 * number + at) + bytes(40) for at in range(10)], number)
            mail.add(b"letter %d" % number)
    return root
