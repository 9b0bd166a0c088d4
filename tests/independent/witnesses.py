"""The stores of the life lane with a second look: an independent decoder reads what each left in its directory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.independent.pieces import DamagedError
from tests.independent.views import (
    Files,
    files_on,
    keys_in,
    keys_of,
    peer_in,
    peer_of,
    queues_in,
    queues_of,
    replica_in,
    replica_of,
    sessions_in,
    sessions_of,
)

from flintlog.disk import Disk
from flintlog.testing import Subject
from flintlog.testing.stores import SUBJECTS

VIEWS: dict[str, tuple[Callable[[Any], Any], Callable[[Files], Any]]] = {
    "queues": (queues_of, queues_in),
    "shipped-queues": (queues_of, queues_in),
    "replica": (replica_of, replica_in),
    "peer": (peer_of, peer_in),
    "sessions": (sessions_of, sessions_in),
    "strict-sessions": (sessions_of, sessions_in),
    "designed-keys": (lambda keys: keys_of(keys.store), keys_in),
    "shipped-keys": (lambda keys: keys_of(keys.store), keys_in),
}


def witnessed(subject: Subject) -> Subject:
    """The subject, whose store and decoder must tell the same of a directory."""
    told_by, found_in = VIEWS[subject.name]

    def look(disk: Disk, path: str) -> str | None:
        store = subject.open(disk, path)
        try:
            told = told_by(store)
        finally:
            store.close()
        try:
            found = found_in(files_on(disk, path))
        except DamagedError as error:
            return f"the independent decoder refuses: {error}"
        return None if found == told else f"the store tells {told}\nthe independent decoder {found}"

    return replace(subject, second_look=look)


WITNESSED = tuple(witnessed(subject) for subject in SUBJECTS)
