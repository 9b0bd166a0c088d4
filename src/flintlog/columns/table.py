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
    """What a frozen dataclass with slots has when all its fields are arrays of one length."""

    __slots__ = ()
    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    __match_args__: ClassVar[tuple[str, ...]]  # the names of the fields too, sooner found

    def __len__(self) -> int:
        return len(getattr(self, self.__match_args__[0]))

    def __getitem__(self, which: Any) -> Self:
        """The rows that a slice, places or a mask choose."""
        if isinstance(which, np.ndarray) and len(which) > _PIECE_ROWS:
            return self._rows_of_many(np.flatnonzero(which) if which.dtype == np.bool_ else which)
        return type(self)(*[getattr(self, name)[which] for name in self.__match_args__])

    def _rows_of_many(self, places: NDArray[np.int64]) -> Self:
        """By pieces: NumPy lets no other thread run while it picks."""
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
        """What each column holds: the annotation of its field says it."""
        hints = get_type_hints(cls)
        return {name: np.dtype(*get_args(get_args(hints[name])[1])) for name in cls.__dataclass_fields__}

    @classmethod
    def room(cls, count: int) -> list[Any]:
        """Empty columns for so many rows, which a kernel fills."""
        return [np.empty(count, kind) for kind in cls.types().values()]

    @classmethod
    def filled(cls, columns: Sequence[Any], count: int) -> Self:
        """The table of the first rows of such columns."""
        return cls(*(column[:count] for column in columns))

    @classmethod
    def join(cls, parts: Sequence[Self]) -> Self:
        """All rows as one table; of no parts, no rows."""
        parts = [part for part in parts if len(part)] or parts[:1]
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls(*cls.room(0))
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.types()))


def slices(sizes: NDArray[Any], bytes_max: int, rows_max: int | None = None) -> Iterator[slice]:
    """The rows in pieces of at most so many bytes and rows; a row that is larger is a piece of its own."""
    ends = np.cumsum(sizes)
    begin = done = 0
    while begin < len(ends):
        end = max(int(np.searchsorted(ends, done + bytes_max, "right")), begin + 1)
        if rows_max is not None:
            end = min(end, begin + rows_max)
        yield slice(begin, end)
        begin, done = end, int(ends[end - 1])
