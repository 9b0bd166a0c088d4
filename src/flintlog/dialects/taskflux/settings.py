"""`taskflux.settings.json` in the root: limits, threshold, data directory.

Key names as the original writes them, in any case. Unknown keys are ignored, with a warning when one looks like a known
key; a known key with a value of the wrong type is refused. Explicit arguments win over the file; unknown arguments are
refused.
"""

from __future__ import annotations

import difflib
import inspect
import json
import logging
import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack

from flintlog.dialects.taskflux.files import SETTINGS_SIZE_MAX, is_data
from flintlog.dialects.taskflux.layout import SETTINGS_FILE
from flintlog.dialects.taskflux.rules import Limits
from flintlog.disk import Disk
from flintlog.errors import SettingsError, UsageError

_log = logging.getLogger("flintlog.taskflux")

_NUMBERS = {
    "logfilesoftlimit": "soft",
    "logfilehardlimit": "hard",
    "snapshotcreationsegmentsthreshold": "threshold",
}
_DATA_DIRECTORY = "datadirectory"
_KEYS = {
    key.lower(): key
    for key in ("LogFileSoftLimit", "LogFileHardLimit", "SnapshotCreationSegmentsThreshold", "DataDirectory")
}
_KEY_LETTERS_MAX = 64  # a longer key is no typing error
_ALIKE = 0.8


@dataclass(frozen=True, slots=True)
class Settings:
    """What the file and the arguments say; `data_directory` holds `data`, None: the root does."""

    limits: Limits = field(default_factory=Limits)
    data_directory: str | None = None


class Arguments(TypedDict, total=False):
    """Arguments that win over the file."""

    soft_limit: int | None
    hard_limit: int | None
    snapshot_threshold: int | None
    data_directory: str | None


def refuse_unknown(store: Callable[..., Any], arguments: Mapping[str, Any]) -> None:
    """Raise for an argument that a store does not have, so that no misspelled setting is lost in silence."""
    own = inspect.signature(store).parameters.values()
    known = [one.name for one in own if one.kind is one.KEYWORD_ONLY] + list(Arguments.__annotations__)
    for name in arguments:
        if name not in Arguments.__annotations__:
            close = difflib.get_close_matches(name, known, n=1)
            meant = f"Did you mean {close[0]}? " if close else ""
            raise UsageError(
                f"there is no argument {name!r}", advice=f"{meant}Known: {', '.join(sorted(known))}"
            )


def load_settings(disk: Disk, root: str, **arguments: Unpack[Arguments]) -> Settings:
    """The settings of a root, explicit arguments first."""
    values = _read(disk, posixpath.join(root, SETTINGS_FILE))
    explicit = {
        "soft": arguments.get("soft_limit"),
        "hard": arguments.get("hard_limit"),
        "threshold": arguments.get("snapshot_threshold"),
    }
    values.update({key: value for key, value in explicit.items() if value is not None})
    directory = arguments.get("data_directory") or _data_directory(disk, root)
    limits = Limits(**values)
    if limits.soft < 0 or limits.threshold < 0:
        raise SettingsError("limits and threshold must not be negative", file=root)
    if limits.hard < limits.soft:
        raise SettingsError(
            f"the hard limit {limits.hard} is below the soft limit {limits.soft}",
            file=root,
            advice="Set LogFileHardLimit to at least LogFileSoftLimit",
        )
    return Settings(limits, _joined(root, directory))


def locate(disk: Disk, path: str) -> str | None:
    """The data directory: `path`, or the one that the settings of the root `path` name; None when it is neither."""
    if is_data(disk, path):
        return path
    data = posixpath.join(_joined(path, _data_directory(disk, path)) or path, "data")
    return data if is_data(disk, data) else None


def _joined(root: str, directory: str | None) -> str | None:
    return posixpath.normpath(posixpath.join(root, directory)) if directory else None


def _data_directory(disk: Disk, root: str) -> str | None:
    """Where `data` stands, as the settings of a root say."""
    path = posixpath.join(root, SETTINGS_FILE)
    for key, value in _parsed(disk, path).items():
        if key.lower() == _DATA_DIRECTORY:
            if not isinstance(value, str) or not value:
                raise SettingsError(f"{key} must be a path, not {value!r}", file=path)
            return value
    return None


def _parsed(disk: Disk, path: str) -> dict[str, Any]:
    found = disk.stat(path)
    if found is None or found.size == 0:
        return {}
    if found.is_directory:
        raise SettingsError("this is a directory", file=path)
    try:
        parsed = json.loads(disk.read(path, SETTINGS_SIZE_MAX))
    except (ValueError, RecursionError) as error:  # RecursionError: nested too deep
        raise SettingsError(f"this is not JSON: {error}", file=path) from None
    if not isinstance(parsed, dict):
        raise SettingsError("a JSON object was expected", file=path)
    return parsed


def _read(disk: Disk, path: str) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in _parsed(disk, path).items():
        lower = key.lower()
        if lower in _NUMBERS:
            if not isinstance(value, int) or isinstance(value, bool):
                raise SettingsError(f"{key} must be a whole number, not {value!r}", file=path)
            values[_NUMBERS[lower]] = value
        elif lower in _KEYS or len(key) > _KEY_LETTERS_MAX:
            continue
        elif close := difflib.get_close_matches(lower, _KEYS, 1, _ALIKE):
            _log.warning(
                "%s: %r is not a setting and has no effect; is %s meant?", path, key, _KEYS[close[0]]
            )
    return values
