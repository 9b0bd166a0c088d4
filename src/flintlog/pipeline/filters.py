"""Filters of a query to a narrower scope, so that files and ranges that cannot match are never read."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from flintlog.core.dialect import EntryQuery


@dataclass(frozen=True, slots=True)
class Scope:
    """What of the named directories is read. None means all."""

    query: EntryQuery = field(default_factory=EntryQuery)
    files: frozenset[str] | None = None
    sources: frozenset[str] | None = None

    def kept(self, sources: Iterable[str]) -> list[str]:
        """Those of the directories that are read."""
        return [source for source in sources if self.sources is None or source in self.sources]

    def holds(self, file: str) -> bool:
        """Is this file read?"""
        return self.files is None or file in self.files


@dataclass(frozen=True, slots=True)
class Narrowed:
    """A scope that holds every row of a filter; `exact` when it holds no other."""

    scope: Scope
    exact: bool


def narrow_entries(scope: Scope, filter_: Filter) -> Narrowed | None:
    """The scope under one more filter; None when the filter says nothing about where to read."""
    match filter_:
        case EqualTo(attribute=(column,), value=value):
            return _among(scope, column, [value])
        case In(attribute=(column,), value=values):
            return _among(scope, column, values)
        case GreaterThanOrEqual(attribute=("position",), value=int(value)):
            return _between(scope, value, None)
        case GreaterThan(attribute=("position",), value=int(value)):
            return _between(scope, value + 1, None)
        case LessThanOrEqual(attribute=("position",), value=int(value)):
            return _between(scope, None, value)
        case LessThan(attribute=("position",), value=int(value)):
            return _between(scope, None, value - 1)
    return None


def narrow_state(scope: Scope, filter_: Filter) -> Narrowed | None:
    """The same for the state, of which only whole directories can be left out."""
    match filter_:
        case EqualTo(attribute=("source",)) | In(attribute=("source",)):
            return narrow_entries(scope, filter_)
    return None


def _among(scope: Scope, column: str, values: Iterable[Any]) -> Narrowed | None:
    wanted = frozenset(value for value in values if value is not None)  # nothing is equal to null
    if not wanted:
        return None
    query = scope.query
    match column:
        case "source":
            return Narrowed(replace(scope, sources=_both(scope.sources, wanted)), exact=True)
        case "file":
            return Narrowed(replace(scope, files=_both(scope.files, wanted)), exact=True)
        case "operation":
            query = replace(query, operations=_both(query.operations, wanted))
            return Narrowed(replace(scope, query=query), exact=True)
        case "stream":
            query = replace(query, streams=_both(query.streams, wanted))
            return Narrowed(replace(scope, query=query), exact=True)
        case "position":
            return _between(scope, min(wanted), max(wanted), exact=len(wanted) == 1)
    return None


def _both(old: frozenset[str] | None, new: frozenset[str]) -> frozenset[str]:
    return new if old is None else old & new


def _between(scope: Scope, first: int | None, last: int | None, *, exact: bool = True) -> Narrowed | None:
    query = scope.query
    if any(bound is not None and len(bound) > 1 for bound in (query.first, query.last)):
        return None  # the column holds one part of such a position only
    if first is not None and (query.first is None or query.first < (first,)):
        query = replace(query, first=(first,))
    if last is not None and (query.last is None or query.last > (last,)):
        query = replace(query, last=(last,))
    return Narrowed(replace(scope, query=query), exact)
