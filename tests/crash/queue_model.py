"""A plain model of the queues: what a list of log entries means, in a few lines of Python.

The crash suite and the property tests compare the store with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from flintlog.dialects.taskflux.layout import (
    AddRecord,
    CreateQueue,
    DeleteQueue,
    Delta,
    QueueSpec,
    RemoveRecord,
)
from flintlog.dialects.taskflux.store import QueueStore

Shown = tuple[tuple[QueueSpec, int, tuple[tuple[int, int, bytes], ...]], ...]


@dataclass
class ModelQueue:
    spec: QueueSpec
    last_id: int = 0
    records: dict[int, tuple[int, bytes]] = field(default_factory=dict)  # by id, in order of arrival

    def in_order(self) -> list[tuple[int, int, bytes]]:
        return sorted(
            ((id_, key, payload) for id_, (key, payload) in self.records.items()), key=lambda r: r[1]
        )


@dataclass
class Model:
    queues: dict[str, ModelQueue] = field(default_factory=lambda: {"": ModelQueue(QueueSpec(""))})

    def apply(self, delta: Delta) -> None:
        match delta:
            case CreateQueue(spec):
                self.queues[spec.name] = ModelQueue(spec)
            case DeleteQueue(name):
                del self.queues[name]
            case AddRecord(name, key, payload):
                queue = self.queues[name]
                queue.last_id += 1
                queue.records[queue.last_id] = (key, payload)
            case RemoveRecord(name, id_):
                del self.queues[name].records[id_]

    def shown(self) -> Shown:
        return tuple(
            (queue.spec, queue.last_id, tuple(queue.in_order())) for _, queue in sorted(self.queues.items())
        )


def states_of(deltas: Iterable[Delta]) -> list[Shown]:
    """The state after 0, 1, 2, ... entries."""
    model = Model()
    states = [model.shown()]
    for delta in deltas:
        model.apply(delta)
        states.append(model.shown())
    return states


def shown_by(store: QueueStore) -> Shown:
    """The same of a live store."""
    return tuple(
        (queue.spec, queue.last_id, tuple(tuple(record) for record in queue.records())) for queue in store
    )
