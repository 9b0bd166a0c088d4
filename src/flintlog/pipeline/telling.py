"""Shows a user of Spark an error with our sentence at the end, and no pages before it.

Spark plans in processes of its own, prints the traceback of one that failed into its message, and puts
` SQLSTATE: 38000` behind the last line. So the traceback is cut to one place, and the last line is the advice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import NoReturn, ParamSpec, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader

from flintlog.errors import FlintlogError

P = ParamSpec("P")
R = TypeVar("R")


class _Ending:
    """Notes of an error without a new line at the end: Python prints notes that are no list by their `repr`."""

    def __init__(self, lines: list[str]) -> None:
        self._lines = lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __repr__(self) -> str:
        return "\n".join(self._lines)


def told(call: Callable[P, R]) -> Callable[P, R]:
    """Decorate a method that Spark calls to plan, so that its errors end with their advice."""

    @wraps(call)
    def act(*args: P.args, **options: P.kwargs) -> R:
        try:
            return call(*args, **options)
        except FlintlogError as error:
            raise ending_with_advice(error).with_traceback(None) from None

    return act


def ending_with_advice(error: FlintlogError) -> FlintlogError:
    """The same error with its advice behind its notes."""
    advice = error.advice or f"flintlog: {error.code}"
    notes = [*getattr(error, "__notes__", ()), f"{advice}."]
    error.advice = None
    vars(error)["__notes__"] = _Ending(notes)
    return error


class RefusedStream(DataSourceStreamReader):
    """A stream that cannot be; raises its error when Spark begins it.

    Spark (seen in 4.3.0) buries an error of `streamReader` itself under one of its own.
    """

    def __init__(self, error: FlintlogError) -> None:
        self._error = error

    @told
    def initialOffset(self) -> NoReturn:  # noqa: N802 - Spark's name
        raise self._error

    @told
    def latestOffset(self, *_: object) -> NoReturn:  # noqa: N802 - Spark's name
        raise self._error

    @told
    def partitions(self, *_: object) -> NoReturn:
        raise self._error

    def read(self, partition: object) -> NoReturn:
        raise self._error
