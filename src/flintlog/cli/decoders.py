"""`dump --decode NAME`: payloads as text, JSON, msgpack or hex, or by your own decoder.

Your own decoder is a function from bytes to a value, named by an entry point of the group `flintlog.decoders`:

    [project.entry-points."flintlog.decoders"]
    orders = "shop.wire:decode_order"
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from flintlog.cli.rows import Row
from flintlog.errors import UsageError

GROUP = "flintlog.decoders"
Decoder = Callable[[bytes], Any]


def _text(payload: bytes) -> str:
    return payload.decode()


def _msgpack(payload: bytes) -> Any:
    import msgpack

    return msgpack.unpackb(payload, strict_map_key=False)


BUILT_IN: dict[str, Decoder] = {"text": _text, "json": json.loads, "msgpack": _msgpack, "hex": bytes.hex}


def find_decoder(name: str) -> Decoder:
    """The decoder of that name: one of ours, or of an installed package."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    from importlib.metadata import entry_points  # slow to load, and only decoders of other packages need it

    installed = entry_points(group=GROUP)
    for point in installed:
        if point.name == name:
            try:
                found: Decoder = point.load()
            except Exception as error:
                raise UsageError(
                    f"the decoder {name!r} ({point.value}) cannot be loaded: {error}",
                    advice="Check the package that brings it",
                ) from error
            return found
    known = ", ".join([*BUILT_IN, *sorted(point.name for point in installed)])
    raise UsageError(
        f"there is no decoder {name!r}",
        advice=f"Known: {known}. Packages add some by the entry points {GROUP}",
    )


class Decoding:
    """Adds what a decoder makes of the payload to each row, and counts what it cannot read."""

    def __init__(self, decoder: Decoder) -> None:
        self._decoder = decoder
        self.failed = 0

    def rows(self, chunks: Iterable[list[Row]]) -> Iterator[list[Row]]:
        for chunk in chunks:
            yield [{**row, "decoded": self._value(row["payload"])} for row in chunk]

    def _value(self, payload: bytes | None) -> Any:
        if payload is None:
            return None
        try:
            return _tidy(self._decoder(payload))
        except Exception:  # a decoder of another package may raise anything
            self.failed += 1
            return None


def _tidy(value: Any) -> Any:
    """A value that JSON can hold."""
    match value:
        case None | bool() | int() | float() | str() | bytes():
            return value
        case dict():
            return {str(_tidy(name)): _tidy(part) for name, part in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_tidy(part) for part in value]
        case _:
            return str(value)
