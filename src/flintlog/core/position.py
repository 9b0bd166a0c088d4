"""Where an entry stands in its log.

A position is a tuple of integers that compares in log order: `(lsn,)` for taskflux, `(index,)` for zmqraft,
`(term, index)` for mpy6a, `(epoch,)` for limestone. In JSON a single number stands for itself.
"""

from __future__ import annotations

from flintlog.errors import RefusedError, UsageError

Position = tuple[int, ...]


def position_json(position: Position | None) -> int | list[int] | None:
    """A position as the JSON contract has it."""
    if position is None:
        return None
    return position[0] if len(position) == 1 else list(position)


def position_of(value: object) -> Position | None:
    """The position that `position_json` wrote; `ValueError` for anything else."""
    if value is None:
        return None
    parts = tuple(value) if isinstance(value, list) else (value,)
    if not all(isinstance(part, int) and not isinstance(part, bool) for part in parts):
        raise ValueError(f"{value!r} is not a position")
    return parts


def position_text(position: Position | None) -> str:
    """A position as a person types it; `parse_position` reads it."""
    return "-" if position is None else ",".join(map(str, position))


def one_number(position: Position, dialect: str, word: str) -> int:
    """The number of a position, which has one part in this dialect."""
    if len(position) != 1:
        raise UsageError(
            f"{position_text(position)} is not a position of a {dialect} log", advice=f"Give one {word}"
        )
    return position[0]


def check_reached(position: Position, first: Position, last: Position, *, unit: str, path: str) -> None:
    """Raise for a position at which the log holds no state: it is not there yet, or the log begins behind it."""
    asked, begin, end = (position_text(one) for one in (position, first, last))
    advice = f"Choose {end}" if first == last else f"Choose a position from {begin} to {end}"
    if last < first:
        raise RefusedError(f"{unit} {asked} is beyond the log, which has no entry yet", file=path)
    if position > last:
        raise RefusedError(f"{unit} {asked} is beyond the log, which ends at {end}", file=path, advice=advice)
    if position < first:
        raise RefusedError(
            f"{unit} {asked} is before the log, which reaches back to {begin}",
            file=path,
            advice=f"{advice}, or restore a backup from before",
        )


def span(first: int, last: int) -> str:
    """Positions from `first` to `last` as a person reads them."""
    return f"{first}" if first == last else f"{first} to {last}"


def as_position(value: Position | int | str | None) -> Position | None:
    """A position as a program gives it: a tuple, a number, or text as a person types it."""
    if isinstance(value, str):
        return parse_position(value)
    parts = (value,) if isinstance(value, int) else value
    if parts is not None and not (isinstance(parts, tuple) and all(isinstance(part, int) for part in parts)):
        raise UsageError(f"{value!r} is not a position", advice="Give a whole number, or several in a tuple")
    return parts


def parse_position(text: str) -> Position:
    """A position as a person types it: `17`, or `3,17` where it has several parts."""
    try:
        return tuple(int(part) for part in text.replace("-", ",").split(","))
    except ValueError:
        raise UsageError(
            f"{text!r} is not a position", advice="Give a number, or numbers separated by commas"
        ) from None
