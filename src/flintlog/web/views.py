"""Answers to the page, from the code of the verbs, with the fields of their `--json`."""

from __future__ import annotations

import errno
import io
import posixpath
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from flintlog.cli.decoders import Decoding, find_decoder
from flintlog.cli.dump import entry_query
from flintlog.cli.output import TextOutput
from flintlog.cli.rows import Row
from flintlog.cli.tail import Tail
from flintlog.cli.terminal import Screen
from flintlog.core.backup.picture import ChangedError
from flintlog.core.dialect import ByteField, ByteRange, EntryQuery, skipping
from flintlog.core.inventory import Inventory
from flintlog.core.log import Log
from flintlog.core.position import position_json
from flintlog.errors import DiskError, FlintlogError, UsageError
from flintlog.web.faults import UnknownError, error_json
from flintlog.web.paging import ROWS_MAX, Cursor, Page, StatePages, entry_page
from flintlog.web.parameters import Parameters
from flintlog.web.rows import VALUE_BYTES_MAX, columns_json, rows_of, shown
from flintlog.web.verification import Verification

Answer = dict[str, Any]

_ROWS = 100
_WINDOW = 512
_WINDOW_MAX = 16 << 10
_FIELDS_MAX = 2000
_LINES = 20
_ROWS_AT_ONCE = 200
_LOOKS = 3


@dataclass(slots=True)
class Shown:
    """One directory that is shown, and its name on the page."""

    name: str
    log: Log
    verification: Verification
    _home: str = ""
    _names: frozenset[str] = frozenset()

    def inspect(self) -> Inventory:
        found = self.log.inspect()
        self._home, self._names = found.path, frozenset(file.name for file in found.files)
        return found

    def read(self, file: str, offset: int, length: int) -> tuple[int, bytes]:
        """The size of a file and some of its bytes. Raises for a file that the inventory does not name."""
        if file not in self._names:
            self.inspect()
        if file in self._names:
            try:
                with self.log.disk.open(posixpath.join(self._home, file)) as found:
                    return found.size(), found.pread(length, offset)
            except DiskError as error:
                if error.errno != errno.ENOENT:
                    raise
        raise UnknownError("there is no such file in this log", advice="Choose one of the overview")


@dataclass(frozen=True, slots=True)
class View:
    """A question with its parameters. Those in `deeds` start or end work."""

    answer: Callable[[Shown, Parameters], Answer]
    parameters: frozenset[str] = frozenset()
    deeds: frozenset[str] = frozenset()


class Views:
    """All questions about a directory."""

    def __init__(self) -> None:
        self._states = StatePages()
        self.all: dict[str, View] = {
            "inspect": View(_inspect),
            "map": View(_map),
            "entries": View(
                _entries,
                frozenset(
                    {
                        "from",
                        "to",
                        "operation",
                        "stream",
                        "key",
                        "limit",
                        "reverse",
                        "decode",
                        "payload",
                        "after",
                    }
                ),
            ),
            "bytes": View(_bytes, frozenset({"file", "offset", "length"})),
            "state": View(self._state, frozenset({"as_of", "start", "limit"})),
            "verify": View(_verify, frozenset({"run", "stop"}), deeds=frozenset({"run", "stop"})),
            "repair": View(_repair),
        }

    def _state(self, what: Shown, given: Parameters) -> Answer:
        schema = what.log.state_schema
        page = self._states.page(
            what.log,
            given.position("as_of"),
            given.number("start", 0, 1 << 62),
            max(1, given.number("limit", _ROWS, ROWS_MAX)),
        )
        return {"columns": columns_json(schema, schema.names), **_page(page)}


def _inspect(what: Shown, given: Parameters) -> Answer:
    return what.inspect().json()


def _map(what: Shown, given: Parameters) -> Answer:
    """How many bytes of each file make the log now; other bytes are not needed."""
    for _ in range(_LOOKS):
        try:
            found = what.log.picture()
            break
        except ChangedError as error:
            last = error
    else:
        raise last
    return {
        "first": position_json(found.first),
        "last": position_json(found.last),
        "parts": [{"name": part.name, "live": part.length} for part in found.parts],
    }


