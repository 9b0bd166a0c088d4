"""`SessionStore`: sessions that come back when their time comes."""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flintlog.columns.payloads import Payloads
from flintlog.core import threads
from flintlog.core.closes import Closes
from flintlog.core.finding import Finding
from flintlog.dialects.mpy6a import batch, scan
from flintlog.dialects.mpy6a import layout as lay
from flintlog.dialects.mpy6a import operations as ops
from flintlog.dialects.mpy6a.layout import Record, StateID
from flintlog.dialects.mpy6a.operations import Place
from flintlog.dialects.mpy6a.replay import OpenSession
from flintlog.dialects.mpy6a.store import following
from flintlog.dialects.mpy6a.store.chains import Chains
from flintlog.dialects.mpy6a.store.due import Due
from flintlog.dialects.mpy6a.store.engine import Engine, Work
from flintlog.dialects.mpy6a.store.errors import (
    NotLeadingError,
    SessionFinishedError,
    TimeUnknownError,
    TopicUnknownError,
)
from flintlog.dialects.mpy6a.store.following import Item, Operations, Progress
from flintlog.dialects.mpy6a.store.operation_log import RESERVE_BYTES
from flintlog.dialects.mpy6a.store.replays import RUN_BYTES_MAX, Replays, Run
from flintlog.dialects.mpy6a.store.session import (
    IdRange,
    Session,
    Topic,
    check_delay,
    check_size,
    checked_data,
    warn_exhausted,
)
from flintlog.dialects.mpy6a.store.times import Times
from flintlog.disk import DEFERRED, Disk, FailStop
from flintlog.errors import ClosedError, RefusedError, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

    from flintlog.core.workers import Workers

FILE_BYTES = 64 << 20
LOG_BYTES = 256 << 20
_LONGEST_SLEEP = 3600.0
_log = logging.getLogger(__name__)


