"""What a reader may ask for: the options of `spark.read.format("flintlog")`, checked and typed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from flintlog.core.dialect import EntryQuery, detect, dialect
from flintlog.core.position import Position, parse_position
from flintlog.disk import Disk
from flintlog.errors import UsageError

View = Literal["entries", "state"]

_ANYWHERE = ("path", "paths", "view", "dialect", "pushdown")
_OF_VIEW: dict[View, tuple[str, ...]] = {"entries": ("from", "to", "payload"), "state": ("as_of",)}
_OF_CATALOG = "provider"  # a table of a catalog comes with all its properties among the options
_NAME_IT = (
    "Name the log directory: load(path), or CREATE TEMPORARY VIEW ... USING flintlog OPTIONS (path ...)"
)
_WORDS = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """One read, fully decided. Plain data, so that it travels to the tasks."""

    sources: tuple[str, ...]  # the directories as they were given
    dialect: str
    view: View = "entries"
    query: EntryQuery = field(default_factory=EntryQuery)
    as_of: Position | None = None
    pushdown: bool = False


def read_options(given: Mapping[str, str]) -> ReadOptions:
    """The options of a read; a `UsageError` names the first one that cannot be right."""
    values = {name.lower(): value for name, value in given.items()}
    view = _view(values)
    _refuse_unknown(values, view)
    sources = _sources(values)
    return ReadOptions(
        sources=sources,
        dialect=_dialect(values, sources),
        view=view,
        query=EntryQuery(
            first=_position(values, "from"),
            last=_position(values, "to"),
            payload=_flag(values, "payload", otherwise=True),
        ),
        as_of=_position(values, "as_of"),
        pushdown=_flag(values, "pushdown", otherwise=False),
    )


def local_path(source: str) -> str:
    """Where a directory stands on this machine: a path, or a `file:` address as Hadoop writes it."""
    if source.startswith("file:"):
        return Disk.resolve("/" + source.removeprefix("file:").lstrip("/"))
    if "://" in source:
        raise UsageError(
            f"{source!r} is not a local directory",
            advice="This release reads directories that every worker sees under the same path",
        )
    return Disk.resolve(source)


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
        if name not in known:
            raise UsageError(
                f"option {name}: the view {view!r} has none", advice=f"It has {', '.join(known)}"
            )


def _sources(values: Mapping[str, str]) -> tuple[str, ...]:
    # Spark hands load("a") over as `path`, and load(["a", "b"]) as `paths`, a JSON list.
    many = json.loads(values["paths"]) if "paths" in values else []
    sources = tuple(dict.fromkeys([*many, *([values["path"]] if "path" in values else [])]))
    if not sources:
        raise UsageError("no directory was named", advice=_NAME_IT)
    return sources


def _dialect(values: Mapping[str, str], sources: tuple[str, ...]) -> str:
    if "dialect" in values:
        return dialect(values["dialect"].lower()).name
    disk = Disk()
    found = {source: detect(disk, local_path(source)).name for source in sources}
    first = found[sources[0]]
    for source, name in found.items():
        if name != first:
            raise UsageError(
                f"{sources[0]} is a {first} log and {source} is a {name} log",
                advice="Read the directories of each dialect on their own",
            )
    return first


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
