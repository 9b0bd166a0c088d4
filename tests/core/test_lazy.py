"""Values that are made when they are first asked for, also in a process that was forked while they were made."""

from __future__ import annotations

import os
import signal
import threading

from flintlog.core.lazy import lazy

PATIENCE_SECONDS = 20


class Made:
    def __init__(self) -> None:
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.times = 0

    @lazy
    def value(self) -> int:
        """What it is."""
        self.times += 1
        self.begun.set()
        self.go_on.wait(PATIENCE_SECONDS)
        return 7


def test_it_is_made_once_and_keeps_its_words():
    made = Made()
    made.go_on.set()
    assert (made.value, made.value, made.times) == (7, 7, 1)
    assert Made.value.__doc__ == "What it is."


def test_a_process_that_is_forked_while_it_is_made_makes_it_too():
    made = Made()
    maker = threading.Thread(target=lambda: made.value)
    maker.start()
    assert made.begun.wait(PATIENCE_SECONDS)
    child = os.fork()
    if child == 0:
        signal.alarm(PATIENCE_SECONDS)  # ends the child when it hangs
        made.go_on.set()
        os._exit(0 if made.value == 7 else 1)
    made.go_on.set()
    maker.join()
    assert os.waitpid(child, 0)[1] == 0
