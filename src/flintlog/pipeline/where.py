"""`where`: which rows of a view are read, as conditions joined by AND.

    position BETWEEN 10 AND 99 AND operation IN ('add', 'remove') AND key = X'00ff'

Files that the dialect knows cannot match are not opened, and every row that is read fits all conditions. The conditions
are an option of the read, not filters that Spark pushes: Spark keeps one plan for each load, and pushed filters would
stay in it for the next query.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from flintlog.core.dialect import EntryQuery
from flintlog.errors import UsageError

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.compute as pc

Value = int | str | bytes

_WORD = re.compile(
    r"""\s*(?:
        (?P<binary>[xX]'(?:[0-9a-fA-F]{2})*')
      | (?P<text>'(?:[^']|'')*')
      | (?P<number>-?\d+)
      | (?P<sign><=|>=|<>|!=|==|[=<>(),])
      | (?P<name>[A-Za-z_]\w*(?:\.\w+)?)
    )""",
    re.VERBOSE,
)
_SIGNS = {"=": "=", "==": "=", "<>": "<>", "!=": "<>", "<": "<", "<=": "<=", ">": ">", ">=": ">="}
_ADVICE = (
    "Join conditions by AND, such as \"position >= 10 AND operation IN ('add', 'remove') AND key = X'00ff'\"; "
    "apply what is more than that to the frame"
)


class Condition(NamedTuple):
    """A condition on one column. `sign` is a comparison, `in`, `not in`, `null` or `not null`."""

    column: str
    sign: str
    values: tuple[Value, ...] = ()


def parse(text: str) -> tuple[Condition, ...]:
    """The conditions in a text; a `UsageError` shows from where on it cannot be understood."""
    reading = _Reading(text)
    found = reading.condition()
    while not reading.at_end:
        reading.expect("AND")
        found += reading.condition()
    return tuple(found)


class _Reading:
    """The words of a text, one after the other."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    @property
    def at_end(self) -> bool:
        return not self._text[self._at :].strip()

    def condition(self) -> list[Condition]:
        column = self._next("name")
        if self._took("IS"):
            negative = self._took("NOT")
            self.expect("NULL")
            return [Condition(column, "not null" if negative else "null")]
        negative = self._took("NOT")
        if self._took("IN"):
            self.expect("(")
            values = [self._value()]
            while self._took(","):
                values.append(self._value())
            self.expect(")")
            return [Condition(column, "not in" if negative else "in", tuple(values))]
        if negative:
            raise self._unclear()
        if self._took("BETWEEN"):
            first = self._value()
            self.expect("AND")
            return [Condition(column, ">=", (first,)), Condition(column, "<=", (self._value(),))]
        for sign, meant in _SIGNS.items():
            if self._took(sign):
                return [Condition(column, meant, (self._value(),))]
        raise self._unclear()

    def expect(self, word: str) -> None:
        if not self._took(word):
            raise self._unclear()

    def _took(self, word: str) -> bool:
        """Skip this word if it is the next one."""
        found = _WORD.match(self._text, self._at)
        if found is None or found[0].strip().upper() != word:
            return False
        self._at = found.end()
        return True

    def _next(self, *kinds: str) -> str:
        found = _WORD.match(self._text, self._at)
        if found is None or found.lastgroup not in kinds:
            raise self._unclear()
        self._at = found.end()
        return found[0].strip()

    def _value(self) -> Value:
        word = self._next("binary", "text", "number")
        if word[0] in "xX":
            return bytes.fromhex(word[2:-1])
        return word[1:-1].replace("''", "'") if word[0] == "'" else int(word)

    def _unclear(self) -> UsageError:
        rest = self._text[self._at :].strip()
        where = f"from {rest!r} on" if rest else "at its end"
        return UsageError(f"option where: {self._text!r} cannot be understood {where}", advice=_ADVICE)


@dataclass(frozen=True, slots=True)
class Scope:
    """Which parts of the named directories to read. None means all."""

    query: EntryQuery = field(default_factory=EntryQuery)
    files: frozenset[str] | None = None
    sources: frozenset[str] | None = None
    rest: tuple[Condition, ...] = ()  # conditions to check on each row

    def kept(self, sources: Iterable[str]) -> list[str]:
        """The directories to read."""
        return [source for source in sources if self.sources is None or source in self.sources]

    def holds(self, file: str) -> bool:
        """Is this file read?"""
        return self.files is None or file in self.files


