"""Errors as the page gets them: a FlintlogError with everything it knows, a fault of ours without its trace."""

from __future__ import annotations

import sys
import traceback
from typing import Any

from flintlog.core.follow import LossError
from flintlog.errors import DiskError, FlintlogError, NotALogError, UsageError


class BusyError(FlintlogError):
    """More is asked for at once than is served."""

    code = "busy"


class UnknownError(FlintlogError):
    """An address that leads nowhere."""

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
    """The HTTP status of an error; what the directory is in the way of is 409."""
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
    """Tells faults of our own: one sentence to the client, the trace to the standard error if that is wanted."""

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
