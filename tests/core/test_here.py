"""Work in the calling thread, as an executor does it."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from flintlog.core.workers import threads


class InterruptedByTestError(Exception):
    pass


def test_an_interrupt_behind_the_work_is_raised_as_itself(monkeypatch):
    """It came while the answer was noted, and was then noted too, which a future refuses."""
    note = Future.set_result

    def interrupted(self, answer):
        note(self, answer)
        raise InterruptedByTestError

    monkeypatch.setattr(Future, "set_result", interrupted)
    with threads(1) as here, pytest.raises(InterruptedByTestError):
        here.submit(int)