def scope_of(query: EntryQuery, conditions: Sequence[Condition], *, entries: bool) -> Scope:
    """The scope of a read. For views other than entries it only leaves out whole directories."""
    scope = Scope(query)
    for condition in conditions:
        known = entries or condition.column == "source"
        narrowed = _narrowed(scope, condition) if known else None
        # A row for damage has no position and no stream, so its conditions must be checked on the row.
        if narrowed is None or query.on_damage == "report":
            narrowed = replace(narrowed or scope, rest=(*scope.rest, condition))
        scope = narrowed
    return scope


def _narrowed(scope: Scope, condition: Condition) -> Scope | None:
    """The scope with one more condition; None when a scope cannot express it."""
    column, sign, values = condition
    if sign in ("=", "in") and all(isinstance(value, str) for value in values):
        wanted = frozenset(str(value) for value in values)
        query = scope.query
        match column:
            case "source":
                return replace(scope, sources=_both(scope.sources, wanted))
            case "file":
                return replace(scope, files=_both(scope.files, wanted))
            case "operation":
                return replace(scope, query=replace(query, operations=_both(query.operations, wanted)))
            case "stream":
                return replace(scope, query=replace(query, streams=_both(query.streams, wanted)))
    if column == "position" and len(values) == 1 and isinstance(value := values[0], int):
        match sign:
            case "=":
                return _between(scope, value, value)
            case ">" | ">=":
                return _between(scope, value + (sign == ">"), None)
            case "<" | "<=":
                return _between(scope, None, value - (sign == "<"))
    return None


def _both(old: frozenset[str] | None, new: frozenset[str]) -> frozenset[str]:
    return new if old is None else old & new


def _between(scope: Scope, first: int | None, last: int | None) -> Scope | None:
    query = scope.query
    if any(bound is not None and len(bound) > 1 for bound in (query.first, query.last)):
        return None  # the column holds only one part of such a position
    if first is not None and (query.first is None or query.first < (first,)):
        query = replace(query, first=(first,))
    if last is not None and (query.last is None or query.last > (last,)):
        query = replace(query, last=(last,))
    return replace(scope, query=query)


def check(conditions: Sequence[Condition], schema: pa.Schema) -> None:
    """Raise for a condition that is not on one of these columns, or does not fit its type."""
    for condition in conditions:
        kind = _type_of(condition.column, schema)
        for value in condition.values:
            _as_scalar(condition, value, kind)


def expression(conditions: Sequence[Condition], schema: pa.Schema) -> pc.Expression:
    """All conditions as an Arrow expression."""
    return reduce(lambda one, other: one & other, (_expression(each, schema) for each in conditions))


def _expression(condition: Condition, schema: pa.Schema) -> pc.Expression:
    import pyarrow.compute as pc

    column = pc.field(*condition.column.split("."))
    kind = _type_of(condition.column, schema)
    if condition.sign in ("null", "not null"):
        return column.is_null() if condition.sign == "null" else column.is_valid()
    values = [_as_scalar(condition, value, kind) for value in condition.values]
    if condition.sign in ("in", "not in"):
        found = reduce(lambda one, other: one | other, (column == value for value in values))
        return found if condition.sign == "in" else ~found
    (value,) = values
    compare = {"=": "__eq__", "<>": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}
    made: pc.Expression = getattr(column, compare[condition.sign])(value)
    return made


def _type_of(column: str, schema: pa.Schema) -> pa.DataType:
    name, _, part = column.partition(".")
    if name not in schema.names:
        raise UsageError(
            f"option where: there is no column {name!r}", advice=f"There are {', '.join(schema.names)}"
        )
    kind = schema.field(name).type
    if not part:
        return kind
    parts = [field.name for field in kind] if hasattr(kind, "fields") else []
    if part not in parts:
        raise UsageError(f"option where: the column {name!r} has no {part!r}", advice=_ADVICE)
    return kind.field(part).type


def _as_scalar(condition: Condition, value: Value, kind: pa.DataType) -> pa.Scalar:
    """A value in the type of its column; text becomes its bytes."""
    import pyarrow as pa

    if isinstance(value, str) and pa.types.is_binary(kind):
        value = value.encode()
    if isinstance(value, int):
        fits = (pa.types.is_integer(kind) or pa.types.is_decimal(kind)) and abs(value) < 10**38
    else:
        fits = pa.types.is_string(kind) if isinstance(value, str) else pa.types.is_binary(kind)
    if not fits:
        raise UsageError(
            f"option where: the column {condition.column!r} is {kind}, and {value!r} is not",
            advice="Write numbers as 7, text as 'seven', bytes as X'07'",
        )
    wide = isinstance(value, int) and (pa.types.is_decimal(kind) or not -(2**63) <= value < 2**63)
    return pa.scalar(value, pa.decimal128(38, 0) if wide else None)
