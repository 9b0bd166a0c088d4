"""Random histories of the records that wait in memory, against a sorted list."""

from __future__ import annotations

import random

import numpy as np
import pytest

from flintlog.columns.gather import offsets_of
from flintlog.dialects.taskflux.store.waiting import Waiting

KEYS = (-(2**63), 2**63 - 1, 0, 1, 2)


class Model:
    """What `Waiting` promises, in the plainest way: (key, order, id, payload), sorted."""

    def __init__(self):
        self.rows = []
        self.added = 0

    def add(self, key, payload):
        self.rows.append((key, self.added, self.added + 1, payload))
        self.rows.sort()
        self.added += 1

    def records(self, count=None):
        return [(id_, key, payload) for key, _, id_, payload in self.rows[:count]]


def put_one(chance, waiting, model):
    key, payload = chance.choice(KEYS), chance.randbytes(chance.randrange(4))
    waiting.put(model.added + 1, key, payload)
    model.add(key, payload)


def put_run(chance, waiting, model):
    count = chance.choice((1, 3, 40, 100))
    keys = [chance.choice(KEYS) for _ in range(count)]
    payloads = [chance.randbytes(chance.randrange(4)) for _ in range(count)]
    ids = np.arange(model.added + 1, model.added + 1 + count, dtype=np.uint64)
    arena = chance.choice((bytes, bytearray))(b"".join(payloads))
    waiting.put_run(
        ids, np.array(keys, np.int64), arena, offsets_of(np.array(list(map(len, payloads)), np.int64))
    )
    for key, payload in zip(keys, payloads, strict=True):
        model.add(key, payload)


def pop(chance, waiting, model):
    count = chance.choice((1, 1, 5, 17, 50, 200))
    found = waiting.pop_many(count)
    assert found == model.records(count)
    assert all(list(map(type, record)) == [int, int, bytes] for record in found)
    del model.rows[:count]


def remove(chance, waiting, model):
    if model.rows:
        key, _, id_, payload = model.rows.pop(chance.randrange(len(model.rows)))
        listed = list(waiting)
        assert waiting.leave(id_) == (id_, key, payload)
        assert waiting.leave(id_) is None
        assert list(waiting) == listed
        assert waiting.peek() == next(iter(model.records(1)), None)
        assert (waiting.ready, len(waiting)) == (len(model.rows), len(listed))
        waiting.remove(id_)


def look(chance, waiting, model):
    assert waiting.peek() == next(iter(model.records(1)), None)
    assert list(waiting) == model.records()


@pytest.mark.parametrize("seed", range(300))
def test_records_come_by_key_and_in_the_order_of_their_arrival(seed):
    chance = random.Random(seed)
    waiting, model = Waiting(), Model()
    for _ in range(60):
        step = chance.choice((put_one, put_one, put_run, put_run, pop, pop, remove, look))
        step(chance, waiting, model)
        assert len(waiting) == len(model.rows)
