"""Random histories of a datastore against a plain model: sessions side by side, epochs, upkeep, restarts, crashes.

After every step an independent decoder reads the files and finds what is durable, neither more nor less.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field

import pytest
from tests.independent.views import files_on, keys_in, keys_of

from flintlog.dialects.limestone.store import Datastore
from flintlog.dialects.limestone.store.channel import Channel, Session
from flintlog.disk import Disk
from flintlog.testing import MemoryKernel

ROOT = "/srv/log"
HISTORIES = 100  # for each edition
STEPS = 40
CHANNELS = 3
ACTIONS = (
    *("begin",) * 5,
    *("put",) * 8,
    *("remove",) * 3,
    *("end",) * 6,
    *("switch",) * 5,
    *("clear", "abort", "rotate", "compact", "compact", "reopen", "crash", "crash"),
)


@dataclass
class Model:
    """Sessions that ended, each with its changes; `turn` is the order of all changes."""

    ended: list[tuple[int, list[tuple[int, int, bytes | None, bytes | None]]]] = field(default_factory=list)
    turn: int = 0

    def at(self, epoch: int) -> dict[tuple[int, bytes], tuple[bytes, tuple[int, ...]]]:
        changes = sorted(
            ((begun, *change) for begun, session in self.ended if begun <= epoch for change in session),
            key=lambda change: change[:2],
        )
        state: dict[tuple[int, bytes], tuple[bytes, tuple[int, ...]]] = {}
        for _, _, storage, key, value in changes:
            if key is None:
                state = {place: found for place, found in state.items() if place[0] != storage}
            elif value is None:
                state.pop((storage, key), None)
            else:
                state[storage, key] = value, ()
        return state


class History:
    """One store and its model."""

    def __init__(self, seed: int, edition: str) -> None:
        self.random = random.Random(seed)
        self.edition = edition
        self.kernel = MemoryKernel()
        self.options = {
            "keep_superseded": self.random.random() < 0.5,
            "compacted_bytes": self.random.choice((100, 1 << 20)),
            "flush_bytes": self.random.choice((50, 1 << 20)),
        }
        self.ticks = 1_700_000_000.0
        self.model = Model()
        self.seen: Counter[str] = Counter()
        self.open()

    def clock(self) -> float:
        self.ticks += 0.01
        return self.ticks

    def open(self) -> None:
        self.store = Datastore(
            ROOT, disk=Disk(self.kernel), edition=self.edition, clock=self.clock, **self.options
        )
        self.channels = [self.store.channel() for _ in range(CHANNELS)]
        self.sessions: dict[Channel, tuple[Session, list]] = {}

    def step(self) -> None:
        action = self.random.choice(ACTIONS)
        self.seen[action] += getattr(self, action)() is not False
        self.compare()

    def compare(self) -> None:
        found = keys_in(files_on(Disk(self.kernel), ROOT))
        assert found == self.model.at(self.store.durable_epoch)

    def begin(self) -> bool:
        free = [channel for channel in self.channels if channel not in self.sessions]
        if free:
            channel = self.random.choice(free)
            self.sessions[channel] = channel.begin(), []
        return bool(free)

    def change(self, act: str) -> bool:
        if not self.sessions:
            return False
        session, changes = self.random.choice(list(self.sessions.values()))
        storage, key = self.random.choice((1, 2, 256)), b"key-%d" % self.random.randrange(4)
        self.model.turn += 1
        value = self.random.randbytes(self.random.randrange(20))
        if act == "put":
            session.put(storage, key, value)
            changes.append((self.model.turn, storage, key, value))
        elif act == "remove":
            session.remove(storage, key)
            changes.append((self.model.turn, storage, key, None))
        else:
            session.clear_storage(storage)
            changes.append((self.model.turn, storage, None, None))
        return True

    def put(self) -> bool:
        return self.change("put")

    def remove(self) -> bool:
        return self.change("remove")

    def clear(self) -> bool:
        return self.edition == "shipped" and self.change("clear")

    def end(self) -> bool:
        if not self.sessions:
            return False
        channel = self.random.choice(list(self.sessions))
        session, changes = self.sessions.pop(channel)
        channel.end()
        self.model.ended.append((session.epoch, changes))
        return True

    def abort(self) -> bool:
        if not self.sessions:
            return False
        channel = self.random.choice(list(self.sessions))
        del self.sessions[channel]
        channel.abort()
        return True

    def switch(self) -> None:
        self.store.switch_epoch()

    def rotate(self) -> None:
        self.store.rotate()

    def compact(self) -> bool:
        return self.store.compact() is not None

    def reopen(self) -> None:
        for channel in self.sessions:
            channel.abort()
        self.store.close()
        self.compare()
        self.begin_anew(self.store.durable_epoch)

    def crash(self) -> None:
        """The power fails; everything that was not synced is lost, or nothing."""
        durable = self.store.durable_epoch
        device = self.kernel.device()
        self.kernel = MemoryKernel(self.random.choice((device.durable(), device.visible())))
        self.begin_anew(durable)

    def begin_anew(self, durable: int) -> None:
        """Sessions above the durable epoch were never acknowledged, and are forgotten."""
        self.model.ended = [(epoch, changes) for epoch, changes in self.model.ended if epoch <= durable]
        self.open()
        assert self.model.at(self.store.durable_epoch) == self.model.at(durable)
        assert keys_of(self.store) == self.model.at(durable)


@pytest.mark.parametrize("edition", ["designed", "shipped"])
def test_histories_of_a_datastore_agree_with_the_model_and_the_decoder(edition, record_property):
    seen: Counter[str] = Counter()
    for seed in range(HISTORIES):
        history = History(seed, edition)
        for _ in range(STEPS):
            history.step()
        history.reopen()
        history.store.close()
        seen.update(history.seen)
    record_property("histories", [HISTORIES, HISTORIES * STEPS])
    assert {action for action in ACTIONS if seen[action] < 30} <= (
        {"clear"} if edition == "designed" else set()
    )
