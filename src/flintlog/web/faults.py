"""Errors as the page gets them: a FlintlogError with all its fields, a bug without its trace."""

from __future__ import annotations

import sys
import traceback
from typing import Any

from flintlog.core.follow import LossError
from flintlog.errors import DiskError, FlintlogError, NotALogError, UsageError


class BusyError(FlintlogError):
    """More requests at once than the server answers."""

    code = "busy"


class UnknownError(FlintlogError):
    """There is nothing at this address."""

    code = "not-found"


def error_json(error: FlintlogError) -> dict[str, Any]:
    """What happened, where, and what next."""
    return {
        "code": error.code,
        "message": error.what(),
        "file": error.file,
        "offset": error.offset,
        "advice": error.advice,
        "text": " ".join(str(error).split()),
    }


def status_of(error: FlintlogError) -> int:
    """The HTTP status of an error; 409 when the directory is the reason."""
    match error:
        case UsageError():
            return 400
        case NotALogError() | UnknownError():
            return 404
        case LossError():
            return 410
        case BusyError() | DiskError():
            return 503
        case _:
            return 409


class Faults:
    """Reports bugs: one sentence to the client, and with `--debug` the trace to the standard error."""

    def __init__(self, debug: bool) -> None:
        self._debug = debug

    def tell(self, error: Exception) -> dict[str, Any]:
        if self._debug:
            traceback.print_exception(error, file=sys.stderr)
        return {
            "code": "fault",
            "message": f"{type(error).__name__}: this is a fault in flintlog",
            "file": None,
            "offset": None,
            "advice": "Start flintlog web with --debug; its standard error then shows where",
            "text": f"{type(error).__name__}: this is a fault in flintlog; web --debug shows where",
        }
