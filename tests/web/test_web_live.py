"""The explorer beside a store that writes: follow, pages that go on, many who ask at once; and nothing is changed."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest
from tests.backup_logs import LOGS
from tests.golden_cases import snapshot_of
from tests.web.explorer import serving

from flintlog.core.dialect import detect
from flintlog.core.log import Log
from flintlog.disk import Disk
from flintlog.web.server import _STREAMS_MAX
from flintlog.web.verification import Verification

DIALECTS = ("taskflux", "zmqraft", "mpy6a", "limestone")


@contextmanager
def stream(client, **given):
    """The lines of a follower, as they come."""
    words = "&".join(f"{name}={value}" for name, value in given.items())
    with closing(client.connect()) as connection:
        connection.request("GET", f"/api/log/follow?{words}")
        with connection.getresponse() as answer:
            assert answer.status == 200
            assert answer.getheader("Content-Type") == "application/x-ndjson"
            yield (json.loads(line) for line in answer)


def payloads(step):
    return [bytes.fromhex(row["payload"] or row["key"]) for row in step["rows"]]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_follow_tells_what_comes(dialect, tmp_path):
    log = LOGS[dialect](tmp_path / "log")
    for _ in range(5):
        log.add()
        log.added += 1
    with serving(tmp_path / "log") as client, stream(client, lines=2) as steps:
        assert [column["name"] for column in next(steps)["columns"]][-1] == dialect
        first = next(steps)
        assert len(first["rows"]) == 2 and first["skipped"] == 0
        seen = [(row["file"], row["offset"]) for row in first["rows"]]
        for _ in range(3):
            log.add()
            log.added += 1
            came = [(row["file"], row["offset"]) for row in next(steps)["rows"]]
            assert came and not set(came) & set(seen)
            seen += came
    log.close()


def test_of_many_that_come_at_once_the_last_are_told(tmp_path):
    log = LOGS["taskflux"](tmp_path / "log")
    log.add()
    with serving(tmp_path / "log") as client, stream(client) as steps:
        next(steps), next(steps)
        log.store.queue().add_many([b"%06d" % number for number in range(1000)])
        told = 0
        while told < 1000:
            step = next(steps)
            assert len(step["rows"]) <= 200
            told += len(step["rows"]) + step["skipped"]
        assert told == 1000 and payloads(step)[-1] == b"000999"
    log.close()


def test_a_follower_ends_when_its_client_leaves(tmp_path):
    log = LOGS["taskflux"](tmp_path / "log")
    log.add()
    with serving(tmp_path / "log") as client:
        for _ in range(_STREAMS_MAX + 1):  # one more than there is room for at once
            with stream(client) as steps:
                next(steps), next(steps)
            assert client.server.streams.acquire(timeout=60)
            client.server.streams.release()
        for _ in range(_STREAMS_MAX):
            assert client.server.streams.acquire(timeout=60)
        reply = client.ask("log", "follow")
        assert (reply.status, reply.error["code"]) == (503, "busy")
    log.close()


def test_a_follower_ends_when_the_server_does(tmp_path):
    log = LOGS["taskflux"](tmp_path / "log")
    log.add()
    with serving(tmp_path / "log") as client, stream(client) as steps:
        next(steps), next(steps)
        client.server.close()
        assert list(steps) == []
    log.close()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_page_goes_on_where_the_one_before_ended_though_the_log_grew(dialect, tmp_path):
    log = LOGS[dialect](tmp_path / "log")
    for _ in range(6):
        log.add()
    with serving(tmp_path / "log") as client:
        first = client.ask("log", "entries", limit=4).json
        for _ in range(6):
            log.add()
        rows = client.rows("log", "entries", "after", limit=3)
        behind = client.ask("log", "entries", after=first["next"], limit=500).json
        assert behind["error"] is None and len(behind["rows"]) > 6
        assert behind["rows"] == rows[rows.index(first["rows"][-1]) + 1 :]
    log.close()


def test_pages_of_the_state_fit_together_though_a_store_writes(tmp_path):
    log = LOGS["taskflux"](tmp_path / "log")
    for _ in range(9):
        log.add()
    with serving(tmp_path / "log") as client:
        first = client.ask("log", "state", limit=4).json
        for _ in range(3):
            log.remove()
        second = client.ask("log", "state", limit=4, start=first["next"]).json
        assert [row["id"] for row in first["rows"] + second["rows"]] == [1, 2, 3, 4, 5, 6, 7, 8]
        assert [row["id"] for row in client.ask("log", "state").json["rows"]] == [4, 5, 6, 7, 8, 9]
    log.close()


def test_a_file_that_was_removed_has_no_bytes(tmp_path):
    log = LOGS["taskflux"](tmp_path / "log")
    for _ in range(30):
        log.add()
    with serving(tmp_path / "log") as client:
        first = client.ask("log", "inspect").json["files"][0]["name"]
        assert client.ask("log", "bytes", file=first).status == 200
        log.store.snapshot()
        reply = client.ask("log", "bytes", file=first)
        assert (reply.status, reply.error["code"]) == (404, "not-found")
        fresh = client.ask("log", "inspect").json["files"][-1]["name"]
        assert client.ask("log", "bytes", file=fresh).status == 200
    log.close()


def test_a_file_that_was_removed_between_two_pages_is_told(tmp_path):
    log = LOGS["taskflux"](tmp_path / "log")
    for _ in range(30):
        log.add()
    with serving(tmp_path / "log") as client:
        cursor = client.ask("log", "entries", limit=3).json["next"]
        log.store.snapshot()
        reply = client.ask("log", "entries", after=cursor)
        assert reply.json["error"]["code"] == "refused" and "first page" in reply.json["error"]["advice"]
    log.close()


def test_many_ask_at_once_while_a_store_writes_and_nothing_is_changed(tmp_path):
    log = LOGS["taskflux"](tmp_path / "log")
    log.add()
    views = ("inspect", "entries", "state", "map", "verify")
    with serving(tmp_path / "log") as client:
        stop = threading.Event()

        def write():
            while not stop.is_set():
                log.add()

        writer = threading.Thread(target=write)
        writer.start()
        with ThreadPoolExecutor(12) as pool:
            replies = list(pool.map(lambda number: client.ask("log", views[number % 5]), range(60)))
        stop.set()
        writer.join()
        assert {reply.status for reply in replies} == {200}
        assert all(reply.json["verdict"] == "clean" for reply in replies[::5])
        before = snapshot_of(tmp_path)
        for view in (*views, "repair"):
            client.ask("log", view)
        assert snapshot_of(tmp_path) == before
    log.close()


class Slow(Log):
    """A log that waits before it verifies."""

    def __init__(self, path):
        disk = Disk()
        super().__init__(detect(disk, path), disk, path)
        self.inside, self.go_on = threading.Event(), threading.Event()

    def verify(self, progress, workers=None):
        self.inside.set()
        assert self.go_on.wait(60)
        return super().verify(progress, workers)


def test_a_verification_that_is_stopped_ends(tmp_path):
    log = LOGS["taskflux"](tmp_path / "log")
    for _ in range(20):
        log.add()
    log.close()
    with serving(tmp_path / "log") as client:
        assert client.ask("log", "verify").json["status"] == "idle"
        shown = client.server.shown["log"]
        slow = Slow(shown.log.path)
        shown.verification = Verification(slow, client.server.faults)
        assert client.act("log", "verify", "run").json["status"] == "running"
        assert slow.inside.wait(60)
        assert client.act("log", "verify", "run").json["status"] == "running"  # the same one
        client.act("log", "verify", "stop")
        slow.go_on.set()
        while (job := client.ask("log", "verify").json)["status"] == "running":
            pass
        assert job["status"] == "stopped" and job["inventory"] is None
