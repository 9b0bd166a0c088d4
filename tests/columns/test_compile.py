"""Kernels: which life runs, and that loading the compiled one holds up no call."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from flintlog.columns import compile
from flintlog.columns.compile import kernel, kernel_beside

PATIENCE_SECONDS = 60


def _sum(values, out):
    total = 0
    for index in range(len(values)):
        total += values[index]
    out[0] = total


def _sum_by_hand(values, out):
    out[0] = int(values.sum())


def run(made, size):
    values, out = np.arange(10), np.zeros(1, np.int64)
    made.run(size, values, out)
    return int(out[0])


@pytest.fixture
def held(monkeypatch):
    """Holds up what is loaded until it is let go."""
    let_go, dispatcher = threading.Event(), compile._dispatcher

    def wait(function):
        assert let_go.wait(PATIENCE_SECONDS)
        return dispatcher(function)

    monkeypatch.setattr(compile, "_dispatcher", wait)
    yield let_go
    let_go.set()


@pytest.mark.parametrize(
    ("made", "least"),
    [
        (kernel(_sum), compile.COMPILE_BYTES_MIN),
        (kernel_beside(_sum_by_hand, times=8)(_sum), 8 * compile.COMPILE_BYTES_MIN),
    ],
    ids=["one body", "two bodies"],
)
def test_many_small_calls_load_the_compiled_form_beside_them(made, least, held):
    for _ in range(9):
        assert run(made, least // 8) == 45  # the last two come while it is loaded
    assert made._compiled is None
    held.set()
    end = time.monotonic() + PATIENCE_SECONDS
    while made._compiled is None:
        assert time.monotonic() < end
        time.sleep(0.001)
    assert run(made, least) == 45


def test_what_was_loaded_beside_is_ready_for_such_arguments():
    made = kernel(_sum)
    made._load(np.arange(10), np.zeros(1, np.int64))
    dispatcher = made._compiled.__closure__[0].cell_contents
    assert len(dispatcher.signatures) == 1
    assert run(made, compile.COMPILED_BYTES_MIN) == 45
    assert len(dispatcher.signatures) == 1


def test_a_small_call_stays_uncompiled_also_when_the_compiled_form_is_there():
    made = kernel_beside(_sum_by_hand, times=8)(_sum)
    assert run(made, 8 * compile.COMPILE_BYTES_MIN) == 45
    made.python = None
    with pytest.raises(TypeError):
        run(made, compile.COMPILED_BYTES_MIN - 1)
    assert run(made, compile.COMPILED_BYTES_MIN) == 45
