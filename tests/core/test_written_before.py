"""Directories that earlier code wrote keep their meaning: read, opened, written to, and opened again.

`tests/written_before` holds small logs of every dialect and edition that earlier code wrote, closed, or copied
from under an open store (`killed`). `state.jsonl` is what that code showed of each. Nobody edits them.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from flintlog import Datastore, QueueStore, RaftStore, SessionStore, Topic
from flintlog.cli.main import main
from flintlog.dialects.zmqraft.store import Entry

SAMPLES = Path(__file__).parents[1] / "written_before"
CASES = sorted(path.name for path in SAMPLES.iterdir())
LATER = 1_700_000_300  # the sessions were stored before


def open_queues(path: Path, name: str) -> QueueStore:
    return QueueStore(path)


def add_record(store: QueueStore) -> None:
    store.queue("mail").add(b"after", key=9)


def open_peer(path: Path, name: str) -> RaftStore:
    return RaftStore(path)


def append_entry(store: RaftStore) -> None:
    store.append([Entry(store.hard_state.term, b"after")])


def open_sessions(path: Path, name: str) -> SessionStore:
    strict = "strict" in name
    attempts = 1 if "exhausted" in name else None
    topics = [Topic(1, delay=60, attempts_max=attempts), Topic(2, delay=5)]
    return SessionStore(path, topics=topics, strict=strict, on_exhausted=lambda session: None)


def put_session(store: SessionStore) -> None:
    store.put(1, b"after", now=LATER)


def open_keys(path: Path, name: str) -> Datastore:
    return Datastore(path)


def put_key(store: Datastore) -> None:
    with store.channel().session() as session:
        session.put(1, b"after", b"after")
    store.switch_epoch()
    store.wait_durable(session.epoch)


Store = AbstractContextManager[Any]
LIVES: dict[str, tuple[Callable[[Path, str], Store], Callable[[Any], None]]] = {
    "taskflux": (open_queues, add_record),
    "zmqraft": (open_peer, append_entry),
    "mpy6a": (open_sessions, put_session),
    "limestone": (open_keys, put_key),
}


def rows(text: str) -> list[Any]:
    return [json.loads(line) for line in text.splitlines()]


@pytest.mark.parametrize("name", CASES)
def test_a_log_that_earlier_code_wrote_keeps_its_meaning(name, tmp_path, capsys):
    path = tmp_path / name
    shutil.copytree(SAMPLES / name / "dir", path)
    shown = rows((SAMPLES / name / "state.jsonl").read_text())

    def state() -> list[Any]:
        assert main(["state", str(path), "--json"]) == 0
        return rows(capsys.readouterr().out)

    assert main(["verify", str(path)]) in (0, 1)  # what was killed may have a torn tail
    capsys.readouterr()
    assert state() == shown
    open_store, change = LIVES[name.split("-")[0]]
    with open_store(path, name):
        pass
    assert state() == shown
    with open_store(path, name) as store:
        change(store)
    with open_store(path, name):
        pass
    after = state()
    assert len(after) == len(shown) + 1
    assert [row for row in after if row in shown] == shown


def test_there_are_samples_of_every_dialect():
    assert {name.split("-")[0] for name in CASES} == set(LIVES)