def _entries(what: Shown, given: Parameters) -> Answer:
    from flintlog.core.entries import COMMON_FIELDS

    payload = given.flag("payload", default=True)
    decoder = given.text("decode")
    if decoder is not None and not payload:
        raise UsageError("decode needs the payloads", advice="Leave payload=0 out")
    decoding = None if decoder is None else Decoding(find_decoder(decoder))
    operations, streams = given.texts("operation"), given.texts("stream")
    query = entry_query(
        what.log,
        first=given.position("from"),
        last=given.position("to"),
        operations=operations or None,
        streams={"stream": streams} if streams else {},
        key=given.text("key"),
        payload=payload,
    )
    columns = [one.name for one in COMMON_FIELDS if payload or one.name != "payload"]
    columns += ["decoded"] if decoding is not None else []
    columns.append(what.log.dialect)
    page = entry_page(
        what.log,
        query,
        columns,
        limit=max(1, given.number("limit", _ROWS, ROWS_MAX)),
        reverse=given.flag("reverse"),
        after=Cursor.parse(given.text("after")),
        decoding=decoding,
    )
    if page.error is not None and isinstance(page.error, UsageError):
        raise page.error
    return {
        "columns": columns_json(what.log.entry_schema, columns),
        **_page(page),
        "undecoded": 0 if decoding is None else decoding.failed,
    }


def _page(page: Page) -> Answer:
    return {
        "rows": page.rows,
        "next": page.next,
        "searched_bytes": page.searched_bytes,
        "error": None if page.error is None else error_json(page.error),
    }


def _bytes(what: Shown, given: Parameters) -> Answer:
    """Some bytes of a file, and their fields."""
    name = given.needed("file")
    offset = given.number("offset", 0, 1 << 62)
    length = max(1, given.number("length", _WINDOW, _WINDOW_MAX))
    size, data = what.read(name, offset, length)
    where = ByteRange(name, offset, offset + len(data))
    fields: list[Answer] = []
    error = None
    try:
        fields.extend(_field(one) for one in _fields_in(what.log, where))
    except FlintlogError as found:
        error = error_json(found)
    return {
        "file": name,
        "size": size,
        "offset": offset,
        "bytes": data.hex(),
        "fields": sorted(fields, key=lambda one: (one["offset"], one["length"])),
        "error": error,
    }


def _fields_in(log: Log, where: ByteRange) -> Iterator[ByteField]:
    """The fields in a range, at most as many as a page can show."""
    return islice(log.fields(where=where), _FIELDS_MAX)


def _field(one: ByteField) -> Answer:
    return {
        "file": one.file,
        "offset": one.offset,
        "bytes": one.data[:VALUE_BYTES_MAX].hex(),
        "name": one.name,
        "meaning": one.meaning[:VALUE_BYTES_MAX],
        "length": len(one.data),
    }


def _verify(what: Shown, given: Parameters) -> Answer:
    if given.flag("run"):
        what.verification.start()
    if given.flag("stop"):
        what.verification.stop()
    return what.verification.json()


def _repair(what: Shown, given: Parameters) -> Answer:
    """The plan of `repair`, and the command that carries it out; this server never does."""
    plan = what.log.plan_repair()
    text = io.StringIO()
    TextOutput(text, Screen()).plan(plan, apply=False)
    useful = plan.refusal is None and not plan.empty
    return {
        **plan.json(),
        "applied": False,
        "done": None,
        "text": text.getvalue(),
        "command": shlex.join(["flintlog", "repair", what.log.path, "--apply"]) if useful else None,
    }


FOLLOW_PARAMETERS = frozenset({"lines", "payload"})


def follow(what: Shown, given: Parameters, waited: Callable[[], bool]) -> Iterator[Answer]:
    """The last entries, then new ones, as `tail -f` prints them, until `waited` says that no page listens.

    Of many at once it gives the last ones, and how many it left out.
    """
    from flintlog.core.entries import COMMON_FIELDS

    payload, lines = given.flag("payload", default=True), given.number("lines", _LINES, _ROWS_AT_ONCE)
    names = [one.name for one in COMMON_FIELDS if payload or one.name != "payload"]
    names.append(what.log.dialect)
    tail = Tail(what.log, EntryQuery(skip=skipping(payload=payload)), "report")
    yield {"columns": columns_json(what.log.entry_schema, names)}
    last = [row for chunk in tail.last(lines) for row in chunk]
    yield {"rows": [shown(row, names) for row in last], "skipped": 0}
    while waited():
        batches = tail.fresh()
        while batches:
            kept: list[Row] = []
            skipped = sum(batch.num_rows for batch in batches)
            for batch in reversed(batches):
                begin = max(0, batch.num_rows - (_ROWS_AT_ONCE - len(kept)))
                kept[:0] = rows_of(batch.slice(begin))
            yield {"rows": [shown(row, names) for row in kept], "skipped": skipped - len(kept)}
            batches = tail.fresh()


def directories(all_shown: dict[str, Shown]) -> Answer:
    """The directories that the server shows."""
    return {
        "directories": [
            {
                "name": one.name,
                "path": one.log.path,
                "dialect": one.log.dialect,
                "stream": one.log.stream,
                "operations": [word for word in one.log.operations if not word.isdecimal()],
            }
            for one in all_shown.values()
        ]
    }


__all__ = ["FOLLOW_PARAMETERS", "Answer", "Shown", "View", "Views", "directories", "follow"]
