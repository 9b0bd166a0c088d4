"""The options of a stream beside those of a read, checked and typed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from flintlog.core.follow import OnLoss
from flintlog.errors import UsageError

STREAM_OPTIONS = ("start", "max_entries_per_trigger", "max_bytes_per_trigger", "on_loss")


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """One stream, fully decided. Plain data, so that tasks can have it."""

    start: Literal["earliest", "latest"] = "earliest"
    max_entries: int | None = None
    max_bytes: int | None = None
    on_loss: OnLoss = "fail"
    given: tuple[str, ...] = ()

    def refuse_in_a_batch(self) -> None:
        """Raise when a read that is no stream has one of these options."""
        for name in self.given:
            raise UsageError(f"option {name}: only a stream has it", advice="Use readStream, or leave it out")


def stream_options(given: Mapping[str, str]) -> tuple[StreamOptions, dict[str, str]]:
    """The options of a stream, and the remaining ones."""
    values = {name.lower(): value for name, value in given.items()}
    mine = {name: values.pop(name) for name in STREAM_OPTIONS if name in values}
    start = mine.get("start", "earliest").lower()
    if start not in ("earliest", "latest"):
        raise UsageError(
            f"option start: {start!r} is neither earliest nor latest",
            advice="Leave it out to begin with the first entry",
        )
    on_loss = mine.get("on_loss", "fail").lower()
    if on_loss not in ("fail", "report"):
        raise UsageError(
            f"option on_loss: {on_loss!r} is neither fail nor report",
            advice="Leave it out to end the query at a loss",
        )
    found = StreamOptions(
        start="latest" if start == "latest" else "earliest",
        max_entries=_count(mine, "max_entries_per_trigger"),
        max_bytes=_count(mine, "max_bytes_per_trigger"),
        on_loss="report" if on_loss == "report" else "fail",
        given=tuple(mine),
    )
    return found, values


def _count(values: Mapping[str, str], name: str) -> int | None:
    if name not in values:
        return None
    if not values[name].isdecimal() or not int(values[name]):
        raise UsageError(
            f"option {name}: {values[name]!r} is not a number above zero",
            advice="Leave it out to take all there is",
        )
    return int(values[name])
