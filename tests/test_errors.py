"""Errors tell what happened, where and what to do next, and carry the exit status."""

from __future__ import annotations

import errno

import pytest

from flintlog.errors import (
    ClosedError,
    DamageError,
    DiskError,
    FlintlogError,
    LockedError,
    NotALogError,
    RefusedError,
    SettingsError,
    StoppedError,
    UnsupportedError,
    UsageError,
)


def test_an_error_reads_place_what_and_advice():
    error = FlintlogError("the record is torn", file="log/7.log", offset=12, advice="Run repair")
    assert str(error) == "log/7.log, byte 12: the record is torn. Run repair"
    assert error.place == "log/7.log, byte 12"


def test_an_error_without_a_place_says_only_what_happened():
    assert str(FlintlogError("no")) == "no"
    assert FlintlogError("no").place is None
    assert FlintlogError("no", file="a").place == "a"


def test_damage_names_expected_and_found_and_keeps_the_code_of_its_kind():
    error = DamageError("wrong checksum", code="record-crc", file="a", offset=0, expected="1", found="2")
    assert str(error) == "a, byte 0: wrong checksum (expected 1, found 2)"
    assert (error.code, error.expected, error.found) == ("record-crc", "1", "2")


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (UsageError("x"), "usage", 2),
        (SettingsError("x"), "settings", 2),
        (NotALogError("x"), "not-a-log", 4),
        (UnsupportedError("x"), "unsupported", 4),
        (DamageError("x", code="y"), "y", 3),
        (RefusedError("x"), "refused", 3),
        (LockedError("x"), "locked", 3),
        (ClosedError("x"), "closed", 3),
        (StoppedError("x"), "stopped", 3),
        (DiskError("write", "p", OSError(errno.EIO, "bad")), "disk", 3),
        (DiskError("write", "p", OSError(errno.ENOSPC, "full")), "disk-full", 3),
    ],
)
def test_codes_and_exit_statuses_are_stable(error, code, status):
    assert isinstance(error, FlintlogError)
    assert (error.code, error.exit_status) == (code, status)


def test_usage_errors_are_value_errors_and_disk_errors_are_os_errors():
    assert isinstance(UsageError("x"), ValueError)
    error = DiskError("write", "/p", OSError(errno.ENOSPC, "No space left on device"))
    assert isinstance(error, OSError)
    assert error.errno == errno.ENOSPC
    assert error.call == "write"
    assert str(error).startswith("/p: write failed: No space left on device. Free space")
