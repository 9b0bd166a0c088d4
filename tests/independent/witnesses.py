"""The stores of the life lane with a second look: an independent decoder reads what each left in its directory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.independent import views
from tests.independent.pieces import DamagedError

from flintlog.disk import Disk
from flintlog.testing import Subject
from flintlog.testing.stores import SUBJECTS

VIEWS: dict[str, tuple[Callable[[Any], Any], Callable[[views.Files], Any]]] = {
    "queues": (views.queues_of, views.queues_in),
    "shipped-queues": (views.queues_of, views.queues_in),
    "replica": (views.replica_of, views.replica_in),
    "peer": (views.peer_of, views.peer_in),
    "sessions": (views.sessions_of, views.sessions_in),
    "strict-sessions": (views.sessions_of, views.sessions_in),
    "designed-keys": (lambda keys: views.keys_of(keys.store), views.keys_in),
    "shipped-keys": (lambda keys: views.keys_of(keys.store), views.keys_in),
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
            found = found_in(views.files_on(disk, path))
        except DamagedError as error:
            return f"the independent decoder refuses: {error}"
        return None if found == told else f"the store tells {told}\nthe independent decoder {found}"

    return replace(subject, second_look=look)


WITNESSED = tuple(witnessed(subject) for subject in SUBJECTS)
