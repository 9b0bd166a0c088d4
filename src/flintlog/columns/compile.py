"""Kernels: plain functions over buffers that Numba compiles when there is enough to do.

A small input runs the same function uncompiled, so that looking at a small directory never waits for a
compiler. Large inputs use the compiled form, which releases the interpreter lock and is cached on disk.

A kernel may call *helpers*. A helper has the same body for both, or, where Python has a faster or a wider way
(`int.from_bytes`, unbounded integers), a second body for the compiler.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

import numpy as np

from flintlog.columns import checksum
from flintlog.disk import DEFERRED

P = ParamSpec("P")
R = TypeVar("R")

# Importing the compiler and loading a cached kernel costs about as much as this many bytes cost uncompiled.
COMPILE_BYTES_MIN = 1 << 20
COMPILED_BYTES_MIN = 1 << 13

_helpers: list[tuple[Callable[..., Any], Callable[..., Any]]] = []
_lock = threading.Lock()


def helper(compiled: Callable[..., Any] | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Make a function callable from kernels; `compiled` is the body for the compiler where it differs."""

    def register(function: Callable[P, R]) -> Callable[P, R]:
        _helpers.append((function, compiled or function))
        return function

    return register


class Kernel(Generic[P, R]):
    """A function in two forms, plain and compiled. Call `run` with the number of bytes to work on, then the arguments.

    `python`, if given, is a faster plain form: it handles `times` as many bytes before loading the compiled form pays.
    """

    def __init__(
        self, function: Callable[P, R], python: Callable[P, R] | None = None, times: int = 1
    ) -> None:
        self.python = python or function
        self._function = function
        self._times = times
        self._compiled: Callable[..., R] | None = None
        self._seen = 0  # bytes that ran uncompiled
        self._begun = False
        self.__doc__ = function.__doc__

    def run(self, size: int, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run compiled when `size` bytes are worth it; buffers become what the chosen form needs.

        After many small calls a thread loads the compiled form; no call waits for it.
        """
        if self.worth_compiling(size):
            return self.compiled()(*map(_as_array, args), **kwargs)
        if self._seen >= COMPILE_BYTES_MIN * self._times and not self._begun and self._compiled is None:
            with DEFERRED:
                self._begun = True
                threading.Thread(target=self._load, args=args, name="flintlog-compile").start()
        return self.python(*args, **kwargs)

    def worth_compiling(self, size: int) -> bool:
        """Is the compiled form the faster one for `size` bytes?"""
        if self._compiled is not None:
            return size >= COMPILED_BYTES_MIN
        self._seen += size
        return size >= COMPILE_BYTES_MIN * self._times

    def compiled(self) -> Callable[..., R]:
        """The compiled form; built or loaded from the cache at the first call."""
        if self._compiled is None:
            with DEFERRED, _lock:
                self._compiled = self._compiled or _whole(_dispatcher(self._function))
        return self._compiled

    def _load(self, *args: Any) -> None:
        """Make the compiled form ready for arguments like these."""
        with _lock:
            dispatcher = _dispatcher(self._function)
        dispatcher.compile(tuple(dispatcher.typeof_pyval(_as_array(argument)) for argument in args))
        self._compiled = self._compiled or _whole(dispatcher)


def _dispatcher(function: Callable[..., Any]) -> Any:
    import numba

    _register_helpers()
    try:
        return numba.njit(cache=True, nogil=True)(function)
    except RuntimeError:  # nowhere to keep a cache, as on a read-only system: compile each time
        return numba.njit(nogil=True)(function)


def _whole(compiled: Callable[..., R]) -> Callable[..., R]:
    """Defer signals during each call: a call may compile, and an interrupted compiler stays broken."""

    def call(*args: Any, **kwargs: Any) -> R:
        with DEFERRED:
            return compiled(*args, **kwargs)

    return call


def kernel(function: Callable[P, R]) -> Kernel[P, R]:
    """Declare a kernel."""
    return Kernel(function)


def kernel_beside(python: Callable[P, R], *, times: int) -> Callable[[Callable[P, R]], Kernel[P, R]]:
    """Declare a kernel with `python` as its plain form; `times` is that of `Kernel`."""
    return lambda function: Kernel(function, python, times)


def _as_array(argument: object) -> object:
    if isinstance(argument, bytes | memoryview):
        return np.frombuffer(memoryview(argument).toreadonly(), dtype=np.uint8)
    return argument


def _register_helpers() -> None:
    from numba.extending import overload

    checksum.register_numba()
    while _helpers:
        python, compiled = _helpers.pop()
        # Not strict: Numba would compare annotations too, and the two bodies are told apart by them on purpose.
        overload(python, strict=False)(_returning(compiled))


def _returning(body: Callable[..., Any]) -> Callable[..., Any]:
    # An overload is a function of the argument types that returns the body; its parameter names must match.
    import inspect

    names = ", ".join(inspect.signature(body).parameters)
    scope: dict[str, Any] = {"body": body}
    exec(f"def overloaded({names}): return body", scope)
    result: Callable[..., Any] = scope["overloaded"]
    return result


def _be32(buffer: Any, at: int) -> Any:
    place = np.uint64(at)  # Numba does not check an unsigned index for being negative: this becomes one load
    value = np.int64(0)
    for index in range(4):
        value = (value << 8) | np.int64(buffer[place + np.uint64(index)])
    return value


def _be64(buffer: Any, at: int) -> Any:
    place = np.uint64(at)
    value = np.int64(0)
    for index in range(8):
        value = (value << 8) | np.int64(buffer[place + np.uint64(index)])
    return value


@helper(compiled=_be32)
def be32(buffer: Any, at: int) -> int:
    """An unsigned 32-bit big-endian integer."""
    return int.from_bytes(buffer[at : at + 4], "big")


@helper(compiled=_be64)
def be64(buffer: Any, at: int) -> int:
    """A signed 64-bit big-endian integer."""
    return int.from_bytes(buffer[at : at + 8], "big", signed=True)


def _le32(buffer: Any, at: int) -> Any:
    place = np.uint64(at)
    value = np.int64(0)
    for index in range(4):
        value |= np.int64(buffer[place + np.uint64(index)]) << (8 * index)
    return value


def _le64(buffer: Any, at: int) -> Any:
    place = np.uint64(at)
    value = np.uint64(0)
    for index in range(8):
        value |= np.uint64(buffer[place + np.uint64(index)]) << np.uint64(8 * index)
    return value


@helper(compiled=_le32)
def le32(buffer: Any, at: int) -> int:
    """An unsigned 32-bit little-endian integer."""
    return int.from_bytes(buffer[at : at + 4], "little")


@helper(compiled=_le64)
def le64(buffer: Any, at: int) -> int:
    """An unsigned 64-bit little-endian integer; compiled, it stays unsigned."""
    return int.from_bytes(buffer[at : at + 8], "little")


def _window(buffer: Any, at: int, end: int) -> Any:
    if end - at >= 8:
        place = np.uint64(at)
        value = np.uint64(0)
        for index in range(8):
            value = (value << np.uint64(8)) | np.uint64(buffer[place + np.uint64(index)])
        return value
    value = np.uint64(0)
    for index in range(at, end):
        value = (value << np.uint64(8)) | np.uint64(buffer[index])
    return value << np.uint64(8 * (8 - (end - at))) if end > at else value


@helper(compiled=_window)
def window(buffer: Any, at: int, end: int) -> int:
    """Up to eight bytes as a number that sorts like them: big-endian, filled with zeros."""
    return int.from_bytes(bytes(buffer[at : min(end, at + 8)]).ljust(8, b"\0"), "big")
