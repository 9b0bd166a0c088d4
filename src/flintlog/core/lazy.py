"""A value of an object that is made when it is first asked for.

`functools.cached_property` holds a lock while it makes the value (until Python 3.12). A process that is forked at that
moment finds the lock taken for ever. This one holds none: two threads may both make the value, and their values are
equal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class lazy(Generic[T]):  # noqa: N801 -- it is used as a decorator
    """A property that is computed once."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[T]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> T: ...

    def __get__(self, instance: object | None, owner: type) -> lazy[T] | T:
        if instance is None:
            return self
        value = self._make(instance)
        instance.__dict__[self._name] = value  # found there from now on
        return value
