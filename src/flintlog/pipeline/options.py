"""What a reader may ask for: the options of `spark.read.format("flintlog")`, checked and typed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from flintlog.core.dialect import SPLIT_BYTES, EntryQuery, OnDamage, dialect
from flintlog.core.position import Position, parse_position
from flintlog.errors import UsageError
from flintlog.pipeline.paths import Storage, at_once, expand, local_path, locate, open_at

View = Literal["entries", "state", "files", "findings"]

_ANYWHERE = ("path", "paths", "view", "dialect", "edition", "pushdown")
_OF_VIEW: dict[View, tuple[str, ...]] = {
    "entries": ("from", "to", "payload", "on_damage", "split_bytes"),
    "state": ("as_of",),
    "files": (),
    "findings": (),
}
_STORAGE = "storage."  # what begins so is for the file system
_EDITIONS = ("designed", "shipped")
_ON_DAMAGE: tuple[OnDamage, ...] = ("fail", "stop", "report")

Word = TypeVar("Word", bound=str)
_OF_CATALOG = "provider"  # a table of a catalog comes with all its properties among the options
_NAME_IT = (
    "Name the log directory: load(path), or CREATE TEMPORARY VIEW ... USING flintlog OPTIONS (path ...)"
)
_WORDS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """One read, fully decided. Plain data, so that it travels to the tasks."""

    sources: tuple[str, ...]  # the directories as they were given, or as a pattern found them
    dialects: tuple[str, ...]  # of each of them
    view: View = "entries"
    query: EntryQuery = field(default_factory=EntryQuery)
    as_of: Position | None = None
    pushdown: bool = False
    storage: Storage = ()

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
    """The options of a read; a `UsageError` names the first one that cannot be right."""
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
    sources = expand(_sources(values), storage)
    read = ReadOptions(
        sources=sources,
        dialects=_dialects(values, sources, storage),
        view=view,
        query=EntryQuery(
            first=_position(values, "from"),
            last=_position(values, "to"),
            payload=_flag(values, "payload", otherwise=True),
            on_damage=_choice(values, "on_damage", _ON_DAMAGE),
            split_bytes=_bytes(values, "split_bytes", otherwise=SPLIT_BYTES),
        ),
        as_of=_position(values, "as_of"),
        pushdown=_flag(values, "pushdown", otherwise=False),
        storage=storage,
    )
    if view == "state":
        _ = read.dialect  # a state has the columns of one dialect
    if "edition" in values:
        _refuse_other_edition(read, _choice(values, "edition", _EDITIONS))
    return read


def _view(values: Mapping[str, str]) -> View:
    word = values.get("view", "entries").lower()
    for view in _OF_VIEW:
        if word == view:
            return view
    raise UsageError(f"option view: {word!r} is not a view", advice=f"Choose one of: {', '.join(_OF_VIEW)}")


def _refuse_unknown(values: Mapping[str, str], view: View) -> None:
    if _OF_CATALOG in values:
        raise UsageError("Spark does not keep the options of a table in its catalog", advice=_NAME_IT)
    known = (*_ANYWHERE, *_OF_VIEW[view])
    for name in values:
        if name not in known and not name.startswith(_STORAGE):
            raise UsageError(
                f"option {name}: the view {view!r} has none", advice=f"It has {', '.join(known)}, {_STORAGE}*"
            )


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
        raise UsageError("no directory was named", advice=_NAME_IT)
    return sources


def _dialects(values: Mapping[str, str], sources: tuple[str, ...], storage: Storage) -> tuple[str, ...]:
    if "dialect" in values:
        return (dialect(values["dialect"].lower()).name,) * len(sources)

    def find(source: str) -> str:
        return open_at(source, storage).dialect

    return tuple(at_once(find, sources, sources))


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


def _position(values: Mapping[str, str], name: str) -> Position | None:
    if name not in values:
        return None
    try:
        return parse_position(values[name])
    except UsageError as error:
        raise UsageError(f"option {name}: {error.message}", advice=error.advice) from None


def _flag(values: Mapping[str, str], name: str, *, otherwise: bool) -> bool:
    if name not in values:
        return otherwise
    word = values[name].lower()
    if word not in _WORDS:
        raise UsageError(f"option {name}: {values[name]!r} is neither true nor false")
    return _WORDS[word]


def _choice(values: Mapping[str, str], name: str, words: tuple[Word, ...]) -> Word:
    """The word that was given; the first one when none was."""
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
