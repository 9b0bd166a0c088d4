"""Work in threads that is given up in the middle: closing it waits for nobody."""

from __future__ import annotations

import gc
import threading

import pytest

from flintlog.core.workers import Threads


def closed_in_time(generator) -> bool:
    """Does closing return while the threads of the generator are busy?"""
    closing = threading.Thread(target=generator.close, daemon=True)
    closing.start()
    closing.join(20)
    return not closing.is_alive()


@pytest.fixture
def busy():
    """Work that ends when the test does."""
    done = threading.Event()
    yield done.wait
    done.set()


def test_a_map_by_threads(busy):
    results = Threads(2).map(lambda number: busy() if number else number, range(4))
    assert next(results) == 0
    assert closed_in_time(results)


def test_what_the_collector_finds_inside_the_start_of_a_thread(busy):
    """As above, but the collector closes it, where a thread being started holds a lock of the interpreter."""
    results = Threads(2).map(lambda number: busy() if number else number, range(4))
    next(results)
    circle = [results]
    circle.append(circle)
    del results, circle
    collecting = threading.Thread(target=gc.collect, daemon=True)
    collecting.start()
    collecting.join(20)
    assert not collecting.is_alive()
