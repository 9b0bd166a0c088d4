"""A log of a million entries in many segments: nothing is lost, nothing comes twice."""

from __future__ import annotations

import numpy as np
import pytest

from flintlog.dialects.taskflux.store import QueueStore

pytestmark = pytest.mark.spark

RECORDS = 1_000_000
BATCH = 50_000
PAYLOAD_SIZE = 40


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    root = tmp_path_factory.mktemp("large") / "queues"
    with QueueStore(root, soft_limit=8 << 20, hard_limit=8 << 20, snapshot_threshold=10_000) as store:
        queue = store.queue()
        for begin in range(0, RECORDS, BATCH):
            keys = np.arange(begin, begin + BATCH) % 997
            queue.add_many([b"%040d" % number for number in range(begin, begin + BATCH)], keys)
    return root


@pytest.mark.long
def test_a_million_entries_are_counted_and_summed(load, large):
    frame = load(large, details="true")
    assert len(list((large / "data/log").iterdir())) > 5
    assert frame.rdd.getNumPartitions() > 1
    found = frame.selectExpr(
        "count(*) AS entries",
        "sum(position) AS positions",
        "count(DISTINCT position) AS distinct",
        "sum(taskflux.key) AS keys",
        "sum(length(payload)) AS bytes",
        "sum(CAST(CAST(payload AS STRING) AS BIGINT)) AS values",
    ).collect()[0]
    total = RECORDS * (RECORDS - 1) // 2
    assert found.asDict() == {
        "entries": RECORDS,
        "positions": total,
        "distinct": RECORDS,
        "keys": int((np.arange(RECORDS) % 997).sum()),
        "bytes": RECORDS * PAYLOAD_SIZE,
        "values": total,
    }


def test_the_state_at_a_position_in_the_middle_holds_what_was_there(load, large):
    state = load(large, view="state", as_of=str(RECORDS // 2))
    assert state.selectExpr("count(*)", "max(id)").collect()[0] == (RECORDS // 2 + 1, RECORDS // 2 + 1)
