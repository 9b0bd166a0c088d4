"""One error tree.

Every error that leaves Flintlog is a `FlintlogError`. It has a stable `code` (a word to search for and to compare), the
place (file and byte offset if known), and advice: what to do next. The command line turns the class into an exit
status.
"""

from __future__ import annotations

import errno as _errno
from typing import Any

EXIT_OK = 0
EXIT_REPAIRABLE = 1
EXIT_USAGE = 2
EXIT_REFUSED = 3
EXIT_UNKNOWN = 4


class FlintlogError(Exception):
    """What happened, where, and what to do next."""

    code = "error"
    exit_status = EXIT_REFUSED

    def __init__(
        self,
        message: str,
        *,
        file: str | None = None,
        offset: int | None = None,
        advice: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.offset = offset
        self.advice = advice

    @property
    def place(self) -> str | None:
        """The file and byte offset as an operator reads them, or None."""
        if self.file is None:
            return None
        return self.file if self.offset is None else f"{self.file}, byte {self.offset}"

    def what(self) -> str:
        """What happened, without the place and the advice."""
        return self.message

    def __str__(self) -> str:
        place = self.place
        text = f"{place}: {self.what()}" if place else self.what()
        return f"{text}. {self.advice}" if self.advice else text

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuilt, (type(self), self.args), self.__dict__  # so that it can be pickled


def _rebuilt(kind: type[FlintlogError], arguments: tuple[Any, ...]) -> FlintlogError:
    error = kind.__new__(kind)
    error.args = arguments
    return error


def tell(error: BaseException, sentence: str) -> None:
    """Add to an error or an interrupt what became of the directory."""
    if isinstance(error, KeyboardInterrupt):
        error.args = (sentence,)
    elif isinstance(error, FlintlogError) and sentence not in (error.advice or ""):
        error.advice = f"{error.advice}. {sentence}" if error.advice else sentence


class UsageError(FlintlogError, ValueError):
    """An argument is wrong, whatever the directory holds."""

    code = "usage"
    exit_status = EXIT_USAGE


class SettingsError(UsageError):
    """A settings file that cannot be read or holds a value of the wrong type."""

    code = "settings"


class NotALogError(FlintlogError):
    """The directory holds nothing that a dialect recognises."""

    code = "not-a-log"
    exit_status = EXIT_UNKNOWN


class UnsupportedError(FlintlogError):
    """A log of ours, in a version or with a value that this release does not know."""

    code = "unsupported"
    exit_status = EXIT_UNKNOWN


class DamageError(FlintlogError):
    """Bytes that cannot be what was written. Nothing was changed."""

    code = "damage"

    def __init__(
        self,
        message: str,
        *,
        code: str,
        file: str | None = None,
        offset: int | None = None,
        expected: str | None = None,
        found: str | None = None,
        advice: str | None = None,
    ) -> None:
        super().__init__(message, file=file, offset=offset, advice=advice)
        self.code = code
        self.expected = expected
        self.found = found

    def what(self) -> str:
        """The message, with what should be there and what is."""
        if self.expected is None and self.found is None:
            return self.message
        return f"{self.message} (expected {self.expected}, found {self.found})"


class RefusedError(FlintlogError):
    """The operation would break a promise, so it was not begun."""

    code = "refused"


class LockedError(RefusedError):
    """Another store writes to this directory."""

    code = "locked"


class ClosedError(RefusedError):
    """The store was closed."""

    code = "closed"


class ForkedError(RefusedError):
    """The store belongs to the parent process, of which this one is a fork."""

    code = "forked"


class StoppedError(RefusedError):
    """A write failed earlier; the store refuses further work until it is opened again."""

    code = "stopped"


class DiskError(FlintlogError, OSError):
    """The system refused a call on a file."""

    code = "disk"

    def __init__(self, call: str, path: str, cause: OSError) -> None:
        number = cause.errno or 0
        FlintlogError.__init__(
            self,
            f"{call} failed: {cause.strerror or cause}",
            file=path,
            advice=_DISK_ADVICE.get(number),
        )
        self.errno = number
        self.call = call
        if number in (_errno.ENOSPC, _errno.EDQUOT):
            self.code = "disk-full"


_DISK_ADVICE = {
    _errno.ENOSPC: "Free space on this file system, then open the directory again; nothing acknowledged is lost",
    _errno.EDQUOT: "Raise the quota or free space, then open the directory again; nothing acknowledged is lost",
    _errno.EMFILE: "Raise the limit of open files (ulimit -Hn), then try again; compacting the log leaves fewer files",
    _errno.EIO: "Check the device (dmesg, smartctl) before opening the directory again",
    _errno.EREMOTE: "Check the address, the network and the credentials, then try again",
    _errno.EACCES: "Check the owner and the permissions of this path",
    _errno.EPERM: "Check the owner and the permissions of this path",
    _errno.EROFS: "The file system is mounted read-only; read verbs still work",
    _errno.ENOENT: "Check the spelling of the path",
    _errno.ELOOP: "This is a symbolic link; put the file itself in its place",
    _errno.ENOTDIR: "A log directory was expected here",
    _errno.EISDIR: "This is a directory; put the file itself in its place, or move it away",
}
