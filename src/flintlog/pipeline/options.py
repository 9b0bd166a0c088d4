"""What a reader may ask for: the options of `spark.read.format("flintlog")`, checked and typed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from flintlog.core.dialect import SPLIT_BYTES, EntryQuery, OnDamage, dialect, skipping
from flintlog.core.position import Position, parse_position
from flintlog.errors import NotALogError, UsageError
from flintlog.pipeline.paths import Storage, at_once, expand, is_pattern, local_path, locate, open_at
from flintlog.pipeline.where import Condition, parse

View = Literal["entries", "state", "files", "findings"]

_ANYWHERE = ("path", "paths", "view", "dialect", "edition", "ignore_foreign", "columns", "where")
_OF_VIEW: dict[View, tuple[str, ...]] = {
    "entries": ("from", "to", "details", "payload", "on_damage", "split_bytes"),
    "state": ("as_of",),
    "files": (),
    "findings": (),
}
_STORAGE = "storage."  # options with this prefix are for the file system
EDITIONS = ("designed", "shipped")
_ON_DAMAGE: tuple[OnDamage, ...] = ("fail", "stop", "report")

Word = TypeVar("Word", bound=str)
_OF_CATALOG = "provider"  # Spark adds all properties of a catalog table to the options
_NAME_IT = (
    "Name the log directory: load(path), or CREATE TEMPORARY VIEW ... USING flintlog OPTIONS (path ...)"
)
_WORDS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """One read, fully decided. Plain data, so that tasks can have it."""

    sources: tuple[str, ...]  # the directories as the user named them, or as a pattern found them
    dialects: tuple[str, ...]  # the dialect of each
    view: View = "entries"
    query: EntryQuery = field(default_factory=EntryQuery)
    as_of: Position | None = None
    details: bool = False
    columns: tuple[str, ...] | None = None  # None: all columns of the view
    where: tuple[Condition, ...] = ()
    several: bool = False  # are there several directories, or a pattern?
    storage: Storage = ()

    def dialect_of(self, source: str) -> str:
        """The dialect of one of the directories."""
        return self.dialects[self.sources.index(source)]

    @property
    def dialect(self) -> str:
        """The dialect of all directories; a `UsageError` when they have several."""
        first = self.dialects[0]
        for source, name in zip(self.sources, self.dialects, strict=True):
            if name != first:
                raise UsageError(
                    f"{self.sources[0]} is a {first} log and {source} is a {name} log",
                    advice="Read the directories of each dialect on their own",
                )
        return first


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """The options of a read; a `UsageError` names the first wrong one."""
    values = {name.lower(): value for name, value in given.items()}
    view = _view(values)
    _refuse_unknown(values, view)
    storage = tuple(
        sorted(
            (name.removeprefix(_STORAGE), value)
            for name, value in values.items()
            if name.startswith(_STORAGE)
        )
    )
    named = _sources(values)
    directories = _directories(values, named, storage)
    read = ReadOptions(
        sources=tuple(directories),
        dialects=tuple(directories.values()),
        view=view,
        query=EntryQuery(
            first=_position(values, "from"),
            last=_position(values, "to"),
            skip=skipping(payload=flag(values, "payload", otherwise=True)),
            on_damage=choice(values, "on_damage", _ON_DAMAGE),
            split_bytes=_bytes(values, "split_bytes", otherwise=SPLIT_BYTES),
        ),
        as_of=_position(values, "as_of"),
        details=flag(values, "details", otherwise=False),
        columns=_columns(values),
        where=parse(values["where"]) if "where" in values else (),
        several=len(named) > 1 or any(map(is_pattern, named)),
        storage=storage,
    )
    if view == "state":
        _ = read.dialect  # the columns of a state are those of one dialect
    if "edition" in values:
        _refuse_other_edition(read, choice(values, "edition", EDITIONS))
    return read


def _view(values: Mapping[str, str]) -> View:
    word = values.get("view", "entries").lower()
    for view in _OF_VIEW:
        if word == view:
            return view
    raise UsageError(f"option view: {word!r} is not a view", advice=f"Choose one of: {', '.join(_OF_VIEW)}")


def _refuse_unknown(values: Mapping[str, str], view: View) -> None:
    if _OF_CATALOG in values:
        raise UsageError("Spark does not keep the options of a table in its catalog", advice=_as_view(values))
    if "pushdown" in values:
        raise UsageError(
            "option pushdown: it is gone, because Spark gave a second query the rows of the first one's filters",
            advice="Name the rows with the option where, such as where=\"position > 10 AND operation = 'add'\"",
        )
    known = (*_ANYWHERE, *_OF_VIEW[view])
    for name in values:
        if name not in known and not name.startswith(_STORAGE):
            raise UsageError(
                f"option {name}: the view {view!r} has none", advice=f"It has {', '.join(known)}, {_STORAGE}*"
            )


def _as_view(values: Mapping[str, str]) -> str:
    """What the user can type instead of a table: the same options for a view of this session."""
    names = dict.fromkeys(name for names in (_ANYWHERE, *_OF_VIEW.values()) for name in names)
    given = {"path": "..."} | {name: values[name] for name in names if name in values}
    given["path"] = given["path"].removeprefix("file:")
    quoted = {name: value.replace("\\", r"\\").replace("'", r"\'") for name, value in given.items()}
    options = ", ".join(f"`{name}` '{value}'" for name, value in quoted.items())
    return f"Type: CREATE TEMPORARY VIEW name USING flintlog OPTIONS ({options})"


def _sources(values: Mapping[str, str]) -> tuple[str, ...]:
    # Spark hands load("a") over as `path`, and load(["a", "b"]) as `paths`, a JSON list.
    try:
        many = json.loads(values.get("paths", "[]"))
    except (ValueError, RecursionError):
        many = None
    if not isinstance(many, list) or not all(isinstance(one, str) for one in many):
        raise UsageError("option paths: a JSON list of directories was expected", advice=_NAME_IT)
    sources = tuple(dict.fromkeys([*many, *([values["path"]] if "path" in values else [])]))
    if not sources:
        raise UsageError("no directory was named", advice=f"{_NAME_IT}. A table of Spark's catalog loses it")
    return sources


def _directories(values: Mapping[str, str], named: Sequence[str], storage: Storage) -> dict[str, str]:
    """The directories to read, each with its dialect."""
    found = expand(named, storage)
    spoken = dialect(values["dialect"].lower()).name if "dialect" in values else None
    ignores = flag(values, "ignore_foreign", otherwise=False)

    def find(source: str) -> str | None:
        may_be_foreign = ignores and found[source]
        if spoken is not None and not may_be_foreign:
            return spoken
        try:
            name = open_at(source, storage).dialect
        except NotALogError:
            if may_be_foreign:
                return None
            raise
        return name if spoken in (None, name) else None

    names = at_once(find, list(found), found)
    kept = {source: name for source, name in zip(found, names, strict=True) if name is not None}
    if not kept:
        raise NotALogError(
            f"none of the {len(found)} directories is a {spoken or 'log that a dialect recognises'}"
            + (" log" if spoken else ""),
            file=named[0],
            advice="Check the pattern; `ignore_foreign` leaves out what is no log",
        )
    return kept


def _refuse_other_edition(read: ReadOptions, wanted: str) -> None:
    for source, name in zip(read.sources, read.dialects, strict=True):
        found = open_at(source, read.storage, name).edition
        if found != wanted:
            what = (
                f"is in the {found} edition" if found else f"is a {name} log, and nothing tells its edition"
            )
            raise UsageError(
                f"option edition: {source} {what}", advice="Name the other one, or leave the option out"
            )


def _columns(values: Mapping[str, str]) -> tuple[str, ...] | None:
    """The names between commas; each may appear once."""
    if "columns" not in values:
        return None
    names = tuple(dict.fromkeys(name.strip() for name in values["columns"].split(",")))
    if "" in names:
        raise UsageError("option columns: a name is missing", advice="Give names with commas between them")
    return names


def _position(values: Mapping[str, str], name: str) -> Position | None:
    if name not in values:
        return None
    try:
        return parse_position(values[name])
    except UsageError as error:
        raise UsageError(f"option {name}: {error.message}", advice=error.advice) from None


def flag(values: Mapping[str, str], name: str, *, otherwise: bool) -> bool:
    if name not in values:
        return otherwise
    word = values[name].lower()
    if word not in _WORDS:
        raise UsageError(
            f"option {name}: {values[name]!r} is neither true nor false", advice="Write one of these words"
        )
    return _WORDS[word]


def choice(values: Mapping[str, str], name: str, words: tuple[Word, ...]) -> Word:
    """The word given, or the first one."""
    given = values.get(name, words[0]).lower()
    for word in words:
        if given == word:
            return word
    raise UsageError(
        f"option {name}: {values[name]!r} is not one", advice=f"Choose one of: {', '.join(words)}"
    )


def _bytes(values: Mapping[str, str], name: str, *, otherwise: int) -> int:
    text = values.get(name, str(otherwise))
    if not text.isdecimal() or not 0 < int(text) < 1 << 63:
        raise UsageError(
            f"option {name}: {text!r} is not a number of bytes", advice="Give a whole number above 0"
        )
    return int(text)


__all__ = ["ReadOptions", "View", "local_path", "locate", "read_options"]
