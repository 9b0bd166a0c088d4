"""Tables as columns: arrays of one length, a row across them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import Field
from functools import cache
from typing import Any, ClassVar, Self, get_args, get_type_hints

import numpy as np
from numpy.typing import NDArray

_PIECE_ROWS = 1 << 16


class Columns:
    """Base of a frozen dataclass with slots whose fields are all arrays of one length."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    __match_args__: ClassVar[tuple[str, ...]]  # the names of the fields; faster to look up

    def __len__(self) -> int:
        return len(getattr(self, self.__match_args__[0]))

    def __getitem__(self, which: Any) -> Self:
        """The rows that a slice, places or a mask choose."""
        if isinstance(which, np.ndarray) and len(which) > _PIECE_ROWS:
            return self._rows_of_many(np.flatnonzero(which) if which.dtype == np.bool_ else which)
        return type(self)(*[getattr(self, name)[which] for name in self.__match_args__])

    def _rows_of_many(self, places: NDArray[np.int64]) -> Self:
        """The same in pieces, so that other threads can run: NumPy holds the interpreter lock while it picks."""
        places = places.astype(np.int64, copy=False)
        columns = [np.empty(len(places), getattr(self, name).dtype) for name in self.__match_args__]
        for begin in range(0, len(places), _PIECE_ROWS):
            piece = slice(begin, begin + _PIECE_ROWS)
            for name, column in zip(self.__match_args__, columns, strict=True):
                column[piece] = getattr(self, name)[places[piece]]
        return type(self)(*columns)

    def lists(self) -> list[list[Any]]:
        """The columns as lists."""
        return [getattr(self, name).tolist() for name in self.__match_args__]

    @classmethod
    @cache
    def types(cls) -> dict[str, np.dtype[Any]]:
        """The type of each column, from the annotation of its field."""
        hints = get_type_hints(cls)
        return {name: np.dtype(*get_args(get_args(hints[name])[1])) for name in cls.__dataclass_fields__}

    @classmethod
    def room(cls, count: int) -> list[Any]:
        """Empty columns for so many rows, which a kernel fills."""
        return [np.empty(count, kind) for kind in cls.types().values()]

    @classmethod
    def filled(cls, columns: Sequence[Any], count: int) -> Self:
        """The table of the first `count` rows of `columns`, as `room` makes them."""
        return cls(*(column[:count] for column in columns))

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """All rows as one table; without parts an empty one."""
        parts = [part for part in parts if len(part)] or parts[:1]
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls(*cls.room(0))
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.types()))


def slices(sizes: NDArray[Any], bytes_max: int, rows_max: int | None = None) -> Iterator[slice]:
    """Cut the rows into slices of at most so many bytes and rows; a larger row is a slice of its own."""
    ends = np.cumsum(sizes)
    begin = done = 0
    while begin < len(ends):
        end = max(int(np.searchsorted(ends, done + bytes_max, "right")), begin + 1)
        if rows_max is not None:
            end = min(end, begin + rows_max)
        yield slice(begin, end)
        begin, done = end, int(ends[end - 1])