class SessionStore(Closes):
    """Unfinished sessions of one process, or of the leader of several. Thread-safe; threads share the syncs.

    The time is that of `clock`, or the last one given with `tick`, `due` or a `now`: the store reads no clock of its
    own.

    What was acknowledged survives a crash, also changes of open sessions. With `strict` the directory holds the note's
    files and nothing else: open sessions then live in memory only, and a replayed session that was deleted before an
    older one of its file comes again after a crash. Exhausted sessions go to `on_exhausted` only, and come again when
    it fails. The store waits `wait` seconds for another writer of the directory.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        topics: Iterable[Topic] = (),
        clock: Callable[[], float] | None = None,
        on_exhausted: Callable[[Record], None] | None = None,
        strict: bool = False,
        follower: bool = False,
        term: int | None = None,
        file_bytes: int = FILE_BYTES,
        file_seconds: int | None = None,
        log_bytes: int = LOG_BYTES,
        reserve_bytes: int = RESERVE_BYTES,
        wait: float = 0,
        disk: Disk | None = None,
    ) -> None:
        self.topics = {topic.number: topic for topic in topics}
        if strict and on_exhausted is None and any(item.attempts_max for item in self.topics.values()):
            raise UsageError(
                "the note has no file for sessions that were replayed too often",
                advice="Give `on_exhausted`, which then gets them, or open the store without `strict`",
            )
        if file_seconds is not None and file_seconds < 1:
            raise UsageError(f"file_seconds must be above 0, not {file_seconds!r}")
        self._times = Times(clock)
        self._on_exhausted = on_exhausted or warn_exhausted
        disk = disk or Disk()
        failstop = FailStop(path := disk.resolve(path), self._wake)
        self._news = threads.StoreLock(failstop)  # never held with another lock
        self._changed = self._news.condition()
        self._changes = 0
        self._leads = False
        self._closed = False
        self._engine = Engine(
            disk,
            path,
            failstop,
            strict=strict,
            follower=follower,
            log_bytes=log_bytes,
            reserve_bytes=reserve_bytes,
            wait=wait,
            after=self._wake,
        )
        try:
            self._chains = Chains(self._engine, file_bytes=file_bytes, file_seconds=file_seconds)
            self._due = Due(self._engine, self._chains, lambda: self.topics)
            if not follower:
                self.lead(term if term is not None else self._engine.next_term)
        except BaseException:
            self._engine.close()
            raise

    # What is here

    @property
    def path(self) -> str:
        """The directory."""
        return self._engine.path

    @property
    def last(self) -> StateID:
        """The state id of the last operation."""
        return self._engine.machine.last

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What opening found and healed."""
        return self._engine.findings

    def sessions(self) -> list[Session]:
        """All sessions that are open, oldest first: new ones, and those that came back and were changed since.

        Go on with the new ones after a restart. The others have a `replay_time`, and `due` hands them out too: end each
        once.
        """
        with self._engine.lock:
            return [self._opened(item) for _, item in sorted(self._engine.machine.sessions.items())]

    def session(self, session_id: StateID) -> Session | None:
        """The open session with this id, as in `sessions`; None when there is none."""
        with self._engine.lock:
            item = self._engine.machine.sessions.get(session_id)
            return None if item is None else self._opened(item)

    def _opened(self, item: OpenSession) -> Session:
        place = item.place
        if place is None:
            return Session(self, item.id, item.topic)
        self._engine.drain()
        with self._engine.disk.open(f"{self.path}/{place.name}") as file:
            record, _ = lay.read_record(file.pread(place.size, place.offset), 0)
        self._due.list_too(place)
        return self._returned(record, place)

    def _returned(self, record: Record, place: Place) -> Session:
        """A session that came back, by its record."""
        return Session(
            self,
            record.id,
            record.topic,
            attempts=record.attempts,
            data=record.data,
            replay_time=record.replay_time,
            place=place,
        )

    def exhausted(self) -> Iterator[Record]:
        """The exhausted sessions, in the order in which they became so."""
        self._engine.drain()
        end = self._engine.machine.exhausted
        if not end:
            return
        with self._engine.disk.open(f"{self.path}/{lay.EXHAUSTED_FILE}") as file:
            view = file.view()[:end]
        for records, _ in scan.record_batches(view, ordered=False):
            for at in records.offset.tolist():
                yield lay.read_record(view, at)[0]

    # Leading

    def lead(self, term: int) -> None:
        """Take operations from the application, with state ids of this term."""
        with self._engine.lock:
            self._engine.failstop.check()
            machine = self._engine.machine
            least = max(machine.last.term, self._engine.next_term)
            if not isinstance(term, int) or not least <= term <= lay.UINT64_MAX:
                raise RefusedError(
                    f"term {term} cannot follow term {machine.last.term}",
                    file=self.path,
                    advice=f"Lead term {least} or a later one",
                )
            with DEFERRED, self._engine.failstop.guard():
                self._engine.stand_alone()
            if term > machine.last.term:
                machine.last = StateID(term, 0)
            if self._leads:
                return  # sessions that were handed out stay so
            self._leads = True
            self._due.begin()
            work = Work()
            for name in list(machine.files):  # a crash may come between the end of a session and the shift
                self._chains.advance(work, name)
            self._engine.submit(work)

    def _check_leading(self) -> None:
        self._engine.failstop.check()
        if not self._leads:
            raise NotLeadingError(
                "a follower takes operations from its leader only", file=self.path, advice="Use `lead` first"
            )

    @contextmanager
    def _working(self) -> Iterator[Work]:
        """Collect operations; durable on return. An exception does not keep applied operations from being written."""
        with DEFERRED:
            with self._engine.lock:
                self._check_leading()
                work = Work()
                try:
                    yield work
                finally:
                    ticket = self._engine.submit(work)
            self._engine.wait(ticket)

    # Time

    def tick(self, now: float) -> None:
        """Say what time it is."""
        self._times.now(now)

    def _due_after(self, delay: int, now: float | None) -> int:
        return self._times.due_after(self._engine.machine, delay, now)

    # Topics

    def _topic(self, number: int) -> Topic:
        topic = self.topics.get(number) if isinstance(number, int) else None
        if topic is None:
            known = ", ".join(map(str, sorted(self.topics))) or "none"
            raise TopicUnknownError(
                f"there is no topic {number}", advice=f"Known: {known}. Name it in `topics`"
            )
        return topic

    def delay_of(self, topic: int, delay: int | None) -> int:
        """How long a session waits: `delay`, or the delay of its topic."""
        return check_delay(delay) if delay is not None else self._topic(topic).delay

    # New sessions

    def new(self, topic: int, data: bytes = b"") -> Session:
        """Begin a session; durable on return."""
        self._topic(topic)
        data = checked_data(data)
        with self._working() as work:
            state_id = self._engine.do(work, ops.New(topic, data))
        return Session(self, state_id, topic)

    def put(self, topic: int, data: bytes, *, delay: int | None = None, now: float | None = None) -> StateID:
        """Begin a session and store it at once, in one operation; durable on return. Returns its id."""
        self._topic(topic)
        delay = self.delay_of(topic, delay)
        data = checked_data(data)
        with self._working() as work:
            due = self._due_after(delay, now)
            self._chains.make_room(work, delay, due)
            state_id = self.last.following()
            self._engine.do(work, ops.Put(delay, 1, lay.encode_record(Record(due, state_id, topic, 0, data))))
        return state_id

    def put_many(
        self,
        topic: int,
        data: Sequence[bytes] | pa.Array | pa.ChunkedArray,
        *,
        delay: int | None = None,
        now: float | None = None,
    ) -> list[IdRange]:
        """Begin many sessions and store them; durable on return. `data` is a list, or an Arrow column.

        Returns the ids in ranges that follow each other.
        """
        self._topic(topic)
        delay = self.delay_of(topic, delay)
        payloads = Payloads.of(data)
        check_size(int(payloads.length.max(initial=0)))
        ranges = []
        with self._working() as work:
            due = self._due_after(delay, now)
            for part in batch.split(payloads, RUN_BYTES_MAX):
                self._chains.make_room(work, delay, due)
                ids = IdRange(self.last.following(), len(part))
                self._engine.do(
                    work, ops.Put(delay, len(part), batch.encode_new(due, ids.first, topic, part))
                )
                ranges.append(ids)
        return ranges

    # Open sessions

    def changed_data(self, session: Session) -> bytes | None:
        """The data of an open session; None when it is that of its record."""
        with self._engine.lock:
            item = self._engine.machine.sessions.get(session.id)
            return item.data if item is not None and item.place == session.place else None

    def last_change(self, session: Session) -> StateID | None:
        """The last operation that changed an open session; None when it is as in its record."""
        with self._engine.lock:
            item = self._engine.machine.sessions.get(session.id)
            return item.last_change if item is not None and item.place == session.place else None

    def change(self, session: Session, data: bytes, *, replace: bool) -> None:
        """Append to a session's data, or replace it; durable on return."""
        data = checked_data(data)
        with self._working() as work:
            self._check_open(session)
            held = self._engine.machine.sessions.get(session.id)
            before = 0 if replace else sum(map(len, held.parts)) if held else len(session.stored_data)
            check_size(before + len(data))
            if held is None:
                assert session.place is not None
                assert session.replay_time is not None
                record = Record(
                    session.replay_time, session.id, session.topic, session.attempts, session.stored_data
                )
                self._engine.do(work, ops.Take(session.place, lay.encode_record(record)))
            self._engine.do(work, (ops.Replace if replace else ops.Append)(session.id, data))

    def delete(self, session: Session) -> None:
        """End a session for good; durable on return."""
        with self._working() as work:
            self._check_open(session)
            if session.place is None:
                self._engine.do(work, ops.Drop(session.id))
            else:
                self._engine.do(work, ops.Finish(session.place))
                self._due.finish(work, session.place)
            session.ended = True

    def store(self, session: Session, delay: int | None = None, *, now: float | None = None) -> int:
        """Let a session wait; durable on return. Returns its replay time."""
        delay = self.delay_of(session.topic, delay)
        with self._working() as work:
            self._check_open(session)
            due = self._due_after(delay, now)
            self._chains.make_room(work, delay, due)
            if session.place is None:
                self._engine.do(work, ops.Store(session.id, delay, due))
            else:
                record = Record(due, session.id, session.topic, session.attempts + 1, session.data)
                self._engine.do(work, ops.Again(session.place, delay, lay.encode_record(record)))
                self._due.finish(work, session.place)
            session.ended = True
        return due

    def _check_open(self, session: Session) -> None:
        if not session.is_of(self):
            raise UsageError(
                "this session is of another store", advice="Give it to the store that it came from"
            )
        gone = session.place is None and session.id not in self._engine.machine.sessions
        if session.ended or gone or self._due.was_ended(session.place):
            raise SessionFinishedError(
                f"session {session.id} was deleted or stored already",
                advice="Take it from `due` when it comes again",
            )

    # Replays

    def next_due(self) -> int | None:
        """The due time of the next session; None when none waits."""
        with self._engine.lock:
            self._engine.failstop.check()
            return self._due.next()

    def due(self, now: float | None = None, limit: int = 100) -> list[Session]:
        """Sessions whose replay time has come, in order over all delays, at most `limit`.

        End each with `delete` or `store`. The others come again when the store is opened the next time.
        """
        return [self._returned(*row) for row in self.due_batch(now, limit).rows()]

    def due_batch(self, now: float | None = None, limit: int = 100_000) -> Replays:
        """Like `due` for many sessions: gives columns; end the sessions together."""
        if limit < 1:
            raise UsageError(f"the limit must be at least 1, not {limit}")
        time = math.floor(self._times.now(now))
        while True:
            with self._engine.lock:
                self._check_leading()
                work = Work()
                pieces, order, spent = self._due.take(work, time, limit)
                self._chains.let_go(work, time, lambda delay: self._due_after(delay, time))
                self._engine.submit(work)  # no caller waits until the shifts are durable
            if not spent.any():
                return Replays(self, pieces, order)
            self._engine.drain()
            rows = Replays(self, pieces, order[spent[order]]).rows()
            told = [place for record, place in rows if self._tell(record)]
            if self._engine.strict:
                self._pass_over(told)
            order = order[~spent[order]]
            if len(order):
                return Replays(self, pieces, order)

    def _tell(self, record: Record) -> bool:
        """Call the callback with an exhausted session; False when it fails, which must not hold up the others."""
        try:
            self._on_exhausted(record)
        except Exception:
            _log.exception("the callback for exhausted sessions failed for session %s", record.id)
            return False
        return True

    def replays(self, *, limit: int = 100, wait: Callable[[float], None] | None = None) -> Iterator[Session]:
        """Sessions as they become due, in a loop that sleeps until there is one and ends when the store is closed.

        `wait` replaces the store's own sleep, which ends early when a session is stored.
        """
        if not self._times.has_clock:
            raise TimeUnknownError(
                "an iterator that waits needs a clock", advice="Open the store with clock=time.time"
            )
        while not self._closed:
            seen = self._changes
            try:
                sessions = self.due(limit=limit)
                head = None if sessions else self.next_due()
            except ClosedError:
                return
            yield from sessions
            if not sessions:
                self._sleep(seen, head, wait)

    def _sleep(self, seen: int, head: int | None, wait: Callable[[float], None] | None) -> None:
        """Sleep until a session is due, at most an hour, or until something changes after `seen`."""
        seconds = _LONGEST_SLEEP if head is None else min(head - self._times.now(), _LONGEST_SLEEP)
        if seconds <= 0:
            return
        if wait is not None:
            wait(seconds)
            return
        with self._news:
            if self._changes == seen and not self._closed:
                self._changed.wait(seconds)

    def _wake(self) -> None:
        with self._news:
            self._changes += 1
            self._changed.notify_all()

    def _pass_over(self, places: list[Place]) -> None:
        """End sessions that the callback took; until then they would come again."""
        with self._working() as work:
            for place in places:
                self._engine.do(work, ops.Finish(place))
                self._chains.advance(work, place.name)

    def end_many(self, runs: Sequence[Run], now: float | None) -> None:
        """End many sessions together; durable on return."""
        if any(run.delay for run in runs):
            now = self._times.now(now)
        with self._working() as work:
            ended = self._due.ended_among([run.place for run in runs])
            if ended is not None:
                raise SessionFinishedError(
                    f"a session at byte {ended.offset} of {ended.name} was deleted or stored already",
                    advice="End what `sessions` lists there, or here",
                )
            for run in runs:
                if run.delay:
                    due = self._due_after(run.delay, now)
                    self._chains.make_room(work, run.delay, due)
                    self._engine.do(work, ops.Again(run.place, run.delay, run.again(due)))
                else:
                    self._engine.do(work, ops.Finish(run.place))
                self._chains.advance(work, run.place.name)

    # Files

    def rotate(self, delay: int, *, now: float | None = None) -> None:
        """Stop writing the file of a delay and begin the next one; durable on return."""
        with self._working() as work:
            tail = self._engine.machine.tail(delay)
            if tail is not None and tail.length:
                self._chains.begin_file(work, delay, self._due_after(delay, now))

    def compact(self, workers: Workers | None = None) -> int:
        """Merge the unread remains of files that are no longer written; returns how many bytes that frees.

        Files whose sessions were handed out since the store was opened stay as they are. `workers`, if given, write the
        merged files.
        """
        with self._engine.lock:
            self._check_leading()
            return self._chains.merge(self._due.in_use(), workers)

    # Two stores

    def progress(self) -> Progress:
        """How far this store is, for `catch_up` of another."""
        with self._engine.lock:
            machine = self._engine.machine
            last = machine.last if self._engine.whole else lay.ZERO  # the note's files give only a bound
            return Progress(last, tuple(machine.descriptors()), machine.exhausted)

    def catch_up(self, progress: Progress) -> Iterator[Item]:
        """What a store with this progress needs to become equal to this one as it is now; pass it to its `receive`."""
        return following.catch_up(self._engine, progress)

    def receive(self, items: Iterable[Item]) -> StateID:
        """Take what `catch_up` of the leader gives; durable on return. Returns the state id that is reached.

        An interrupt leaves the store as it was before, or after the last `Operations` that came whole.
        """
        with self._engine.lock:
            self._check_following()
            following.receive(self._engine, items)
            return self.last

    def apply(self, operations: Operations) -> StateID:
        """Apply the leader's operations with their state ids; durable on return. Leaves out those applied before.

        When one is damaged or missing, all of them are refused.
        """
        with self._engine.lock:
            self._check_following()
            ticket = following.apply(self._engine, operations)
        self._engine.wait(ticket)
        return self.last

    def _check_following(self) -> None:
        self._engine.failstop.check()
        if self._leads:
            raise NotLeadingError(
                "a leader takes no operations of another store",
                file=self.path,
                advice="Open it with follower=True",
            )

    def snapshot(self) -> None:
        """Write the descriptors to the snapshot and begin the logs anew."""
        self._engine.checkpoint()

    def close(self) -> None:
        """Let no new call begin, finish the others, and release the directory.

        In a forked child it does nothing: the store is the parent's.
        """
        if not self._engine.failstop.forked:
            self._closed = True
            self._wake()
            self._engine.close()
