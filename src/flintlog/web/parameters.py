"""The part of an address behind the question mark. It may be hostile; this checks it."""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import parse_qs

from flintlog.core.position import Position, parse_position
from flintlog.errors import UsageError

_FIELDS_MAX = 64
_NUMBER_DIGITS_MAX = 19


class Parameters:
    """The parameters of one request, of which only `known` ones are allowed."""

    def __init__(self, query: str, known: Collection[str]) -> None:
        try:
            self._values = parse_qs(
                query, keep_blank_values=True, max_num_fields=_FIELDS_MAX, errors="surrogateescape"
            )
        except ValueError:
            raise UsageError(f"there are more than {_FIELDS_MAX} parameters") from None
        for name in self._values:
            if name not in known:
                words = ", ".join(sorted(known)) or "none"
                raise UsageError(f"there is no parameter {name[:40]!r} here", advice=f"Known: {words}")

    def texts(self, name: str) -> list[str]:
        """All values given for a name, without empty ones: a form sends all its fields."""
        return [value for value in self._values.get(name, []) if value]

    def text(self, name: str) -> str | None:
        found = self.texts(name)
        if len(found) > 1:
            raise UsageError(f"{name} is given more than once")
        return found[0] if found else None

    def needed(self, name: str) -> str:
        found = self.text(name)
        if found is None:
            raise UsageError(f"{name} is missing")
        return found

    def number(self, name: str, default: int, maximum: int) -> int:
        """A whole number, at most the largest that is served."""
        found = self.text(name)
        if found is None:
            return default
        if not (found.isascii() and found.isdecimal() and len(found) <= _NUMBER_DIGITS_MAX):
            raise UsageError(f"{name} is not a whole number: {found[:40]!r}")
        return min(int(found), maximum)

    def position(self, name: str) -> Position | None:
        found = self.text(name)
        if found is None:
            return None
        if len(found) > 3 * _NUMBER_DIGITS_MAX:
            raise UsageError(f"{name} is not a position: {found[:40]!r}")
        return parse_position(found)

    def flag(self, name: str, *, default: bool = False) -> bool:
        found = self.text(name)
        if found not in (None, "0", "1"):
            raise UsageError(f"{name} must be 1 or 0")
        return default if found is None else found == "1"
