"""Many threads on one store: nothing lost, nothing twice, ids unique."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import pytest
from tests.mpy6a.stores import FAR, LONG, SHORT, T0, TOPICS

from flintlog.dialects.mpy6a.store import SessionStore, StateID

THREADS = 16
EACH = 40


def in_threads(work: Callable[[int], None]) -> None:
    failures: list[BaseException] = []

    def guarded(number: int) -> None:
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


@pytest.mark.parametrize("strict", [False, True], ids=["operations", "strict"])
def test_sixteen_threads_store_and_end_sessions(tmp_path, strict):
    options = {
        "topics": TOPICS,
        "file_bytes": 3000,
        "log_bytes": 20_000,
        "strict": strict,
        "on_exhausted": print,
    }
    store = SessionStore(tmp_path / "sessions", **options)
    ids: list[StateID] = []
    ended: list[bytes] = []
    again: list[bytes] = []

    def work(thread: int) -> None:
        for number in range(EACH):
            data = b"%d.%d" % (thread, number)
            if number % 3 == 0:
                ids.append(store.put(SHORT, data, now=T0))
            elif number % 3 == 1:
                ids.extend(one for found in store.put_many(LONG, [data], now=T0) for one in found)
            else:
                session = store.new(SHORT, data[:1])
                session.append(data[1:])
                session.store(now=T0)
                ids.append(session.id)
            for session in store.due(T0 + 100, 2):
                if number % 5:
                    session.delete()
                    ended.append(session.data)
                else:
                    session.store(1000, now=T0 + 100)
                    again.append(session.data)

    in_threads(work)
    everything = {b"%d.%d" % (thread, number) for thread in range(THREADS) for number in range(EACH)}
    assert len(set(ids)) == len(ids) == len(everything)
    assert not {data for data, count in Counter(ended).items() if count > 1}
    store.close()
    with SessionStore(tmp_path / "sessions", **options) as store:
        left = store.due(FAR, 100_000)
        waiting = Counter(session.data for session in left)
        assert set(waiting) == everything - set(ended)
        assert max(waiting.values(), default=1) == 1
        assert {session.data for session in left if session.attempts} == set(again)
        assert {session.id for session in left} <= set(ids)
        assert store.sessions() == []


def test_threads_that_replay_together_get_each_session_once(tmp_path):
    count = 3000
    with SessionStore(tmp_path / "sessions", topics=TOPICS, file_bytes=20_000) as store:
        store.put_many(SHORT, [b"%d" % number for number in range(count)], now=T0)
        seen: list[bytes] = []

        def work(thread: int) -> None:
            while True:
                if thread % 2:
                    found = store.due_batch(T0 + 30, 20)
                    rows = [record.data for record, _ in found.rows()]
                    found.delete()
                else:
                    sessions = store.due(T0 + 30, 5)
                    rows = [session.data for session in sessions]
                    for session in reversed(sessions):
                        session.delete()
                if not rows:
                    return
                seen.extend(rows)

        in_threads(work)
        assert sorted(seen) == sorted(b"%d" % number for number in range(count))
        assert store.next_due() is None
    with SessionStore(tmp_path / "sessions", topics=TOPICS) as store:
        assert store.due(FAR) == []


def test_upkeep_goes_on_beside_the_threads(tmp_path):
    with SessionStore(tmp_path / "sessions", topics=TOPICS, file_bytes=500) as store:
        done = threading.Event()

        def upkeep() -> None:
            while not done.is_set():
                store.snapshot()
                store.compact()
                store.next_due()

        keeper = threading.Thread(target=upkeep)
        keeper.start()

        def work(thread: int) -> None:
            for number in range(EACH // 2):
                store.put(SHORT, b"%d.%d" % (thread, number), now=T0 + number)
                for session in store.due(T0 + number + 5, 1):
                    session.delete()

        try:
            in_threads(work)
        finally:
            done.set()
            keeper.join()
    with SessionStore(tmp_path / "sessions", topics=TOPICS) as store:
        found = [session.data for session in store.due(FAR, 100_000)]
        assert sorted(found) == sorted(
            b"%d.%d" % (thread, number) for thread in range(THREADS) for number in range(EACH // 2)
        )
